"""Replicas in an election, with a destination that stores progress with the records: whoever leads, however far others
lag, whatever crashes between a commit and the next renewal: each version is stored once, in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import rule

from bridge.facts import discard
from bridge.model.change import Evidence, Op
from bridge.model.primitives.shard import Shard
from bridge.model.record import Delta, Record
from bridge.model.resource import Resource
from bridge.model.versions.progress import (
    BeyondPart,
    Progress,
    decode_part,
    decode_progress,
    encode_progress,
)
from bridge.pipelines.feeds import TransactionFeed
from tests.kit.examples import examples
from tests.kit.replicated_server import Key, Member, step_of
from tests.properties.test_standby import KEYS, LISTS, RESOURCES, SINKS, Election


class End(Enum):
    """Of a transaction, as its writer knows it."""

    SETTLED = auto()
    UNKNOWN = auto()
    """It is stored; the answer is lost, with the process or the Lease, or comes later."""
    ABORTED = auto()


@dataclass
class Topic:
    """The destination of a sink: records, progress and parts, stored together."""

    progress: bytes | None = None
    parts: dict[int, bytes] = field(default_factory=dict)

    def store(self, progress: Progress, part: BeyondPart | None) -> None:
        if part is not None:
            self.parts[part.number] = encode_progress(part)
        self.progress = encode_progress(progress)


class Writer:
    """A ProgressSink that is open: the writers before it are fenced, and it has read what they stored."""

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.progress = Progress()
        self.part: BeyondPart | None = None
        self.shard: Shard | None = None
        self.doubted = False
        self.committed = None if topic.progress is None else decode_progress(topic.progress)
        shared = None if self.committed is None else self.committed.frontier
        parts = 0 if shared is None else shared.parts
        self.parts: Sequence[BeyondPart] = [decode_part(topic.parts[each]) for each in range(parts)]

    async def of_other_shards(self) -> Sequence[Progress]:
        return ()

    def store(self) -> None:
        self.topic.store(self.progress, self.part)
        self.part = None


class Transactions(Election):
    """``Election``, whose sinks deliver in transactions."""

    features: tuple[str, ...] = (LISTS,)

    def __init__(self) -> None:
        super().__init__()
        self.topics = {sink: Topic() for sink in SINKS}
        self.stored: dict[str, set[tuple[str, str, str, bool]]] = {sink: set() for sink in SINKS}
        self.newest: dict[str, dict[Key, int]] = {sink: {} for sink in SINKS}
        """Object → its newest version at the destination."""
        self.unsettled: set[str] = set()
        """Sinks whose last transaction is stored, and the leader does not know it."""

    def begin_delivering(self, member: Member) -> None:
        self.outstanding, self.unsettled = {sink: [] for sink in SINKS}, set()
        for sink in SINKS:
            member.all_feeds.end(sink)
            feed = member.all_feeds.feed(sink, TransactionFeed, window=4)
            assert isinstance(feed, TransactionFeed)
            feed.report, feed.sink_with_progress = discard, Writer(self.topics[sink])
            self.run(feed.begin())
            self.run(feed.recover())
            member.feeds[sink] = feed

    def transact(self, sink: str, most: int, end: End) -> None:
        if self.leader is None or sink not in SINKS:
            return
        feed, waiting = self.leader.feeds[sink], self.outstanding[sink]
        assert isinstance(feed, TransactionFeed)
        if not waiting:
            if feed.exhausted:
                return
            waiting.append(self.run(feed.take(most)))
        [fetch] = waiting
        if fetch.items and sink not in self.unsettled:
            feed.hand_over(fetch)
            accepted = self.accepted(sink, fetch.items)
            if end is End.ABORTED:
                return
            if accepted:
                self.store(feed, accepted)
        if end is End.UNKNOWN:
            self.unsettled.add(sink)
        else:
            feed.settle(waiting.pop())
            self.unsettled.discard(sink)

    @rule(
        data=st.data(),
        resource=st.sampled_from(RESOURCES),
        changes=st.lists(st.tuples(st.sampled_from(KEYS), st.booleans()), min_size=2, max_size=8),
        seen=st.lists(st.integers(1, 8), min_size=1, max_size=6),
        ends=st.lists(st.tuples(st.sampled_from(tuple(SINKS)), st.integers(1, 5), st.sampled_from(End)), max_size=5),
        killed=st.booleans(),
    )
    def a_busy_time(
        self,
        data: st.DataObject,
        resource: Resource,
        changes: list[tuple[str, bool]],
        seen: list[int],
        ends: list[tuple[str, int, End]],
        killed: bool,
    ) -> None:
        """Many changes, of which each replica sees some in batches of its own; then transactions; then another
        leads."""
        self.change_much(resource, changes, seen)
        for sink, most, end in ends:
            self.transact(sink, most, end)
        if killed:
            self.take_over(self.draw(data))

    def deliver(self, sink: str, most: int, sends: bool, settles: bool, rejects: int) -> None:
        self.transact(sink, most, End.SETTLED if settles else End.UNKNOWN if sends else End.ABORTED)

    def deliver_all(self, member: Member, sink: str) -> None:
        while self.outstanding[sink] or not member.feeds[sink].exhausted:
            self.transact(sink, 100, End.SETTLED)

    def accepted(self, sink: str, items: Sequence[Record]) -> Sequence[Record]:
        """Those that are no dead letters from now on."""
        return items

    def store(self, feed: TransactionFeed, items: Sequence[Record]) -> None:
        self.write(feed)
        for record in items:
            self.hear(feed.sink, record)
            if isinstance(record, Delta):
                self.heard[feed.sink].settled.add(step_of(record))
                if not self.heard[feed.sink].set_back:
                    self.count(feed.sink, record)

    def write(self, feed: TransactionFeed) -> None:
        writer = feed.sink_with_progress
        assert isinstance(writer, Writer)
        writer.store()

    def count(self, sink: str, delta: Delta) -> None:
        gone = delta.op is Op.DELETED
        name, version = delta.resource.name, delta.resource_version
        if gone and delta.evidence is Evidence.RELISTED:
            return  # Its version is the last one that this replica knew: another may know the delete itself.
        identity = (name, delta.uid, version, gone)
        assert identity not in self.stored[sink], "stored twice"
        self.stored[sink].add(identity)
        newest = self.newest[sink]
        assert int(version) > newest.get((name, delta.uid), 0), "an older version after a newer one"
        newest[name, delta.uid] = int(version)


class TransactionsWithoutLists(Transactions):
    """Replicas whose watches never break: no step is missing, either."""

    features = ()


TestTransactions = Transactions.TestCase
TestTransactionsWithoutLists = TransactionsWithoutLists.TestCase
TestTransactions.settings = TestTransactionsWithoutLists.settings = examples(
    12,
    stateful_step_count=50,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
