"""When an informer counts as stuck, which only a new process can mend."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, cast

import pytest

from bridge.app.running import STUCK_AFTER, is_stuck
from bridge.informer import SharedInformer, Timing
from bridge.model.answers import HungUp
from bridge.model.change import ChangeBatch
from bridge.model.resource import Scope
from bridge.telemetry.facts import discard
from tests.kit.records import PODS
from tests.kit.simulated_cluster import SimulatedCluster
from tests.kit.virtual_time import run_in_virtual_time


@dataclass(frozen=True)
class BridgeStatus:
    """What is asked of an informer here."""

    silent_for: float
    caught_up: bool

    @property
    def last_answer(self) -> float:
        return asyncio.get_running_loop().time() - self.silent_for


@pytest.mark.parametrize(
    ("silent_for", "caught_up", "stuck"),
    [
        (0.0, True, False),
        (STUCK_AFTER - 5, True, False),
        (STUCK_AFTER + 5, True, True),
        (STUCK_AFTER + 5, False, False),
    ],
)
async def test_no_answer_beyond_deadlines_is_stuck_unless_explained(
    silent_for: float, caught_up: bool, stuck: bool
) -> None:
    assert is_stuck(cast("Any", BridgeStatus(silent_for, caught_up))) is stuck


def test_a_full_backlog_does_not_make_a_broken_watch_stuck() -> None:
    """Nothing is queued behind that batch, and nothing is asked: a new process would stand there again."""

    async def scenario() -> None:
        cluster, has_room = SimulatedCluster(), asyncio.Event()
        has_room.set()

        async def deliver(_: ChangeBatch) -> None:
            await has_room.wait()

        informer = SharedInformer(
            PODS, Scope(), cluster, deliver, report=discard, timing=Timing(), watch_list=False, indexers={}
        )
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(informer.run())
            await informer.wait_synced()
            await asyncio.sleep(1)
            has_room.clear()
            cluster.put("web")
            await asyncio.sleep(1)
            cluster.end_watches(HungUp("the connection broke", torn=True))
            await asyncio.sleep(2 * STUCK_AFTER)

            assert not is_stuck(informer)
            has_room.set()
            await asyncio.sleep(1)
            assert informer.live
            informer.stop()

    run_in_virtual_time(scenario())


def test_the_limit_exceeds_the_longest_watch_and_every_wait() -> None:
    assert 600 < STUCK_AFTER <= 3600
