"""SQL of the dead letters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import apsw

from bridge.model.admin import DeadLetter, DeadLetterChain, UnknownTarget
from bridge.model.record import Delta, NewDeadLetter, OrderingKey, Record
from bridge.outbox.encryption.cipher import Cipher, Letter
from bridge.outbox.log import record_codec
from bridge.outbox.storage.database import one


@dataclass(frozen=True, slots=True)
class SavedDeadLetters:
    """The dead letters of a sink at the start of the process."""

    dead_letters: Mapping[int, tuple[OrderingKey, int, bool]]
    """Number → ordering key of the object, the record's number, and whether it was parked without an attempt."""
    retrying: bool


def load(database: apsw.Connection, sinks: Iterable[str]) -> dict[str, SavedDeadLetters]:
    """The dead letters of these sinks, and of every other sink that has some."""
    dead_letters: dict[str, dict[int, tuple[OrderingKey, int, bool]]] = {sink: {} for sink in sinks}
    again: set[str] = set()
    found = database.execute(
        "SELECT number, sink, resource_name, key, seq, parked, retrying FROM dead_letters ORDER BY number"
    )
    for number, sink, name, key, sequence, parked, retrying in found:
        dead_letters.setdefault(sink, {})[number] = ((name, key), sequence, bool(parked))
        if retrying:
            again.add(sink)
    return {sink: SavedDeadLetters(those, sink in again) for sink, those in dead_letters.items()}


_LETTER = "sink, seq, record_id, record, reason, answer, sealed"


def sealed_rows(database: apsw.Connection) -> Iterator[tuple[int, Letter]]:
    """All dead letters, by number."""
    for number, *columns in database.execute(f"SELECT number, {_LETTER} FROM dead_letters ORDER BY number"):
        yield number, Letter(*columns)


def listed(
    database: apsw.Connection, sink: str | None, after: int, limit: int, cipher: Cipher | None
) -> list[DeadLetter]:
    """At most ``limit`` dead letters with numbers above ``after``, of one sink or (None) of all."""
    found = database.execute(
        f"SELECT number, resource_name, key, parked, retrying, {_LETTER} FROM dead_letters"
        " WHERE number > ? AND (? IS NULL OR sink = ?) ORDER BY number LIMIT ?",
        (after, sink, sink, limit),
    )
    return [_dead_letter_of(row, cipher) for row in found]


def chains(
    database: apsw.Connection, sink: str | None, after: int, limit: int, cipher: Cipher | None
) -> list[DeadLetterChain]:
    """At most ``limit`` chains, whose first dead letters have numbers above ``after``; of one sink or (None) of all.
    Counts all dead letters, for each page."""
    found = database.execute(
        "WITH objects AS MATERIALIZED (SELECT sink, resource_name, key, min(number) AS first,"
        " count(*) FILTER (WHERE NOT parked) AS rejected, count(*) FILTER (WHERE parked) AS waiting"
        " FROM dead_letters WHERE ?1 IS NULL OR sink = ?1 GROUP BY sink, resource_name, key)"
        " SELECT iif(waiting, rejected, 1), waiting, number, resource_name, key, parked, retrying,"
        f" {_LETTER} FROM dead_letters JOIN objects USING (sink, resource_name, key)"
        " WHERE number > ?2 AND (number = first OR NOT waiting) ORDER BY number LIMIT ?3",
        (sink, after, limit),
    )
    return [DeadLetterChain(_dead_letter_of(row, cipher), rejected, parked) for rejected, parked, *row in found]


def record_of(database: apsw.Connection, number: int, cipher: Cipher | None) -> Record:
    """The record of a dead letter. Raises UnknownTarget."""
    found = database.execute(f"SELECT {_LETTER} FROM dead_letters WHERE number = ?", (number,)).fetchone()
    if found is None:
        raise UnknownTarget(f"there is no dead letter {number}")
    return record_codec.decode_record(Letter(*found).content(cipher))


def row_of(sink: str, new: NewDeadLetter) -> tuple[Any, ...]:
    """For ``insert``."""
    record = new.record
    content = record_codec.encode_record(record)
    return sink, record.sequence, record.id, *record.ordering_key, new.reason, int(new.parked), content, new.answer


