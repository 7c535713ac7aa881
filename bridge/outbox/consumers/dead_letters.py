"""Dead letters: records that a sink rejected, and the later records of the same objects, which are parked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import apsw

from bridge.model.admin import DeadLetter, UnknownTarget
from bridge.model.dead_letter import NewDeadLetter, RetriedDeadLetter
from bridge.model.record import NO_OBJECT, Delta, Record
from bridge.outbox.log import record_codec
from bridge.outbox.storage.sql import one
from bridge.outbox.store import Store

OrderingKey: TypeAlias = tuple[str, str]
MOST = 100_000
"""Dead letters of a sink. Memory holds the number and the object of each."""


@dataclass(frozen=True, slots=True)
class SavedDeadLetters:
    """The dead letters of a sink at the start of the process."""

    dead_letters: Mapping[int, tuple[OrderingKey, int, bool]]
    """Number → ordering key of the object, the record's sequence number, and whether the record was parked without an
    attempt."""
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


class DeadLetters:
    """The dead letters of a sink. A dead letter is durable when ``add_dead_letters`` returns, and survives a crash with
    its record, so the log can be trimmed behind it."""

    def __init__(self, store: Store, sink: str, found: SavedDeadLetters, most: int = MOST) -> None:
        self._store = store
        self._sink = sink
        self._most = most
        self._looked_at = asyncio.Event()
        self._letters: dict[int, OrderingKey] = {}
        self._parked: set[int] = set()
        self._of: dict[OrderingKey, dict[int, int]] = {}
        self.keys: dict[OrderingKey, int] = {}
        """Objects that have a dead letter → the sequence number of their first."""
        self.retrying = found.retrying
        """True while some dead letters are marked for another delivery."""
        for number, (key, sequence, parked) in found.dead_letters.items():
            self._note(number, key, sequence, parked)

    def __len__(self) -> int:
        return len(self._letters)

    @property
    def parked(self) -> int:
        """Number of dead letters that were parked without an attempt."""
        return len(self._parked)

    async def add_dead_letters(self, new_dead_letters: Sequence[NewDeadLetter]) -> None:
        """Appends dead letters in this order. A record that is a dead letter already keeps its single entry. Waits
        while the sink has ``most`` dead letters: a sink that rejects everything then blocks itself, and its backlog
        has a bound. Does not wait while dead letters are marked for retry: the caller retries them itself, after
        this call."""
        while len(self._letters) >= self._most and not self.retrying:
            self._looked_at.clear()
            await self._looked_at.wait()
        dead_letters = [
            (
                self._sink,
                each.record.sequence,
                each.record.id,
                *each.record.ordering_key,
                each.reason,
                int(each.parked),
                record_codec.sealed(each.record),
                each.answer,
            )
            for each in new_dead_letters
        ]
        await self._store.write(
            partial(_insert, dead_letters=dead_letters),
            committed=lambda done: self._note_buried(new_dead_letters, *done),
            weight=len(dead_letters),
            shrinks=True,
        )

    async def next_retries(self, limit: int) -> Sequence[RetriedDeadLetter]:
        """The oldest dead letters that are marked for retry, at most ``limit``, in the order of their numbers. Raises
        Damaged."""
        # Reset before the read: a retry that an operator asks for meanwhile sets it again, and is not lost.
        self.retrying = False
        found = await self._store.ask(partial(_next_retries, sink=self._sink, limit=limit))
        self.retrying = self.retrying or bool(found)
        return [RetriedDeadLetter(number, record_codec.opened(record)) for number, record in found]

    async def delivered(self, numbers: Sequence[int]) -> None:
        """Deletes dead letters that reached the destination."""
        await self._store.write(
            partial(_delete, sink=self._sink, numbers=numbers), committed=self._forget, shrinks=True
        )

    async def rejected_again(self, number: int, reason: str, answer: str) -> None:
        """Keeps a dead letter whose retry failed, and unmarks the later ones of its object until an operator asks for
        another retry."""
        reject = partial(_reject_again, sink=self._sink, number=number, reason=reason, answer=answer)
        await self._store.write(reject, shrinks=True)
        self._parked.discard(number)

    # ── Commands of an operator ──────────────────────────────────────────────

    async def retry(self, numbers: Sequence[int] | None) -> int:
        """See model.admin.Upkeep.retry."""
        count = await self._store.write(partial(retry, sink=self._sink, numbers=numbers), shrinks=True)
        self.retrying = self.retrying or count > 0
        self._looked_at.set()
        return count

    async def drop(self, numbers: Sequence[int] | None) -> int:
        """See model.admin.Upkeep.drop."""
        gone, _ = await self._store.write(
            partial(drop, sink=self._sink, numbers=numbers),
            committed=lambda done: self._note_dropped(*done),
            shrinks=True,
        )
        return len(gone)

    # ── After the commit ─────────────────────────────────────────────────────

    # The writer calls these even if the caller of the method was cancelled: memory has to follow the database.

    def _note_buried(
        self, new_dead_letters: Sequence[NewDeadLetter], numbers: Sequence[int | None], released: bool
    ) -> None:
        for number, each in zip(numbers, new_dead_letters, strict=True):
            if number is not None:
                self._note(number, each.record.ordering_key, each.record.sequence, each.parked)
        self.retrying = self.retrying or released

    def _note_dropped(self, gone: Sequence[int], released: bool) -> None:
        self._forget(gone)
        self.retrying = self.retrying or released

    def _note(self, number: int, key: OrderingKey, sequence: int, parked: bool) -> None:
        self._letters[number] = key
        if parked:
            self._parked.add(number)
        if key == NO_OBJECT:
            return
        self._of.setdefault(key, {})[number] = sequence
        self.keys.setdefault(key, sequence)

    def _forget(self, numbers: Iterable[int]) -> None:
        self._looked_at.set()
        for number in numbers:
            key = self._letters.pop(number)
            self._parked.discard(number)
            if key == NO_OBJECT:
                continue
            del self._of[key][number]
            if self._of[key]:
                self.keys[key] = next(iter(self._of[key].values()))
            else:
                del self._of[key], self.keys[key]


# ── SQL ──────────────────────────────────────────────────────────────────────


def listed(database: apsw.Connection, sink: str | None, after: int, limit: int) -> list[DeadLetter]:
    """At most ``limit`` dead letters with numbers above ``after``, of one sink or (None) of all."""
    found = database.execute(
        "SELECT number, sink, resource_name, key, reason, parked, retrying, record, answer FROM dead_letters"
        " WHERE number > ? AND (? IS NULL OR sink = ?) ORDER BY number LIMIT ?",
        (after, sink, sink, limit),
    )
    return [_shown(row) for row in found]


def record_of(database: apsw.Connection, number: int) -> Record:
    """The record of a dead letter. Raises UnknownTarget."""
    found = database.execute("SELECT record FROM dead_letters WHERE number = ?", (number,)).fetchone()
    if found is None:
        raise UnknownTarget(f"there is no dead letter {number}")
    return record_codec.opened(found[0])


def retry(database: apsw.Connection, sink: str, numbers: Sequence[int] | None) -> int:
    """Marks dead letters for retry: these numbers, or all (None). If an object has parked dead letters, all of that
    object are marked, to keep their order. Returns the number of marked dead letters. Raises UnknownTarget."""
    if numbers is None:
        database.execute("UPDATE dead_letters SET retrying = 1 WHERE sink = ?", (sink,))
    for number, name, key in _named(database, sink, numbers or ()):
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
    return one(database, "SELECT count(*) FROM dead_letters WHERE sink = ? AND retrying", (sink,))


def drop(database: apsw.Connection, sink: str, numbers: Sequence[int] | None) -> tuple[list[int], bool]:
    """Deletes dead letters: these numbers, or all (None). Parked ones without a rejected one left in front are marked
    for retry. Returns the deleted numbers, and whether some were marked. Raises UnknownTarget."""
    if numbers is None:
        gone = [row[0] for row in database.execute("DELETE FROM dead_letters WHERE sink = ? RETURNING number", (sink,))]
        return gone, False
    named = _named(database, sink, numbers)
    gone = _delete(database, sink, [number for number, _, _ in named])
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
    return gone, released > 0


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


def _insert(database: apsw.Connection, dead_letters: Sequence[tuple[Any, ...]]) -> tuple[list[int | None], bool]:
    """Returns the number of each inserted row (None for a duplicate), and whether an inserted row can be retried at
    once. A parked record is marked for retry if every earlier dead letter of its object is marked: otherwise no
    operator's request would ever cover it."""
    numbers: list[int | None] = []
    released = False
    for dead_letter in dead_letters:
        sink, _, _, name, key, _, parked, _, _ = dead_letter
        waits = one(
            database,
            "SELECT EXISTS (SELECT 1 FROM dead_letters"
            " WHERE sink = ? AND resource_name = ? AND key = ? AND NOT retrying)",
            (sink, name, key),
        )
        again = int(parked and not waits)
        found = database.execute(
            "INSERT OR IGNORE INTO dead_letters (sink, seq, record_id, resource_name, key, reason, parked, record,"
            " answer, retrying) VALUES (?,?,?,?,?,?,?,?,?,?) RETURNING number",
            (*dead_letter, again),
        ).fetchone()
        numbers.append(None if found is None else found[0])
        released = released or (found is not None and bool(again))
    return numbers, released


