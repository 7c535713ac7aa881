"""A sink that takes nothing for long, and what its policy means for it and for the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bridge.app.admin.client import AdminClient
from bridge.model.policies import BacklogBounds, WhenFull
from bridge.model.record import Gap, Record
from bridge.telemetry.facts.delivery import BacklogCompacted, IntakeBlocked, IntakeResumed
from sinks.base import Lanes, Receipt, RetryLater
from tests.bridge.app.test_bridge import running
from tests.kit.bridges import World, a_config_map
from tests.kit.deadlines import until
from tests.kit.sinks import RecordingSink, StuckSink

BOUND = 20
CHANGES = 50


@asynccontextmanager
async def beside_a_stuck_sink(
    stuck: StuckSink, live: RecordingSink, bounds: BacklogBounds, policy: WhenFull
) -> AsyncIterator[World]:
    """Its backlog reaches the bound by one change after the other, as fast as the other sink receives them."""
    async with running(stuck, live, options={"sink-0": {"bounds": bounds, "when_full": policy}}, latency=0) as world:
        await world.until_ready()
        world.cluster.create("configmaps", a_config_map("a"))
        await stuck.holding.wait()
        yield world


async def change(world: World, live: RecordingSink, times: int) -> None:
    for value in range(times):
        delivered = len(live.records)
        world.cluster.patch("configmaps", "a", {"data": {"value": f"changed {value}"}})
        await live.until(lambda sink, delivered=delivered: len(sink.records) > delivered)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("bounds", "bound"),
    [
        (BacklogBounds(records=BOUND), "max_backlog.records"),
        (BacklogBounds(bytes=5_000), "max_backlog.bytes"),
        (BacklogBounds(age=0.2), "max_backlog.age"),
    ],
)
async def test_block_stops_the_intake_says_why_and_loses_nothing(bounds: BacklogBounds, bound: str) -> None:
    stuck, live = StuckSink(), RecordingSink()
    async with (
        beside_a_stuck_sink(stuck, live, bounds, WhenFull.BLOCK) as world,
        asyncio.TaskGroup() as tasks,
    ):
        if (age := bounds.age) is not None:  # Otherwise all changes might be younger than that.
            await until(lambda: world.bridge.status().sinks[0].backlog_seconds > age)
        changing = tasks.create_task(change(world, live, CHANGES))
        await until(lambda: world.bridge.status().intake_blocked)
        assert "sink-0" in world.bridge.status().intake_blocked
        assert bound in world.bridge.status().intake_blocked
        assert not world.bridge.status().ready
        delivered = len(live.records)
        await asyncio.sleep(0.3)  # Longer than between two looks at the backlog.
        assert len(live.records) == delivered, "nothing is read for anybody"
        assert not changing.done()

        stuck.loose.set()
        await changing
        for sink in (stuck, live):
            await sink.until(lambda sink: len(sink.records) == 1 + CHANGES)
        await until(lambda: not world.bridge.status().intake_blocked)
        await world.until_ready()

    assert stuck.records == live.records, "nothing was left out"
    assert {fact.sink for fact in world.reported(IntakeBlocked)} == {"sink-0"}
    assert len(world.reported(IntakeResumed)) == len(world.reported(IntakeBlocked))


async def test_a_bridge_that_blocks_ends_within_its_grace() -> None:
    stuck, live = StuckSink(), RecordingSink()
    async with beside_a_stuck_sink(stuck, live, BacklogBounds(records=1), WhenFull.BLOCK) as world:
        world.cluster.patch("configmaps", "a", {"data": {"value": "2"}})
        await until(lambda: world.bridge.status().intake_blocked)
        world.bridge.stop()
        await live.until(lambda sink: len(sink.records) == 2)
        stuck.loose.set()
        await stuck.until(lambda sink: len(sink.records) == 2)


async def test_compact_leaves_one_sink_the_newest_and_others_all() -> None:
    stuck, live = StuckSink(), RecordingSink()
    async with beside_a_stuck_sink(stuck, live, BacklogBounds(records=BOUND), WhenFull.COMPACT) as world:
        await change(world, live, CHANGES)
        # Under way is one, and one was left; a bound may be met by both before it is compacted again.
        await until(lambda: world.bridge.status().sinks[0].backlog_records <= 2 + BOUND)
        assert world.reported(BacklogCompacted)
        assert not world.bridge.status().intake_blocked
        stuck.loose.set()
        newest = live.records[-1].sequence
        await stuck.until(lambda sink: sink.records and sink.records[-1].sequence == newest)

    assert len(live.records) == 1 + CHANGES
    assert stuck.deltas[-1] == live.deltas[-1]
    assert len(stuck.records) <= 2 + BOUND
    assert not any(isinstance(record, Gap) for record in stuck.records), "nothing that it needs is missing"


# ── Small bounds ─────────────────────────────────────────────────────────────

SMALL = 10


class DeadSink(RecordingSink):
    """Takes nothing until it is alive; keeps nobody waiting."""

    alive = False

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        if self.alive:
            return await super().deliver(batch)
        return Receipt(pending=range(len(batch)), failure=RetryLater("connection refused", unavailable=True))


@pytest.mark.parametrize("policy", [WhenFull.DROP, WhenFull.COMPACT])
@pytest.mark.parametrize("lanes", [None, Lanes(concurrency=8)], ids=["batches", "lanes"])
async def test_a_small_bound_holds_whatever_way_a_sink_delivers(
    tmp_path: Path, policy: WhenFull, lanes: Lanes | None
) -> None:
    dead, live = DeadSink(), RecordingSink()
    options = {"bounds": BacklogBounds(records=SMALL), "when_full": policy, "lanes": lanes}
    async with running(dead, live, options={"sink-0": options}, state=tmp_path, latency=0) as world:
        await world.until_ready()
        world.cluster.create("configmaps", a_config_map("a"))
        await live.until(lambda sink: sink.records)
        await change(world, live, CHANGES)
        await until(lambda: world.bridge.status().sinks[0].backlog_records <= SMALL)
        dead.alive = True
        async with AdminClient(tmp_path) as client:
            await client.retry_sink("sink-0")
        await dead.until(lambda sink: sink.deltas and sink.deltas[-1].sequence == 1 + CHANGES)

    assert len(dead.records) <= SMALL, "no more than that was left when it came back"
    if policy is WhenFull.DROP:
        missing = sum(record.count or 0 for record in dead.records if isinstance(record, Gap))
        assert missing + len(dead.deltas) == 1 + CHANGES, "what it did not get, it was reported of"


async def test_the_backlog_of_a_paused_sink_keeps_its_bound(tmp_path: Path) -> None:
    paused, live = RecordingSink(), RecordingSink()
    options = {"bounds": BacklogBounds(records=SMALL), "when_full": WhenFull.COMPACT}
    async with running(paused, live, options={"sink-0": options}, state=tmp_path, latency=0) as world:
        await world.until_ready()
        async with AdminClient(tmp_path) as client:
            await client.pause_sink("sink-0")
            world.cluster.create("configmaps", a_config_map("a"))
            await live.until(lambda sink: sink.records)
            await change(world, live, 100)
            await until(lambda: world.bridge.status().sinks[0].backlog_records <= SMALL)
            assert paused.records == []
            await client.resume_sink("sink-0")
        await paused.until(lambda sink: sink.deltas and sink.deltas[-1].sequence == 101)
