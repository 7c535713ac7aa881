"""What a sink asks to be reminded of, and what it learns beside its records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path

from bridge.delivery.feeds import Feeds
from bridge.delivery.sink_feed import SinkFeed
from bridge.delivery.sink_pipeline import SinkFactory, term_begun
from bridge.model.primitives.election import TermBegan
from bridge.model.record import Gap, Record
from bridge.model.resource import Resource
from bridge.outbox import Outbox
from bridge.plan.current_resources import CurrentResources
from bridge.plan.plan import SinkPlan, Wanted
from bridge.processor.shared_processor import SharedProcessor
from sinks.base import Receipt, RetryLater
from tests.bridge.app.test_bridge import QUICK, a_config_map, on_playground
from tests.bridge.outbox.opened import crashed, feeds_of, opened
from tests.bridge.replication.pair import leading
from tests.kit.informed import Informed
from tests.kit.records import PODS
from tests.kit.sinks import RecordingSink


class Counting(RecordingSink):
    """Asks to be reminded of how many records it was ever given."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = b""
        self.watched: Callable[[], Sequence[Resource] | None] = tuple

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        receipt = await super().deliver(batch)
        self.memory = b"%d" % (int(self.memory or b"0") + len(batch))
        return receipt


class Fencing(RecordingSink):
    term: TermBegan | None = None
    in_doubt = 0


def ends(
    outbox: Outbox, watched: CurrentResources | None = None, kind: type[RecordingSink] = Counting
) -> tuple[SinkFactory, SinkFeed]:
    feed = feeds_of(outbox).feed("audit")
    known = watched or CurrentResources()
    return SinkFactory(kind, feed, outbox.sinks["audit"], known, partial(term_begun, outbox)), feed


async def test_a_checkpoint_survives_a_kill_at_any_moment(tmp_path: Path) -> None:
    """What is given again after a crash was not remembered: so nothing is counted twice, and nothing left out."""
    async with opened(tmp_path) as outbox:
        informer = await Informed().begin(outbox)
        await informer.exports(outbox, *(f"added shop/p{n}" for n in range(10)))
        sinks, stream = ends(outbox)
        sink = sinks.make()
        left = []
        for step in range(3):
            taken = await stream.take(3)
            await sink.deliver(taken.items)
            stream.settle(taken)
            taken = await stream.take(1)
            await sink.deliver(taken.items)
            await outbox.maintain()  # The last record was delivered and is not settled.
            left.append(crashed(tmp_path, tmp_path / f"left-{step}"))
            stream.settle(taken)
            if step == 1:
                break
    for step, copy in enumerate(left):
        async with opened(copy) as outbox:
            sinks, stream = ends(outbox)
            sink = sinks.make()
            assert isinstance(sink, Counting)
            before = int(sink.memory)
            while not stream.exhausted:
                taken = await stream.take(100)
                await sink.deliver(taken.items)
                stream.settle(taken)
            assert (before, sink.memory) == (3 + 4 * step, b"10")


async def test_a_recreated_sink_gets_the_checkpoint_of_the_former(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        sinks, stream = ends(outbox)
        assert stream.stateful is None
        first = sinks.make()
        assert isinstance(first, Counting)
        assert first.memory == b""
        outbox.sinks["audit"].remember(b"5")
        again = sinks.make()
        assert isinstance(again, Counting)
        assert stream.stateful is again
        assert again.memory == b"5"


async def test_watched_resources_are_unknown_before_discovery_answers(tmp_path: Path) -> None:
    watched = CurrentResources()
    async with opened(tmp_path) as outbox:
        sink = ends(outbox, watched)[0].make()
        assert isinstance(sink, Counting)
        assert sink.watched() is None
        watched.replace([PODS])
        assert sink.watched() == (PODS,)


async def test_a_fencing_sink_gets_the_term_and_the_doubt(tmp_path: Path) -> None:
    (tmp_path / "alone").mkdir()
    async with opened(tmp_path / "alone") as outbox:
        alone = ends(outbox, kind=Fencing)[0].make()
        assert isinstance(alone, Fencing)
        assert alone.term is None
    async with leading(tmp_path / "leader", term=4) as leader:
        feeds = Feeds(leader.outbox, SharedProcessor(targets=attrgetter("targets")))
        feed = feeds.feed("audit")
        sinks = SinkFactory(
            Fencing, feed, leader.outbox.sinks["audit"], CurrentResources(), partial(term_begun, leader.outbox)
        )
        first = sinks.make()
        assert isinstance(first, Fencing)
        assert first.term is not None
        assert first.term.term == 4
        assert first.term.sequence == leader.outbox.sinks["audit"].settled
        first.in_doubt = 17
        again = sinks.make()
        assert isinstance(again, Fencing)
        assert again.in_doubt == 17


class WaitsForWhatIsWatched(Counting):
    """As Kafka's: a gap that may be about anything is stored where records of watched resources go."""

    where: tuple[str, ...] = ()

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        if any(isinstance(record, Gap) for record in batch):
            if (watched := self.watched()) is None:
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
        settings = {"timing": QUICK, "discovery_seconds": 0.05, "grace_seconds": 5.0, "state": tmp_path}
        settings["restart_on_cluster_change"] = True  # Each playground is another cluster.
        wanted = (Wanted("configmaps"), Wanted("secrets"))
        async with on_playground((plan,), wanted, settings, []) as world:
            world.cluster.create("configmaps", a_config_map("a"))
            await world.until_ready()
            await sink.until(lambda sink: "default/a" in " ".join(sink.delivered()))

    assert set(sinks[0].where) == {"configmaps", "secrets"}
    assert isinstance(sinks[0].records[0], Gap)
    assert sinks[1].where == (), "it was reported once"
    assert int(sinks[1].memory) == len(sinks[0].records) + len(sinks[1].records)
