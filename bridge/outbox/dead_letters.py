"""Dead letters: records that a sink rejected, and the later records of the same objects, which are parked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial

from bridge.model.record import NO_OBJECT, NewDeadLetter, OrderingKey, RetriedDeadLetter
from bridge.outbox.letters import commands_sql, dead_letters_sql
from bridge.outbox.letters.dead_letters_sql import SavedDeadLetters
from bridge.outbox.log import record_codec
from bridge.outbox.store import Store

MOST = 100_000
"""Dead letters of a sink. Memory holds the number and the object of each."""


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
        dead_letters = [dead_letters_sql.row_of(self._sink, each) for each in new_dead_letters]
        insert = partial(dead_letters_sql.insert, dead_letters=dead_letters, cipher=self._cipher)
        numbers, _ = await self._store.write(
            insert,
            committed=lambda done: self._note_added(new_dead_letters, *done),
            shrinks=True,
        )
        return numbers

    async def next_retries(self, limit: int) -> Sequence[RetriedDeadLetter]:
        """The oldest dead letters that are marked for retry, at most ``limit``, in the order of their numbers. Raises
        Damaged."""
        # Reset before the read: a retry that an operator asks for meanwhile sets it again, and is not lost.
        self.retrying = False
        found = await self._store.ask(partial(dead_letters_sql.next_retries, sink=self._sink, limit=limit))
        self.retrying = self.retrying or bool(found)
        return [
            RetriedDeadLetter(number, record_codec.decode_record(each.content(self._cipher))) for number, each in found
        ]

    async def delivered(self, numbers: Sequence[int]) -> None:
        """Deletes dead letters that reached the destination."""
        await self._store.write(
            partial(dead_letters_sql.delete, sink=self._sink, numbers=numbers), committed=self._forget, shrinks=True
        )

    async def rejected_again(self, number: int, reason: str, answer: str) -> None:
        """Keeps a dead letter whose retry failed, and unmarks the later ones of its object until an operator asks for
        another retry."""
        reject = partial(
            dead_letters_sql.reject_again,
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
        count = await self._store.write(partial(commands_sql.retry, sink=self._sink, numbers=numbers), asked=True)
        self.retrying = self.retrying or count > 0
        self._has_changed.set()
        return count

    async def drop(self, numbers: Sequence[int] | None) -> int:
        """See AdminOperations.drop."""
        deleted, _ = await self._store.write(
            partial(commands_sql.drop, sink=self._sink, numbers=numbers),
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
