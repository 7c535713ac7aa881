"""What a sink learns when it opens, and what is kept of it for the next one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from bridge.delivery.sink_feed import Feeds, record_processor
from bridge.delivery.sink_pipeline import context_of
from bridge.model.primitives.shard import Shard
from bridge.model.progress import Progress
from bridge.model.record import Gap, Record
from bridge.outbox import Outbox
from bridge.plan.plan import CurrentResources, SinkPlan, Wanted
from sinks.base import Lanes, Receipt, RetryLater, SinkContext
from tests.bridge.app.test_bridge import on_playground
from tests.bridge.delivery.fakes import ScriptedSink, pods
from tests.bridge.delivery.world import World, virtual
from tests.bridge.outbox.opened import crashed, feeds_of, opened
from tests.bridge.replication.pair import leading
from tests.kit.bridges import a_config_map
from tests.kit.informed import Informed
from tests.kit.records import PODS
from tests.kit.sinks import RecordingSink


class Counting(RecordingSink):
    """Its memory is the number of records that it was ever given."""

    def __init__(self) -> None:
        super().__init__()
        self.context = SinkContext()
        self.count = 0

    async def open(self, context: SinkContext) -> None:
        self.context, self.count = context, int(context.memory or b"0")

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        await super().deliver(batch)
        self.count += len(batch)
        return Receipt(memory=b"%d" % self.count)


def context_in(outbox: Outbox, watched: CurrentResources | None = None) -> SinkContext:
    return context_of(outbox, "audit", watched=watched or CurrentResources(), progress=Progress)


async def test_a_checkpoint_survives_a_kill_at_any_moment(tmp_path: Path) -> None:
    """What is given again after a crash was not remembered: so nothing is counted twice, and nothing left out."""
    async with opened(tmp_path) as outbox:
        informer = await Informed().begin(outbox)
        await informer.exports(outbox, *(f"added shop/p{n}" for n in range(10)))
        stream, sink = feeds_of(outbox).feed("audit"), Counting()
        await sink.open(context_in(outbox))
        left = []
        for step in range(3):
            taken = await stream.take(3)
            stream.settle(taken, (await sink.deliver(taken.items)).memory)
            taken = await stream.take(1)
            receipt = await sink.deliver(taken.items)
            await outbox.maintain()  # The last record was delivered and is not settled.
            left.append(crashed(tmp_path, tmp_path / f"left-{step}"))
            stream.settle(taken, receipt.memory)
            if step == 1:
                break
    for step, copy in enumerate(left):
        async with opened(copy) as outbox:
            stream, sink = feeds_of(outbox).feed("audit"), Counting()
            await sink.open(context_in(outbox))
            before = sink.count
            while not stream.exhausted:
                taken = await stream.take(100)
                stream.settle(taken, (await sink.deliver(taken.items)).memory)
            assert (before, sink.count) == (3 + 4 * step, 10)


@pytest.mark.parametrize("lanes", [None, Lanes(concurrency=1)], ids=["batches", "lanes"])
@virtual
async def test_the_newest_memory_is_saved_with_its_records(lanes: Lanes | None) -> None:
    """A receipt without one leaves it as it was."""
    down = Receipt((0,), RetryLater("down"), memory=b"after a failure")
    world = World(ScriptedSink(Receipt(), down, Receipt(), Receipt(memory=b"c"), Receipt()), lanes=lanes)
    saved: list[bytes | None] = []
    async with world.running() as worker:
        for number, name in enumerate("abcd", 1):
            world.pending.happened(*pods(name, number))
            await worker.wait_idle()
            saved.append(world.pending.memory)
    assert saved == [None, b"after a failure", b"c", b"c"]


async def test_watched_resources_are_unknown_before_discovery_answers(tmp_path: Path) -> None:
    watched = CurrentResources()
    async with opened(tmp_path) as outbox:
        context = context_in(outbox, watched)
        assert context.watched() is None
        watched.replace([PODS])
        assert context.watched() == (PODS,)


async def test_a_context_has_memory_shard_and_term(tmp_path: Path) -> None:
    (tmp_path / "alone").mkdir()
    async with opened(tmp_path / "alone") as outbox:
        alone = context_in(outbox)
        assert (alone.memory, alone.shard, alone.term) == (b"", None, None)
        outbox.sinks["audit"].remember(b"5")
        outbox.sinks.shard = Shard(2, 1)
        again = context_in(outbox)
        assert (again.memory, again.shard) == (b"5", Shard(2, 1))
    async with leading(tmp_path / "leader", term=4) as leader:
        Feeds(leader.outbox, record_processor()).feed("audit")
        context = context_in(leader.outbox)
        assert context.term is not None
        assert context.term.term == 4
        assert context.term.sequence == leader.outbox.sinks["audit"].settled


class WaitsForWhatIsWatched(Counting):
    """As Kafka's: a gap that may be about anything is stored where records of watched resources go."""

    where: tuple[str, ...] = ()

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        if any(isinstance(record, Gap) for record in batch):
            if (watched := self.context.watched()) is None:
                return Receipt(pending=range(len(batch)), failure=RetryLater("nobody has said what is watched"))
            self.where = tuple(resource.name for resource in watched)
        return await super().deliver(batch)


async def test_a_rebuild_gap_is_exported_once_resources_are_known(tmp_path: Path) -> None:
    """Everything that the first lists find is delivered behind it. A restart reminds the sink of both."""
    async with opened(tmp_path):
        pass
    (tmp_path / "outbox.db").write_bytes(b"no database" * 1000)
    sinks = [WaitsForWhatIsWatched(), WaitsForWhatIsWatched()]
    for sink in sinks:
        plan = SinkPlan(name="audit", type="memory", make=lambda sink=sink: sink, max_batch=100)  # type: ignore[misc]
        wanted = (Wanted("configmaps"), Wanted("secrets"))
        # Each playground is another cluster.
        async with on_playground((plan,), wanted, state=tmp_path, restart_on_cluster_change=True) as world:
            world.cluster.create("configmaps", a_config_map("a"))
            await world.until_ready()
            await sink.until(lambda sink: "default/a" in " ".join(sink.delivered()))

    assert set(sinks[0].where) == {"configmaps", "secrets"}
    assert isinstance(sinks[0].records[0], Gap)
    assert sinks[1].where == (), "it was reported once"
    assert sinks[1].count == len(sinks[0].records) + len(sinks[1].records)
