"""Dead letters: records that a sink rejected, and the later records of the same objects, which are parked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import apsw

from bridge.model.admin import DeadLetter, DeadLetterChain, UnknownTarget
from bridge.model.record import NO_OBJECT, Delta, NewDeadLetter, OrderingKey, Record, RetriedDeadLetter
from bridge.outbox.encryption import Cipher, Letter
from bridge.outbox.log import record_codec
from bridge.outbox.storage.database import columns, one, places, rows_of
from bridge.outbox.store import Store

MOST = 100_000
"""Dead letters of a sink. Memory holds the number and the object of each."""


class SavedDeadLetter(NamedTuple):
    """What memory has of a dead letter."""

    key: OrderingKey
    """Of the object."""
    sequence: int
    """The record's number."""
    parked: bool
    """Without an attempt."""


@dataclass(frozen=True, slots=True)
class SavedDeadLetters:
    """The dead letters of a sink at the start of the process."""

    dead_letters: Mapping[int, SavedDeadLetter]
    """By their numbers."""
    retrying: bool


class DeadLetters:
    """The dead letters of a sink. A dead letter is durable when ``add_dead_letters`` returns, and survives a crash with
    its record, so the log can be trimmed behind it."""

    def __init__(self, store: Store, sink: str, found: SavedDeadLetters) -> None:
        self._store = store
        self._cipher = store.cipher
        self._sink = sink
        self._has_changed = asyncio.Event()
        self._objects: dict[int, OrderingKey] = {}
        self._parked: set[int] = set()
        self._by_object: dict[OrderingKey, dict[int, int]] = {}
        self.keys: dict[OrderingKey, int] = {}
        """Object → sequence number of its first dead letter. Read for every batch. An earlier record of the object is
        not blocked by that dead letter: it comes again when a crash came before it was settled."""
        self.retrying = found.retrying
        """True while some dead letters are marked for another delivery."""
        self.newest_at_start = max((each.sequence for each in found.dead_letters.values()), default=0)
        """The highest sequence number of a dead letter that was there when the state was opened; 0 without any."""
        for number, each in found.dead_letters.items():
            self._note(number, each)

    def __len__(self) -> int:
        return len(self._objects)

    @property
    def parked(self) -> int:
        """Number of dead letters that were parked without an attempt."""
        return len(self._parked)

    async def add_dead_letters(self, new_dead_letters: Sequence[NewDeadLetter]) -> Sequence[int | None]:
        """Appends dead letters in this order. Returns when they are durable: only then may their fetch be settled. A
        record that is a dead letter already keeps its single entry: a crash came before its fetch was settled. If every
        earlier dead letter of the object is marked for retry, or was dropped, a newly parked record is marked, too:
        otherwise no operator would know to retry it.

        Waits while the sink has ``MOST`` dead letters: a sink that rejects everything then blocks itself, and its
        backlog has a bound. Does not wait while dead letters are marked for retry: the caller retries them itself,
        after this call. Returns the number of each; None for a record that is one already."""
        while len(self._objects) >= MOST and not self.retrying:
            self._has_changed.clear()
            await self._has_changed.wait()
        added = partial(insert, sink=self._sink, new=new_dead_letters, cipher=self._cipher)
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
            RetriedDeadLetter(each.number, record_codec.decode_record(each.letter.content(self._cipher)))
            for each in found
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
                self._note(number, SavedDeadLetter(each.record.ordering_key, each.record.sequence, each.parked))
        self.retrying = self.retrying or released

    def _note_dropped(self, deleted: Sequence[int], released: bool) -> None:
        self._forget(deleted)
        self.retrying = self.retrying or released

    def _note(self, number: int, saved: SavedDeadLetter) -> None:
        self._objects[number] = saved.key
        if saved.parked:
            self._parked.add(number)
        if saved.key != NO_OBJECT:
            self._by_object.setdefault(saved.key, {})[number] = saved.sequence
            self.keys.setdefault(saved.key, saved.sequence)

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


class DeadLetterRow(NamedTuple):
    """A row of ``dead_letters``."""

    number: int
    sink: str
    seq: int
    record_id: str
    resource_name: str
    key: str
    reason: str
    parked: int
    retrying: int
    record: bytes
    answer: str
    sealed: bytes | None

    @property
    def letter(self) -> Letter:
        return Letter(self.sink, self.seq, self.record_id, self.record, self.reason, self.answer, self.sealed)


_SELECT = f"SELECT {columns(DeadLetterRow)} FROM dead_letters"


class _WaitingRow(NamedTuple):
    """The columns of a row that have no content."""

    number: int
    sink: str
    resource_name: str
    key: str
    seq: int
    parked: int
    retrying: int


def load(database: apsw.Connection, sinks: Iterable[str]) -> dict[str, SavedDeadLetters]:
    """The dead letters of these sinks, and of every other sink that has some."""
    dead_letters: dict[str, dict[int, SavedDeadLetter]] = {sink: {} for sink in sinks}
    again: set[str] = set()
    for each in rows_of(database, _WaitingRow, f"SELECT {columns(_WaitingRow)} FROM dead_letters ORDER BY number"):
        saved = SavedDeadLetter((each.resource_name, each.key), each.seq, bool(each.parked))
        dead_letters.setdefault(each.sink, {})[each.number] = saved
        if each.retrying:
            again.add(each.sink)
    return {sink: SavedDeadLetters(those, sink in again) for sink, those in dead_letters.items()}


def all_rows(database: apsw.Connection) -> Iterator[DeadLetterRow]:
    """All dead letters, by number."""
    return rows_of(database, DeadLetterRow, f"{_SELECT} ORDER BY number")


