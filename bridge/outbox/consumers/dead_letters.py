"""Dead letters: records that a sink rejected, and the later records of the same objects, which are parked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import apsw

from bridge.model.admin import DeadLetter, DeadLetterChain, UnknownTarget
from bridge.model.record import NO_OBJECT, Delta, NewDeadLetter, OrderingKey, Record, RetriedDeadLetter
from bridge.outbox.encryption import Cipher, Letter
from bridge.outbox.log import record_codec
from bridge.outbox.storage.database import one
from bridge.outbox.store import Store

MOST = 100_000
"""Dead letters of a sink. Memory holds the number and the object of each."""


@dataclass(frozen=True, slots=True)
class SavedDeadLetters:
    """The dead letters of a sink at the start of the process."""

    dead_letters: Mapping[int, tuple[OrderingKey, int, bool]]
    """Number → ordering key of the object, the record's number, and whether it was parked without an attempt."""
    retrying: bool


class DeadLetters:
    """The dead letters of a sink. A dead letter is durable when ``add_dead_letters`` returns, and survives a crash with
    its record, so the log can be trimmed behind it."""

    def __init__(self, store: Store, sink: str, found: SavedDeadLetters, most: int = MOST) -> None:
        self._store = store
        self._cipher = store.cipher
        self._sink = sink
        self._most = most
        self._has_changed = asyncio.Event()
        self._objects: dict[int, OrderingKey] = {}
        self._parked: set[int] = set()
        self._by_object: dict[OrderingKey, dict[int, int]] = {}
        self.keys: dict[OrderingKey, int] = {}
        """Objects that have a dead letter → the sequence number of their first."""
        self.retrying = found.retrying
        """True while some dead letters are marked for another delivery."""
        self.newest_at_start = max((sequence for _, sequence, _ in found.dead_letters.values()), default=0)
        """The highest sequence number of a dead letter that was there when the state was opened; 0 without any."""
        for number, (key, sequence, parked) in found.dead_letters.items():
            self._note(number, key, sequence, parked)

    def __len__(self) -> int:
        return len(self._objects)

    @property
    def parked(self) -> int:
        """Number of dead letters that were parked without an attempt."""
        return len(self._parked)

    async def add_dead_letters(self, new_dead_letters: Sequence[NewDeadLetter]) -> Sequence[int | None]:
        """Appends dead letters in this order. A record that is a dead letter already keeps its single entry. Waits
        while the sink has ``most`` dead letters: a sink that rejects everything then blocks itself, and its backlog
        has a bound. Does not wait while dead letters are marked for retry: the caller retries them itself, after
        this call. Returns the number of each; None for a record that is one already."""
        while len(self._objects) >= self._most and not self.retrying:
            self._has_changed.clear()
            await self._has_changed.wait()
        dead_letters = [row_of(self._sink, each) for each in new_dead_letters]
        added = partial(insert, dead_letters=dead_letters, cipher=self._cipher)
        numbers, _ = await self._store.write(
            added,
            committed=lambda done: self._note_added(new_dead_letters, *done),
            shrinks=True,
        )
        return numbers

    async def next_retries(self, limit: int) -> Sequence[RetriedDeadLetter]:
        """The oldest dead letters that are marked for retry, at most ``limit``, in the order of their numbers. Raises
        Damaged."""
        # Reset before the read: a retry that an operator asks for meanwhile sets it again, and is not lost.
        self.retrying = False
        found = await self._store.ask(partial(next_retries, sink=self._sink, limit=limit))
        self.retrying = self.retrying or bool(found)
        return [
            RetriedDeadLetter(number, record_codec.decode_record(each.content(self._cipher))) for number, each in found
        ]

    async def delivered(self, numbers: Sequence[int]) -> None:
        """Deletes dead letters that reached the destination."""
        await self._store.write(partial(delete, sink=self._sink, numbers=numbers), committed=self._forget, shrinks=True)

    async def rejected_again(self, number: int, reason: str, answer: str) -> None:
        """Keeps a dead letter whose retry failed, and unmarks the later ones of its object until an operator asks for
        another retry."""
        reject = partial(
            reject_again,
            sink=self._sink,
            number=number,
            reason=reason,
            answer=answer,
            cipher=self._cipher,
        )
        await self._store.write(reject, shrinks=True)
        self._parked.discard(number)

    # ── Commands of an operator ──────────────────────────────────────────────

    async def retry(self, numbers: Sequence[int] | None) -> int:
        """See AdminOperations.retry."""
        count = await self._store.write(partial(_mark_for_retry, sink=self._sink, numbers=numbers), asked=True)
        self.retrying = self.retrying or count > 0
        self._has_changed.set()
        return count

    async def drop(self, numbers: Sequence[int] | None) -> int:
        """See AdminOperations.drop."""
        deleted, _ = await self._store.write(
            partial(_drop, sink=self._sink, numbers=numbers),
            committed=lambda done: self._note_dropped(*done),
            asked=True,
        )
        return len(deleted)

    # ── After the commit ─────────────────────────────────────────────────────

    # The writer calls these even if the caller of the method was cancelled: memory has to follow the database.

    def _note_added(
        self, new_dead_letters: Sequence[NewDeadLetter], numbers: Sequence[int | None], released: bool
    ) -> None:
        for number, each in zip(numbers, new_dead_letters, strict=True):
            if number is not None:
                self._note(number, each.record.ordering_key, each.record.sequence, each.parked)
        self.retrying = self.retrying or released

    def _note_dropped(self, deleted: Sequence[int], released: bool) -> None:
        self._forget(deleted)
        self.retrying = self.retrying or released

    def _note(self, number: int, key: OrderingKey, sequence: int, parked: bool) -> None:
        self._objects[number] = key
        if parked:
            self._parked.add(number)
        if key != NO_OBJECT:
            self._by_object.setdefault(key, {})[number] = sequence
            self.keys.setdefault(key, sequence)

    def _forget(self, numbers: Iterable[int]) -> None:
        self._has_changed.set()
        for number in numbers:
            key = self._objects.pop(number)
            self._parked.discard(number)
            if key == NO_OBJECT:
                continue
            del self._by_object[key][number]
            if self._by_object[key]:
                self.keys[key] = next(iter(self._by_object[key].values()))
            else:
                del self._by_object[key], self.keys[key]


