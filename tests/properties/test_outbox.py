"""The outbox against a plain model: whatever happens in whatever order, crashes included, nothing that was committed is
lost for a sink that has not settled it, and what leaves has left."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, cycle, repeat
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest
from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bridge.delivery.backfills import begin_snapshot, cancel_snapshot
from bridge.delivery.sink_feed import SinkFeed
from bridge.model.admin import Replayed, UnknownTarget
from bridge.model.change import Change, ChangeBatch, Op
from bridge.model.policies import StartPolicy
from bridge.model.primitives.ring import Fetch
from bridge.model.record import Delta, Gap, Record, SnapshotScope
from bridge.model.resource import Resource
from bridge.model.status import SnapshotStatus
from bridge.outbox import Cipher, EncryptionKey, Outbox, Retention
from bridge.outbox.log.cleaner import CleanerPolicy
from tests.kit import memory
from tests.kit.deadlines import run_bounded
from tests.kit.examples import examples
from tests.kit.informed import Informed
from tests.kit.pipelines import opened_feeds, replay
from tests.kit.records import DEPLOYMENTS, PODS

T = TypeVar("T")

KEYS = ("shop/a", "shop/b", "shopping/a", "c")
SINKS = ("left", "right", "late")


class ShiftingLoop(asyncio.SelectorEventLoop):
    """Its clock can be put forward."""

    shift = 0.0

    def time(self) -> float:
        return super().time() + self.shift


def starts_with_keys() -> Iterator[Cipher]:
    """Each start with another key for new content, or with none; older content stays as it is, or moves."""
    one, other = EncryptionKey(b"one" * 20), EncryptionKey(b"other" * 20)
    return cycle([Cipher([one, other]), Cipher([other, one]), Cipher([one, other], encrypts=False)])


@dataclass
class Consumer:
    """The records that a sink received, and those that it has to receive."""

    state: dict[tuple[str, str], tuple[str, bytes]] = field(default_factory=dict)
    """Object → the version and the body it has."""
    unknown: set[tuple[str, str]] = field(default_factory=set)
    """Objects of which a Gap said that something is missing."""
    due: set[int] = field(default_factory=set)
    """Records that it must receive: those that nobody compacted or dropped."""
    heard: dict[int, Delta] = field(default_factory=dict)
    ops_may_differ: bool = False
    """It received a replay: records that it also received from the log."""
    newest: dict[tuple[str, str], int] = field(default_factory=dict)
    """Object → its last delivered record, since nothing had to be delivered again."""
    outstanding: list[Fetch[Record]] = field(default_factory=list)
    out_of_turn: bool = False
    """Its last record was not in the log."""

    furthest: dict[tuple[str, str], int] = field(default_factory=dict)
    """Object → the newest of its records since the last start."""
    ids: dict[tuple[str, str | None], int] = field(default_factory=dict)
    """Id and snapshot → the record that had them first."""
    snapshot: str = ""
    """Id of the snapshot that began since the last start."""
    of_snapshot: list[Delta] = field(default_factory=list)

    def begin_again(self) -> None:
        self.newest.clear()
        self.furthest.clear()
        self.snapshot = ""
        self.outstanding.clear()
        self.out_of_turn = False

    def turn(self, fetch: Fetch[Record]) -> None:
        if fetch.index is not None and not self.out_of_turn and self.ops_may_differ:
            self.newest.clear()  # A replay begins, behind the part of the log that was reported again after a crash.
        self.out_of_turn = fetch.index is not None

    def hear(self, record: Record, written: dict[int, Delta]) -> None:
        if isinstance(record, Gap):
            missing = [each for number, each in written.items() if record.first <= number <= record.sequence]
            self.unknown |= {each.ordering_key for each in missing}
        elif isinstance(record, Delta):
            self._hear(record, _written(record, written))
        elif record.edge == "began":
            self.snapshot, self.of_snapshot = record.snapshot, []
        elif record.snapshot == self.snapshot:
            if record.edge == "ended":
                assert [each.last_of_snapshot for each in self.of_snapshot[-1:]] == [True] * bool(record.count)
            assert len(self.of_snapshot) == record.count

    def _identify(self, delta: Delta) -> None:
        if delta.snapshot is not None or delta.op is not Op.SYNC:  # Resyncs of a version have the same id.
            assert self.ids.setdefault((delta.id, delta.snapshot), delta.sequence) == delta.sequence
        if delta.snapshot is not None:
            assert delta.sequence >= self.furthest.get(delta.ordering_key, 0), "a snapshot set the object back"
            if delta.snapshot == self.snapshot:
                self.of_snapshot.append(delta)
        elif delta.op is not Op.SYNC and not delta.replay:
            self.furthest[delta.ordering_key] = max(self.furthest.get(delta.ordering_key, 0), delta.sequence)

    def _hear(self, delta: Delta, written: Delta) -> None:
        assert (delta.uid, delta.resource_version, delta.key, delta.body, delta.resource, delta.epoch) == (
            (written.uid, written.resource_version, written.key, written.body, written.resource, written.epoch)
        )
        if (before := self.heard.get(written.sequence)) and not self.ops_may_differ:
            assert before.id == delta.id
        assert delta.sequence > self.newest.get(delta.ordering_key, 0)
        self._identify(delta)
        self.newest[delta.ordering_key] = delta.sequence
        self.heard[written.sequence] = delta
        self.due.discard(written.sequence)
        self.unknown.discard(delta.ordering_key)
        if delta.op is Op.DELETED:
            self.state.pop(delta.ordering_key, None)
        else:
            self.state[delta.ordering_key] = (delta.resource_version, delta.body)


def _written(delta: Delta, written: dict[int, Delta]) -> Delta:
    """The record of the log: of an object in a snapshot, the newest that the snapshot covers."""
    if delta.snapshot is None:
        return written[delta.sequence]
    states = (each for each in written.values() if each.op is not Op.SYNC and each.sequence <= delta.sequence)
    return max((each for each in states if each.ordering_key == delta.ordering_key), key=attrgetter("sequence"))


class Reached(NamedTuple):
    """How far an informer has come."""

    position: str | None = None
    newest: int | None = None
    epoch: int = 1


@dataclass
class Part:
    """The model of one informer."""

    informer: Informed
    reached: Reached = field(default_factory=Reached)
    saved: set[Reached] = field(default_factory=lambda: {Reached()})
    """What the file may say; exactly one where nothing is to be saved later."""

    def advance(self, batch: ChangeBatch) -> Reached:
        position, newest, epoch = self.reached
        if batch.epoch != epoch:
            position, newest, epoch = None, None, batch.epoch
        if batch.position is not None or any(change.op is not Op.SYNC for change in batch.changes):
            position = batch.position
        received = [change.object.resource_version for change in batch.changes if change.op in (Op.ADDED, Op.UPDATED)]
        versions = [int(each) for each in (*received, batch.position) if each is not None]
        return Reached(position, max([newest or 0, *versions]) or None, epoch)

    def is_saved(self) -> None:
        self.saved = {self.reached}


class OutboxMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner(loop_factory=ShiftingLoop)
        self.root = Path(tempfile.mkdtemp(prefix="outbox-", dir=memory.folder()))
        self.directories = (self.root / str(number) for number in count())
        self.directory = next(self.directories)
        self.directory.mkdir()
        self.written: dict[int, Delta] = {}
        self.objects: dict[tuple[str, str], Delta] = {}
        self.consumers: dict[str, Consumer] = {}
        self.configured: dict[str, StartPolicy] = {}
        self.feeds: dict[str, SinkFeed] = {}
        self.snapshots: set[int] = set()
        """Numbers."""
        self.facts: list[object] = []
        versions = count(1000)
        self.versions = versions
        self.parts = [Part(Informed(resource, versions=versions)) for resource in (PODS, DEPLOYMENTS)]
        self.outbox: Outbox

    def run(self, what: Coroutine[Any, Any, T]) -> T:
        return run_bounded(self.runner, what)

    def teardown(self) -> None:
        try:
            if hasattr(self, "outbox"):
                try:
                    for name in self.configured:
                        self.drain(name)
                finally:
                    self.run(self.outbox.close())
        finally:
            self.runner.close()
            shutil.rmtree(self.root)

    # ── Opening and closing ──────────────────────────────────────────────────

    @initialize(
        first=st.sampled_from(StartPolicy),
        age=st.sampled_from([0.0, 100.0]),
        size=st.sampled_from([0, 400]),
        when=st.booleans(),
        part=st.sampled_from([0.0, 0.0, 0.5, 1.0]),
        encrypts=st.booleans(),
    )
    def begin(self, first: StartPolicy, age: float, size: int, when: bool, part: float, encrypts: bool) -> None:
        self.starts: Iterator[Cipher | None] = starts_with_keys() if encrypts else repeat(None)
        self.retention = Retention(retain_age=age, retain_bytes=size, before=when)
        self.cleaner_policy = CleanerPolicy(min_bytes=0, min_ratio=part, range_records=5, examined=3, removed=2)
        self.configured = {"left": first, "right": StartPolicy.SNAPSHOT}
        self.run(self.open())

    async def open(self) -> None:
        self.cipher = next(self.starts)
        feeds = await opened_feeds(
            self.directory,
            self.configured,
            report=self.facts.append,
            retention=self.retention,
            clock=lambda: "2026-11-21T09:00:00.000000Z",
            cleaner_policy=self.cleaner_policy,
            cipher=self.cipher,
        )
        self.outbox = outbox = feeds.outbox
        self.feeds = {}
        for name, start in self.configured.items():
            cursor = outbox.sinks[name]
            if name not in self.consumers:
                self.consumers[name] = self.consumer_from(name, start)
            consumer = self.consumers[name]
            consumer.begin_again()
            assert cursor.settled <= outbox.last
            self.feeds[name] = feeds.feed(name, window=5)
        for part in self.parts:
            await self.adopt(part)

    def consumer_from(self, name: str, start: StartPolicy) -> Consumer:
        """One that was never there before."""
        trimmed = self.outbox.first - 1
        match start:
            case StartPolicy.SNAPSHOT:
                consumer = Consumer(due={each.sequence for each in self.objects.values()})
            case StartPolicy.NOW:
                consumer = Consumer(state=self.state_at(self.outbox.last))
            case StartPolicy.EARLIEST:
                consumer = Consumer(state=self.state_at(trimmed))
        if start is StartPolicy.EARLIEST:
            consumer.due = {
                number
                for number, each in self.written.items()
                if number > trimmed and (each.targets is None or name in each.targets)
            }
        consumer.ops_may_differ = start is StartPolicy.SNAPSHOT
        return consumer

    async def adopt(self, part: Part) -> None:
        name, informer = part.informer.resource.name, part.informer
        checkpoint, left = await self.outbox.ledger.adopt(informer.resource, [informer.scope])
        found = checkpoint[informer.scope]
        expected = {key: each for (kind, key), each in self.objects.items() if kind == name}
        assert left == 0
        if found is None:
            assert not expected
            assert Reached() in part.saved
            part.reached, part.saved = Reached(), {Reached()}
            informer.known, informer.epoch = {}, 1
            return
        assert {key: (each.uid, each.resource_version, each.state) for key, each in found.objects.items()} == {
            key: (each.uid, each.resource_version, each.sequence) for key, each in expected.items()
        }
        part.reached = Reached(found.position, None if found.newest is None else int(found.newest), found.epoch)
        assert part.reached in part.saved
        part.is_saved()
        informer.known, informer.epoch = dict(found.objects), found.epoch
        informer.bodies = {key: each.body for key, each in expected.items()}

    def copy(self) -> Path:
        """What a crash at this moment leaves."""
        copy = next(self.directories)
        copy.mkdir()
        for suffix in ("", "-wal"):
            if (self.directory / f"outbox.db{suffix}").exists():
                shutil.copy(self.directory / f"outbox.db{suffix}", copy)
        return copy

    def crash_into(self, directory: Path) -> None:
        self.run(self.outbox.close())
        self.directory = directory
        self.run(self.open())

    def crash(self) -> None:
        self.crash_into(self.copy())

    def stop(self) -> None:
        self.run(self.outbox.close())
        for part in self.parts:
            part.is_saved()

    # ── Records ──────────────────────────────────────────────────────────────

    @rule(data=st.data())
    def append(self, data: st.DataObject) -> None:
        part = self.draw_part(data)
        batch = part.informer.batch(self.draw_changes(part, data), self.draw_position(data))
        deltas = self.run(self.outbox.append(batch))
        self.took(part, deltas, batch)
        part.informer.offload(batch, deltas)

    def crash_within_append(self, data: st.DataObject) -> None:
        """The write-ahead log is cut off anywhere in what the batch wrote: all of it is there, or nothing."""
        part = self.draw_part(data)
        batch = part.informer.batch(self.draw_changes(part, data), self.draw_position(data))
        cut = data.draw(st.floats(0, 1))
        before = self.copy()
        last = self.outbox.last
        deltas = self.run(self.outbox.append(batch))
        after = self.copy()
        shorter, longer = ((each / "outbox.db-wal").stat().st_size for each in (before, after))
        if longer > shorter:
            with (after / "outbox.db-wal").open("r+b") as wal:
                wal.truncate(shorter + int((longer - shorter) * cut))
        self.run(self.outbox.close())
        self.directory = after
        reached = self.run(self.peek())
        assert reached in (last, last + len(deltas))
        if reached == last + len(deltas):
            self.took(part, deltas, batch)
        self.run(self.open())

    async def peek(self) -> int:
        async with await Outbox.open(
            self.directory, {}, report=self.facts.append, only_existing=True, cipher=self.cipher
        ) as outbox:
            return outbox.last

    @rule(data=st.data())
    def append_nothing(self, data: st.DataObject) -> None:
        part = self.draw_part(data)
        batch = part.informer.batch([], self.draw_position(data))
        assert self.run(self.outbox.append(batch)) == ()
        part.reached = part.advance(batch)
        part.saved.add(part.reached)

    def draw_part(self, data: st.DataObject) -> Part:
        part = data.draw(st.sampled_from(self.parts))
        part.informer.epoch += data.draw(st.integers(0, 9)) == 9
        return part

    def draw_position(self, data: st.DataObject) -> str | None:
        return str(next(self.versions)) if data.draw(st.booleans()) else None

    def draw_sink(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.configured)))

    def draw_changes(self, part: Part, data: st.DataObject) -> list[Change]:
        changes = []
        for _ in range(data.draw(st.integers(1, 4))):
            key = data.draw(st.sampled_from(KEYS))
            part.informer.padding = data.draw(st.sampled_from([0, 100]))
            known = key in part.informer.known
            op = data.draw(st.sampled_from([Op.UPDATED, Op.DELETED, Op.SYNC])) if known else Op.ADDED
            targets = data.draw(st.sampled_from([None, ("left",), ("right", "late")])) if op is Op.SYNC else None
            changes.append(part.informer.change(f"{op} {key}", targets))
        return changes

    def took(self, part: Part, deltas: Sequence[Delta], batch: ChangeBatch) -> None:
        """The model takes what the outbox took."""
        part.reached = part.advance(batch)
        part.is_saved()
        for delta in deltas:
            assert delta.sequence == max(self.written, default=0) + 1
            before = self.objects.get(delta.ordering_key)
            if self.retention.before:
                assert delta.before == (None if before is None else before.body)
            self.written[delta.sequence] = delta
            for name, consumer in self.consumers.items():
                if delta.targets is None or name in delta.targets:
                    consumer.due.add(delta.sequence)
            if delta.op is Op.DELETED:
                del self.objects[delta.ordering_key]
            elif delta.op is not Op.SYNC:
                self.objects[delta.ordering_key] = delta

    def state_at(self, sequence: int) -> dict[tuple[str, str], tuple[str, bytes]]:
        consumer = Consumer()
        for number in sorted(self.written):
            if number <= sequence:
                consumer.hear(self.written[number], self.written)
        return consumer.state

    # ── Sinks ────────────────────────────────────────────────────────────────

    @rule(data=st.data())
    def take(self, data: st.DataObject) -> None:
        name, limit, some = self.draw_sink(data), data.draw(st.integers(1, 6)), data.draw(st.integers(0, 2))
        if not self.feeds[name].exhausted:
            self.hear_next(name, limit)
        self.settle(name, some)

    def hear_next(self, name: str, limit: int) -> None:
        fetch = self.run(self.feeds[name].take(limit))
        assert fetch.missed is None
        assert len(fetch.items) <= limit
        consumer = self.consumers[name]
        consumer.turn(fetch)
        for number, record in enumerate(fetch.items, 1):
            if fetch.index is not None and fetch.index - len(fetch.items) + number == 1 and consumer.ops_may_differ:
                consumer.newest.clear()  # A replay begins: items up to 0 were in flight when it was asked for.
            consumer.hear(record, self.written)
        consumer.outstanding.append(fetch)

    def settle(self, name: str, some: int) -> None:
        async def settle() -> None:
            for fetch in self.consumers[name].outstanding[:some]:
                self.feeds[name].settle(fetch)

        self.run(settle())
        del self.consumers[name].outstanding[:some]

    @rule(data=st.data())
    def keep_up(self, data: st.DataObject) -> None:
        """All sinks but one receive everything, and records that no sink needs leave the log."""
        behind = self.draw_sink(data)
        for name in self.configured:
            if name != behind or data.draw(st.booleans()):
                self.drain(name)
        self.maintain(data)

    def drain(self, name: str) -> None:
        """It receives everything that there is: then it knows the state, and received every record that it had to
        reported."""
        consumer = self.consumers[name]
        while not self.feeds[name].exhausted or consumer.outstanding:
            if not self.feeds[name].exhausted:
                self.hear_next(name, 3)
            self.settle(name, 3)
        known = {key: state for key, state in consumer.state.items() if key not in consumer.unknown}
        there = self.state_at(self.outbox.last)
        assert known == {key: state for key, state in there.items() if key not in consumer.unknown}, name
        assert not consumer.due, name
        assert self.outbox.sinks.backlog_records(name) == 0

    @rule(data=st.data())
    def compact(self, data: st.DataObject) -> None:
        name = self.draw_sink(data)
        before, after = self.run(self.feeds[name].compact())
        assert after <= before
        self.excuse(name, self.outbox.last)

    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        name = self.draw_sink(data)
        through = min(self.outbox.last, self.feeds[name].taken + data.draw(st.integers(0, 5)))
        first, number = self.run(self.feeds[name].drop(through))
        if first:
            assert 0 < first <= through
            assert number <= through - first + 1
            self.excuse(name, through)

    def excuse(self, name: str, through: int) -> None:
        """Records of these that were not handed out may come as fewer records, or as a gap."""
        self.consumers[name].due -= {number for number in self.written if number <= through}

    @rule(data=st.data())
    def replay(self, data: st.DataObject) -> None:
        name, start = self.draw_sink(data), data.draw(st.integers(0, self.outbox.last))
        namespace = data.draw(st.sampled_from([None, "shop", "shopping"]))
        feed, consumer = self.feeds[name], self.consumers[name]
        asked = replay(self.outbox, feed, start, namespace=namespace)
        if self.outbox.sinks[name].backfill is not None:
            with pytest.raises(UnknownTarget, match="ask again"):
                self.run(asked)
            return
        expected = [
            number
            for number, each in self.written.items()
            if max(start, self.outbox.first) <= number <= feed.taken
            and (each.targets is None or name in each.targets)
            and (namespace is None or each.key.startswith(f"{namespace}/"))
        ]
        found = self.run(asked)
        assert found == Replayed(len(expected), min(expected, default=0), max(expected, default=0))
        consumer.due |= set(expected)
        consumer.newest.clear()
        consumer.ops_may_differ = True

    @rule(data=st.data())
    def snapshot(self, data: st.DataObject) -> None:
        name, resource = self.draw_sink(data), data.draw(st.sampled_from([None, PODS]))
        namespace = data.draw(st.sampled_from([None, "shop", "shopping"]))
        feed, consumer = self.feeds[name], self.consumers[name]
        asked = self.begin_snapshot(name, resource, namespace)
        if self.outbox.sinks[name].backfill is not None:
            with pytest.raises(UnknownTarget, match="ask again"):
                self.run(asked)
            return
        expected = [
            each
            for each in self.last_states(feed.taken)
            if (resource is None or each.resource == resource)
            and (namespace is None or each.key.startswith(f"{namespace}/"))
        ]
        found = self.run(asked)
        assert (found.objects, found.left) == (len(expected), len(expected))
        assert found.number not in self.snapshots
        self.snapshots.add(found.number)
        consumer.due |= {each.sequence for each in expected}
        consumer.newest.clear()
        consumer.ops_may_differ = True

    async def begin_snapshot(self, name: str, resource: Resource | None, namespace: str | None) -> SnapshotStatus:
        scope = None
        kind = None
        if resource or namespace:
            scope = SnapshotScope(None if resource is None else resource.name, namespace)
        if resource is not None:
            kind = await self.outbox.ledger.kind_of(resource.name)
        return await begin_snapshot(
            self.outbox, name, self.feeds[name], cluster="test", report=self.facts.append, kind=kind, scope=scope
        )

    def last_states(self, through: int) -> list[Delta]:
        """The state of each object as of a record."""
        found: dict[tuple[str, str], Delta] = {}
        for number in sorted(self.written):
            each = self.written[number]
            if number > through or each.op is Op.SYNC:
                continue
            if each.op is Op.DELETED:
                found.pop(each.ordering_key, None)
            else:
                found[each.ordering_key] = each
        return list(found.values())

    @rule(data=st.data())
    def cancel_snapshot(self, data: st.DataObject) -> None:
        name = self.draw_sink(data)
        backfill = self.outbox.sinks[name].backfill
        asked = cancel_snapshot(self.outbox, name, self.feeds[name])
        if backfill is None or not backfill.replay or backfill.kind != "snapshot" or backfill.cancelled:
            with pytest.raises(UnknownTarget, match="no snapshot on demand under way"):
                self.run(asked)
            return
        assert self.run(asked).state == "cancelled"
        self.consumers[name].due -= {number for number in self.written if number <= backfill.through}

    # ── Starts ───────────────────────────────────────────────────────────────

    @rule(data=st.data())
    def restart(self, data: st.DataObject) -> None:
        hows = ["crash", "crash", "stop", "within append", "another sink", "one sink less", "a snapshot", "a snapshot"]
        match data.draw(st.sampled_from(hows)):
            case "crash":
                self.crash()
            case "stop":
                self.stop()
                self.run(self.open())
            case "within append":
                self.crash_within_append(data)
            case "another sink":
                self.configure_another(data.draw(st.sampled_from(SINKS)), data.draw(st.sampled_from(StartPolicy)))
            case "a snapshot":
                self.configure_no_more("late", forget=True)
                self.configure_another("late", StartPolicy.SNAPSHOT)
            case _:
                self.configure_no_more(data.draw(st.sampled_from(SINKS)), data.draw(st.booleans()))

    def configure_another(self, name: str, start: StartPolicy) -> None:
        """With what it had, where it was there before and is not forgotten."""
        self.stop()
        self.configured.setdefault(name, start)
        self.run(self.open())

    def configure_no_more(self, name: str, forget: bool) -> None:
        self.stop()
        if len(self.configured) > 1:
            self.configured.pop(name, None)
        self.run(self.open())
        if forget:
            self.run(self.outbox.sinks.count_absence(3600.0, 3000.0))
            self.consumers = {each: self.consumers[each] for each in self.configured}

    # ── Maintenance ──────────────────────────────────────────────────────────

    @rule(data=st.data())
    def maintain(self, data: st.DataObject) -> None:
        loop = self.runner.get_loop()
        assert isinstance(loop, ShiftingLoop)
        loop.shift += data.draw(st.sampled_from([0.0, 60.0, 120.0]))
        self.run(self.outbox.maintain())
        for part in self.parts:
            part.is_saved()
        held = min(cursor.holds for cursor in self.outbox.sinks.all)
        assert self.outbox.first - 1 <= held
        if not self.retention.retain_age and not self.retention.retain_bytes:
            assert self.outbox.first - 1 == held

    # ── At any time ──────────────────────────────────────────────────────────

    @invariant()
    def everything_that_is_needed_is_there(self) -> None:
        if not hasattr(self, "outbox"):
            return
        assert self.outbox.last == max(self.written, default=0)
        for delta in self.objects.values():
            assert self.outbox.body(delta.sequence) == delta.body
        records = self.run(self.outbox.read(0, 10_000)).items
        assert records == [self.written[number] for number in sorted(self.written) if number >= self.outbox.first]

    @invariant()
    def the_state_has_no_problem(self) -> None:
        if hasattr(self, "outbox"):
            assert self.run(self.outbox.check()).problems == []


TestOutbox = OutboxMachine.TestCase
TestOutbox.settings = examples(
    15,
    stateful_step_count=30,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