def listed(
    database: apsw.Connection, sink: str | None, after: int, limit: int, cipher: Cipher | None
) -> list[DeadLetter]:
    """At most ``limit`` dead letters with numbers above ``after``, of one sink or (None) of all."""
    query = f"{_SELECT} WHERE number > ?1 AND (?2 IS NULL OR sink = ?2) ORDER BY number LIMIT ?3"
    return [_dead_letter_of(each, cipher) for each in rows_of(database, DeadLetterRow, query, (after, sink, limit))]


def chains(
    database: apsw.Connection, sink: str | None, after: int, limit: int, cipher: Cipher | None
) -> list[DeadLetterChain]:
    """At most ``limit`` chains, whose first dead letters have numbers above ``after``; of one sink or (None) of all.
    Counts all dead letters, for each page."""
    found = database.execute(
        "WITH objects AS MATERIALIZED (SELECT sink, resource_name, key, min(number) AS first,"
        " count(*) FILTER (WHERE NOT parked) AS rejected, count(*) FILTER (WHERE parked) AS waiting"
        " FROM dead_letters WHERE ?1 IS NULL OR sink = ?1 GROUP BY sink, resource_name, key)"
        f" SELECT iif(waiting, rejected, 1), waiting, {columns(DeadLetterRow)}"
        " FROM dead_letters JOIN objects USING (sink, resource_name, key)"
        " WHERE number > ?2 AND (number = first OR NOT waiting) ORDER BY number LIMIT ?3",
        (sink, after, limit),
    )
    return [
        DeadLetterChain(_dead_letter_of(DeadLetterRow._make(row), cipher), rejected, parked)
        for rejected, parked, *row in found
    ]


def record_of(database: apsw.Connection, number: int, cipher: Cipher | None) -> Record:
    """The record of a dead letter. Raises UnknownTarget."""
    for found in rows_of(database, DeadLetterRow, f"{_SELECT} WHERE number = ?", (number,)):
        return record_codec.decode_record(found.letter.content(cipher))
    raise UnknownTarget(f"there is no dead letter {number}")


def insert(
    database: apsw.Connection, sink: str, new: Sequence[NewDeadLetter], cipher: Cipher | None
) -> tuple[list[int | None], bool]:
    """Returns the number of each inserted row (None for a duplicate), and whether an inserted row can be retried at
    once. A parked record is marked for retry if every earlier dead letter of its object is marked: otherwise no
    operator's request would ever cover it."""
    numbers: list[int | None] = []
    released = False
    for each in new:
        record, (name, key) = each.record, each.record.ordering_key
        if one(
            database,
            "SELECT EXISTS (SELECT 1 FROM dead_letters WHERE sink = ? AND seq = ? AND record_id = ?)",
            (sink, record.sequence, record.id),
        ):
            numbers.append(None)
            continue
        content = record_codec.encode_record(record)
        letter = Letter(sink, record.sequence, record.id, content, each.reason, each.answer).encrypted(cipher)
        waits = one(
            database,
            "SELECT EXISTS (SELECT 1 FROM dead_letters"
            " WHERE sink = ? AND resource_name = ? AND key = ? AND NOT retrying)",
            (sink, name, key),
        )
        again = each.parked and not waits
        # A number is used once, also behind a takeover: a copy of the database does not have SQLite's own counters.
        number = one(database, "UPDATE meta SET dead_letters = dead_letters + 1 RETURNING dead_letters")
        database.execute(
            f"INSERT INTO dead_letters ({columns(DeadLetterRow)}) VALUES ({places(DeadLetterRow)})",
            DeadLetterRow(
                number,
                sink,
                record.sequence,
                record.id,
                name,
                key,
                letter.reason,
                int(each.parked),
                int(again),
                letter.record,
                letter.answer,
                letter.sealed,
            ),
        )
        numbers.append(number)
        released = released or again
    return numbers, released


def next_retries(database: apsw.Connection, sink: str, limit: int) -> list[DeadLetterRow]:
    query = f"{_SELECT} WHERE sink = ? AND retrying ORDER BY number LIMIT ?"
    return [*rows_of(database, DeadLetterRow, query, (sink, limit))]


def delete(database: apsw.Connection, sink: str, numbers: Sequence[int]) -> list[int]:
    deleted: list[int] = []
    for number in numbers:
        found = database.execute(
            "DELETE FROM dead_letters WHERE number = ? AND sink = ? RETURNING number", (number, sink)
        )
        deleted += [row[0] for row in found]
    return deleted


def reject_again(
    database: apsw.Connection, sink: str, number: int, reason: str, answer: str, cipher: Cipher | None
) -> None:
    query = f"{_SELECT} WHERE number = ? AND sink = ?"
    for row in [*rows_of(database, DeadLetterRow, query, (number, sink))]:
        letter = row.letter._replace(reason=reason, answer=answer, sealed=None).encrypted(cipher)
        database.execute(
            "UPDATE dead_letters SET record = ?, reason = ?, answer = ?, sealed = ?, parked = 0, retrying = 0"
            " WHERE number = ?",
            (letter.record, letter.reason, letter.answer, letter.sealed, number),
        )
        database.execute(
            "UPDATE dead_letters SET retrying = 0"
            " WHERE sink = ? AND resource_name = ? AND key = ? AND number > ? AND parked",
            (sink, row.resource_name, row.key, number),
        )


def _dead_letter_of(row: DeadLetterRow, cipher: Cipher | None) -> DeadLetter:
    letter = row.letter
    record = record_codec.decode_record(letter.content(cipher))
    reason, answer = letter.texts(cipher)
    op = record.op.value if isinstance(record, Delta) else type(record).__name__.lower()
    return DeadLetter(
        row.number,
        row.sink,
        record.sequence,
        record.id,
        row.resource_name,
        row.key,
        op,
        record.time,
        reason,
        bool(row.parked),
        bool(row.retrying),
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
