from __future__ import annotations

from typing import Any

import pytest

from bridge.model.status import BridgeStatus, CircuitState, InformerState, InformerStatus, SinkState, SinkStatus


def _informer(*, synced: bool, live: bool) -> InformerStatus:
    return InformerStatus(resource="pods", scope="all", state=InformerState.LISTING, synced=synced, live=live)


@pytest.mark.parametrize(
    ("informers", "ready"),
    [
        ([], False),
        ([_informer(synced=True, live=True)], True),
        ([_informer(synced=True, live=True), _informer(synced=True, live=False)], False),
        ([_informer(synced=True, live=True), _informer(synced=False, live=False)], False),
    ],
)
def test_ready_means_each_resource_synced_and_live_and_any_there(informers: list[InformerStatus], ready: bool) -> None:
    stuck = SinkStatus(name="audit", type="kafka", state=SinkState.WAITING, backlog_records=9, last_error="no broker")
    assert BridgeStatus(informers=tuple(informers), sinks=(stuck,)).ready is ready


def test_a_bridge_that_takes_nothing_in_is_not_ready() -> None:
    live = _informer(synced=True, live=True)
    assert BridgeStatus(informers=(live,), sinks=()).ready
    assert not BridgeStatus(informers=(live,), sinks=(), intake_blocked="the disk is full").ready


@pytest.mark.parametrize("state", list(SinkState))
def test_a_sink_is_well_while_it_takes_what_there_is(state: SinkState) -> None:
    sink = SinkStatus(name="audit", type="kafka", state=state, backlog_records=10**6)
    assert sink.well is (state in (SinkState.IDLE, SinkState.DELIVERING))


@pytest.mark.parametrize(
    "failure",
    [
        {"last_error": "503"},
        {"dead_letters": 1},
        {"circuit": CircuitState.OPEN},
        {"circuit": CircuitState.HALF_OPEN},
    ],
    ids=str,
)
def test_a_sink_is_unwell_while_it_fails_or_awaits_an_operator(failure: dict[str, Any]) -> None:
    assert not SinkStatus(name="audit", type="kafka", state=SinkState.DELIVERING, **failure).well
