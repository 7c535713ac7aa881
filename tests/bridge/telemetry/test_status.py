from __future__ import annotations

import pytest

from bridge.telemetry.status import InformerState, InformerStatus, SinkState, SinkStatus, Snapshot


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
def test_ready_is_every_resource_synced_and_live_and_at_least_one(informers: list[InformerStatus], ready: bool) -> None:
    stuck = SinkStatus(name="audit", type="kafka", state=SinkState.WAITING, lag=10**6, last_error="no broker")
    assert Snapshot(informers=tuple(informers), sinks=(stuck,)).ready is ready
