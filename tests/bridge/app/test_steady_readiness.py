"""Whether the bridge is ready while a change of the configuration replaces its informers."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from bridge.app.running import SETTLING, SteadyReadiness
from bridge.model.status import BridgeStatus, InformerState, InformerStatus
from tests.kit.virtual_time import run_in_virtual_time

PODS = InformerStatus(resource="pods", scope="all", state=InformerState.LIVE, synced=True, live=True)
LIVE = BridgeStatus(informers=(PODS,), sinks=())
LISTING = replace(LIVE, informers=(replace(PODS, state=InformerState.LISTING, live=False, synced=False),))
NOBODY = replace(LIVE, informers=())


def test_a_bridge_stays_ready_until_its_informers_are_live_again() -> None:
    async def scenario() -> None:
        steady = SteadyReadiness()
        with steady.changing(LIVE):
            assert steady.covers(NOBODY)
            await asyncio.sleep(10 * SETTLING)
            assert steady.covers(NOBODY)
        assert steady.covers(LISTING)
        assert steady.covers(LIVE)
        assert not steady.covers(LISTING), "a later failure is no matter of the change"

    run_in_virtual_time(scenario())


def test_a_resource_that_stays_away_ends_the_readiness() -> None:
    async def scenario() -> None:
        steady = SteadyReadiness()
        with steady.changing(LIVE):
            pass
        await asyncio.sleep(SETTLING - 0.1)
        assert steady.covers(LISTING)
        await asyncio.sleep(0.2)
        assert not steady.covers(LISTING)

    run_in_virtual_time(scenario())


def test_a_change_makes_no_bridge_ready_that_was_not() -> None:
    async def scenario() -> None:
        steady = SteadyReadiness()
        with steady.changing(LISTING):
            assert not steady.covers(NOBODY)
        assert not steady.covers(LISTING)

    run_in_virtual_time(scenario())


def test_a_blocked_intake_is_no_matter_of_a_change() -> None:
    assert replace(NOBODY, changing=True).ready
    assert not replace(NOBODY, changing=True, intake_blocked="the disk is full").ready