# ── In the database ──────────────────────────────────────────────────────────


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


def listed(
    database: apsw.Connection, sink: str | None, after: int, limit: int, cipher: Cipher | None
) -> list[DeadLetter]:
    """At most ``limit`` dead letters with numbers above ``after``, of one sink or (None) of all."""
    found = database.execute(
        f"SELECT number, resource_name, key, parked, retrying, {Letter.COLUMNS} FROM dead_letters"
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
        f" {Letter.COLUMNS} FROM dead_letters JOIN objects USING (sink, resource_name, key)"
        " WHERE number > ?2 AND (number = first OR NOT waiting) ORDER BY number LIMIT ?3",
        (sink, after, limit),
    )
    return [DeadLetterChain(_dead_letter_of(row, cipher), rejected, parked) for rejected, parked, *row in found]


def record_of(database: apsw.Connection, number: int, cipher: Cipher | None) -> Record:
    """The record of a dead letter. Raises UnknownTarget."""
    found = database.execute(f"SELECT {Letter.COLUMNS} FROM dead_letters WHERE number = ?", (number,)).fetchone()
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
    query = f"SELECT number, {Letter.COLUMNS} FROM dead_letters WHERE sink = ? AND retrying ORDER BY number LIMIT ?"
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
        f"SELECT resource_name, key, {Letter.COLUMNS} FROM dead_letters WHERE number = ? AND sink = ?", (number, sink)
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


# ── In the database: commands of an operator ────────────────────────────────────


def _mark_for_retry(database: apsw.Connection, sink: str, numbers: Sequence[int] | None) -> int:
    """Marks dead letters for retry: these numbers, or all (None). If an object has parked dead letters, all of that
    object are marked, to keep their order. Returns how many these are. Raises UnknownTarget."""
    if numbers is None:
        database.execute("UPDATE dead_letters SET retrying = 1 WHERE sink = ?", (sink,))
        return database.changes()
    alone: set[int] = set()
    chains: dict[tuple[str, str], int] = {}
    for number, name, key in _named(database, sink, numbers):
        if (name, key) in chains:
            continue
        database.execute("UPDATE dead_letters SET retrying = 1 WHERE number = ?", (number,))
        chain = one(
            database,
            "SELECT EXISTS (SELECT 1 FROM dead_letters WHERE sink = ? AND resource_name = ? AND key = ? AND parked)",
            (sink, name, key),
        )
        if chain:
            database.execute(
                "UPDATE dead_letters SET retrying = 1 WHERE sink = ? AND resource_name = ? AND key = ?",
                (sink, name, key),
            )
            chains[name, key] = database.changes()
        else:
            alone.add(number)
    return len(alone) + sum(chains.values())


def _drop(database: apsw.Connection, sink: str, numbers: Sequence[int] | None) -> tuple[list[int], bool]:
    """Deletes dead letters: these numbers, or all (None). Parked ones without a rejected one left in front are marked
    for retry. Returns the deleted numbers, and whether some were marked. Raises UnknownTarget."""
    if numbers is None:
        deleted = [
            row[0] for row in database.execute("DELETE FROM dead_letters WHERE sink = ? RETURNING number", (sink,))
        ]
        return deleted, False
    named = _named(database, sink, numbers)
    deleted = delete(database, sink, [number for number, _, _ in named])
    released = 0
    for name, key in dict.fromkeys((name, key) for _, name, key in named):
        of_object = "sink = ?1 AND resource_name = ?2 AND key = ?3"
        first_rejected = f"(SELECT min(number) FROM dead_letters WHERE {of_object} AND NOT parked)"
        database.execute(
            f"UPDATE dead_letters SET retrying = 1 WHERE {of_object} AND parked"
            f" AND number < coalesce({first_rejected}, number + 1)",
            (sink, name, key),
        )
        released += database.changes()
    return deleted, released > 0


def _named(database: apsw.Connection, sink: str, numbers: Sequence[int]) -> list[tuple[int, str, str]]:
    found = []
    for number in numbers:
        row = database.execute(
            "SELECT number, resource_name, key FROM dead_letters WHERE number = ? AND sink = ?", (number, sink)
        ).fetchone()
        if row is None:
            raise UnknownTarget(f"sink {sink} has no dead letter {number}")
        found.append(row)
    return found
