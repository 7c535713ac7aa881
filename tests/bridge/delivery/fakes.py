"""What surrounds a worker, in memory: a pending queue and dead letters that outlive it, and sinks with a script."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from bridge.delivery.sink_feed import SinkFeed
from bridge.model.primitives.ring import Fetch, Missed
from bridge.model.record import Delta, NewDeadLetter, OrderingKey, Record, RetriedDeadLetter
from bridge.outbox import DeadLetters
from sinks.base import ALL_STORED, Progress, Receipt, SinkContext
from tests.kit.records import a_delta
from tests.kit.sinks import receipt_of


def a_pod(sequence: int, name: str) -> Delta:
    return a_delta(sequence, key=f"shop/{name}")


def pods(names: str, first: int = 1) -> list[Delta]:
    """One record for each letter: ``aab`` are two of one object and one of another."""
    return [a_pod(sequence, name) for sequence, name in enumerate(names, first)]


def named(records: Sequence[Record]) -> list[str]:
    """``a1``: object and sequence number; ``gap/1/3`` for a notice."""
    return [
        f"{each.key.removeprefix('shop/')}{each.sequence}" if isinstance(each, Delta) else each.id for each in records
    ]


class FakeFeed:
    """What happened, and how much of it is settled. A new worker begins behind that."""

    def __init__(self, records: Sequence[Record] = ()) -> None:
        self.records = list(records)
        self.settled = 0
        """Records."""
        self.memory: bytes | None = None
        """Of the sink, at the newest ``settle``."""
        self.missed: Missed | None = None
        """Reported with the next fetch."""
        self.limits: list[int] = []
        self.on_settle: Callable[[Sequence[Record]], None] = lambda _: None
        self._taken = 0
        self._outstanding: deque[Fetch[Record]] = deque()
        self._woken = False
        self._change = asyncio.Event()

    @property
    def as_feed(self) -> SinkFeed:
        return cast("SinkFeed", self)

    def happened(self, *records: Record) -> None:
        self.records += records
        self._change.set()

    def begin_anew(self) -> None:
        """As after a crash."""
        self._taken = self.settled
        self._outstanding.clear()

    @property
    def exhausted(self) -> bool:
        return self._taken == len(self.records)

    @property
    def backlog_records(self) -> int:
        return len(self.records) - self.settled

    @property
    def outstanding(self) -> int:
        """Records that were taken and are not settled."""
        return sum(len(taken.items) for taken in self._outstanding)

    async def take(self, limit: int) -> Fetch[Record]:
        assert limit > 0
        self.limits.append(limit)
        while self.exhausted and not self._woken:
            self._change.clear()
            await self._change.wait()
        self._woken = False
        taken = Fetch(self.records[self._taken : self._taken + limit], missed=self.missed)
        self.missed = None
        self._taken += len(taken.items)
        self._outstanding.append(taken)
        return taken

    def wake(self) -> None:
        self._woken = True
        self._change.set()

    def settle(self, fetch: Fetch[Record], memory: bytes | None = None) -> None:
        """Of a fetch that was settled late, the items may be gone."""
        self.memory = memory
        first = self._outstanding.popleft()
        assert fetch is first or not fetch.items, "settled once each, in the order in which they were taken"
        self.on_settle(first.items)
        self.settled += len(first.items)


@dataclass
class Kept:
    number: int
    record: Record
    reason: str
    parked: bool
    retrying: bool = False
    answer: str = ""


@dataclass
class FakeDeadLetters:
    """Dead letters. An addition takes a while, and a cancelled addition may have been made or not."""

    seconds: float = 0.001
    kept: dict[int, Kept] = field(default_factory=dict)
    added: list[NewDeadLetter] = field(default_factory=list)
    pending: FakeFeed | None = None
    """Is woken when there is something to deliver again."""
    newest_at_start: int = 0

    @property
    def as_dead_letters(self) -> DeadLetters:
        return cast("DeadLetters", self)

    @property
    def keys(self) -> Mapping[OrderingKey, int]:
        first: dict[OrderingKey, int] = {}
        for dead_letter in self.kept.values():
            first.setdefault(dead_letter.record.ordering_key, dead_letter.record.sequence)
        return first

    @property
    def retrying(self) -> bool:
        return any(dead_letter.retrying for dead_letter in self.kept.values())

    @property
    def parked(self) -> int:
        return sum(dead_letter.parked for dead_letter in self.kept.values())

    async def add_dead_letters(self, new_dead_letters: Sequence[NewDeadLetter]) -> Sequence[int | None]:
        assert new_dead_letters
        await asyncio.sleep(self.seconds / 2)
        numbers = [self._keep(new_dead_letter) for new_dead_letter in new_dead_letters]
        await asyncio.sleep(self.seconds / 2)
        return numbers

    def _keep(self, new_dead_letter: NewDeadLetter) -> int | None:
        record = new_dead_letter.record
        if any((kept.record.sequence, kept.record.id) == (record.sequence, record.id) for kept in self.kept.values()):
            return None
        self.added.append(new_dead_letter)
        waits = any(not kept.retrying for kept in self.of(record.ordering_key))
        number = len(self.added)
        self.kept[number] = Kept(
            number,
            record,
            new_dead_letter.reason,
            new_dead_letter.parked,
            new_dead_letter.parked and not waits,
            new_dead_letter.answer,
        )
        return number

    async def next_retries(self, limit: int) -> Sequence[RetriedDeadLetter]:
        await asyncio.sleep(self.seconds)
        chosen = [dead_letter for dead_letter in self.kept.values() if dead_letter.retrying][:limit]
        return [RetriedDeadLetter(dead_letter.number, dead_letter.record) for dead_letter in chosen]

    async def delivered(self, numbers: Sequence[int]) -> None:
        await asyncio.sleep(self.seconds)
        for number in numbers:
            self.kept.pop(number, None)  # An operator may have dropped it meanwhile.

    async def rejected_again(self, number: int, reason: str, answer: str) -> None:
        await asyncio.sleep(self.seconds)
        if number not in self.kept:
            return
        dead_letter = self.kept[number]
        dead_letter.reason, dead_letter.answer, dead_letter.parked, dead_letter.retrying = reason, answer, False, False
        for later in self.of(dead_letter.record.ordering_key):
            if later.number > number:
                later.retrying = False

    def retry(self) -> None:
        """An operator asks for all of them."""
        for dead_letter in self.kept.values():
            dead_letter.retrying = True
        if self.pending is not None:
            self.pending.wake()

    def drop_first(self) -> Record:
        """An operator gives it up. What was parked behind it is delivered."""
        gone = self.kept.pop(next(iter(self.kept)))
        for dead_letter in self.of(gone.record.ordering_key):
            if not dead_letter.parked:
                break
            dead_letter.retrying = True
        if self.pending is not None:
            self.pending.wake()
        return gone.record

    def of(self, key: OrderingKey) -> list[Kept]:
        return [dead_letter for dead_letter in self.kept.values() if dead_letter.record.ordering_key == key]

    @property
    def names(self) -> list[str]:
        return named([dead_letter.record for dead_letter in self.kept.values()])


Answer = Receipt | Exception


class ScriptedSink:
    """Answers each ``deliver`` as ``answer`` says, after ``seconds``; stores what that does not forbid."""

    def __init__(self, *script: Answer, opens: Sequence[Exception | None] = (), seconds: float = 0.0) -> None:
        """``script``: the first answers; then everything is stored."""
        self.answer: Callable[[Sequence[Record]], Answer] = self._next_of_script
        self.script = list(script)
        self.opens = list(opens)
        self.seconds = seconds
        self.batches: list[list[str]] = []
        self.times: list[float] = []
        """When each began."""
        self.stored: list[Record] = []
        self.context = SinkContext()
        """Of the newest ``open``."""
        self.closed = 0
        self.at_once = 0
        self.most_at_once = 0

    async def open(self, context: SinkContext) -> Progress | None:
        self.context = context
        if self.opens and (error := self.opens.pop(0)):
            raise error
        return None

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        assert batch
        self.batches.append(named(batch))
        self.times.append(asyncio.get_running_loop().time())
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.at_once -= 1
        answer = self.answer(batch)
        if isinstance(answer, Exception):
            raise answer
        left = {*answer.pending, *answer.rejected}
        self.stored += [record for index, record in enumerate(batch) if index not in left]
        return answer

    async def check(self) -> str:
        return "scripted"

    async def close(self) -> None:
        assert not self.at_once, "nothing is under way when a sink is closed"
        self.closed += 1

    def _next_of_script(self, batch: Sequence[Record]) -> Answer:
        return self.script.pop(0) if self.script else ALL_STORED


def rejecting(*sequences: int) -> ScriptedSink:
    """Never takes the records with these sequence numbers, and keeps the promise of Receipt."""
    sink = ScriptedSink()

    def answer(batch: Sequence[Record]) -> Receipt:
        return receipt_of(
            batch, rejected={n: "too large" for n, each in enumerate(batch) if each.sequence in sequences}
        )

    sink.answer = answer
    return sink