def _next_retries(database: apsw.Connection, sink: str, limit: int) -> list[tuple[int, bytes]]:
    return list(
        database.execute(
            "SELECT number, record FROM dead_letters WHERE sink = ? AND retrying ORDER BY number LIMIT ?", (sink, limit)
        )
    )


def _delete(database: apsw.Connection, sink: str, numbers: Sequence[int]) -> list[int]:
    gone: list[int] = []
    for number in numbers:
        found = database.execute(
            "DELETE FROM dead_letters WHERE number = ? AND sink = ? RETURNING number", (number, sink)
        )
        gone += [row[0] for row in found]
    return gone


def _reject_again(database: apsw.Connection, sink: str, number: int, reason: str, answer: str) -> None:
    found = database.execute(
        "UPDATE dead_letters SET reason = ?, answer = ?, parked = 0, retrying = 0 WHERE number = ? AND sink = ?"
        " RETURNING resource_name, key",
        (reason, answer, number, sink),
    ).fetchall()
    for name, key in found:
        database.execute(
            "UPDATE dead_letters SET retrying = 0"
            " WHERE sink = ? AND resource_name = ? AND key = ? AND number > ? AND parked",
            (sink, name, key, number),
        )


def _shown(row: tuple[Any, ...]) -> DeadLetter:
    number, sink, name, key, reason, parked, retrying, sealed, answer = row
    record = record_codec.opened(sealed)
    op = record.op.value if isinstance(record, Delta) else type(record).__name__.lower()
    return DeadLetter(
        number,
        sink,
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