def insert(
    database: apsw.Connection, dead_letters: Sequence[tuple[Any, ...]], cipher: Cipher | None = None
) -> tuple[list[int | None], bool]:
    """Returns the number of each inserted row (None for a duplicate), and whether an inserted row can be retried at
    once. A parked record is marked for retry if every earlier dead letter of its object is marked: otherwise no
    operator's request would ever cover it."""
    numbers: list[int | None] = []
    released = False
    for dead_letter in dead_letters:
        sink, sequence, record_id, name, key, reason, parked, record, answer = dead_letter
        if one(
            database,
            "SELECT EXISTS (SELECT 1 FROM dead_letters WHERE sink = ? AND seq = ? AND record_id = ?)",
            (sink, sequence, record_id),
        ):
            numbers.append(None)
            continue
        letter = Letter(sink, sequence, record_id, record, reason, answer, None).encrypted(cipher)
        waits = one(
            database,
            "SELECT EXISTS (SELECT 1 FROM dead_letters"
            " WHERE sink = ? AND resource_name = ? AND key = ? AND NOT retrying)",
            (sink, name, key),
        )
        again = int(parked and not waits)
        # A number is used once, also behind a takeover: a copy of the database does not have SQLite's own counters.
        number = one(database, "UPDATE meta SET dead_letters = dead_letters + 1 RETURNING dead_letters")
        database.execute(
            "INSERT INTO dead_letters (number, sink, seq, record_id, resource_name, key, parked, retrying, record,"
            " reason, answer, sealed) VALUES (?,?,?,?,?,?,?,?,?,?,?,?)",
            (number, sink, sequence, record_id, name, key, parked, again, *letter[3:]),
        )
        numbers.append(number)
        released = released or bool(again)
    return numbers, released


def next_retries(database: apsw.Connection, sink: str, limit: int) -> list[tuple[int, Letter]]:
    query = f"SELECT number, {_LETTER} FROM dead_letters WHERE sink = ? AND retrying ORDER BY number LIMIT ?"
    return [(number, Letter(*columns)) for number, *columns in database.execute(query, (sink, limit))]


def delete(database: apsw.Connection, sink: str, numbers: Sequence[int]) -> list[int]:
    deleted: list[int] = []
    for number in numbers:
        found = database.execute(
            "DELETE FROM dead_letters WHERE number = ? AND sink = ? RETURNING number", (number, sink)
        )
        deleted += [row[0] for row in found]
    return deleted


def reject_again(
    database: apsw.Connection, sink: str, number: int, reason: str, answer: str, cipher: Cipher | None = None
) -> None:
    row = database.execute(
        f"SELECT resource_name, key, {_LETTER} FROM dead_letters WHERE number = ? AND sink = ?", (number, sink)
    ).fetchone()
    if row is None:
        return
    name, key, *columns = row
    letter = Letter(*columns)._replace(reason=reason, answer=answer, sealed=None).encrypted(cipher)
    database.execute(
        "UPDATE dead_letters SET record = ?, reason = ?, answer = ?, sealed = ?, parked = 0, retrying = 0"
        " WHERE number = ?",
        (*letter[3:], number),
    )
    database.execute(
        "UPDATE dead_letters SET retrying = 0"
        " WHERE sink = ? AND resource_name = ? AND key = ? AND number > ? AND parked",
        (sink, name, key, number),
    )


def _dead_letter_of(row: Sequence[Any], cipher: Cipher | None) -> DeadLetter:
    number, name, key, parked, retrying, *columns = row
    letter = Letter(*columns)
    record = record_codec.decode_record(letter.content(cipher))
    reason, answer = letter.texts(cipher)
    op = record.op.value if isinstance(record, Delta) else type(record).__name__.lower()
    return DeadLetter(
        number,
        letter.sink,
        record.sequence,
        record.id,
        name,
        key,
        op,
        record.time,
        reason,
        bool(parked),
        bool(retrying),
        answer,
    )
