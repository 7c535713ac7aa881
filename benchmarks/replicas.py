"""Replicas of a bridge: one that leads, or a standby beside it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import httpx
import yaml

from benchmarks.contenders import Bridge, Place
from benchmarks.destinations import Destination
from benchmarks.processes import Child, ChildFailed

NAMESPACE = "load"
"""Of the load server's Lease."""
READY = 120.0
"""Seconds until the first replica must lead, and until the second must be exact: the first finds no Lease and waits its
duration, in case somebody has it; the second waits for a bookmark, which comes once a minute."""
_KEY = bytes(range(32))


class Replica(Bridge):
    """The first of the replicas of a bridge, with one Kafka sink. It leads."""

    def __init__(self) -> None:
        super().__init__("kafka")

    def configuration(self, place: Place, destinations: Sequence[Destination]) -> Mapping[str, Any]:
        key_file = place.folder / "redaction.key"
        key_file.touch(0o600)
        key_file.write_bytes(_KEY)
        election = {"enabled": True, "namespace": NAMESPACE, "identity": place.folder.name}
        elected = {"election": election, "redaction": {"key_file": str(key_file)}}
        return {**super().configuration(place, destinations), **elected}


class Standby(Replica):
    """The second one. The first leads, and delivers what both watch."""

    def __init__(self) -> None:
        super().__init__()
        self._leader: Child | None = None

    def start(self, place: Place, destinations: Sequence[Destination], records: int) -> Child:
        (beside := replace(place, folder=place.folder / "leader")).folder.mkdir()
        self._leader = super().start(beside, destinations, records)
        _wait_until("kubedelta_leader 1", beside, self._leader)
        standby = super().start(place, destinations, records)
        _wait_until("kubedelta_leader_exact 1", place, standby)
        return standby

    def close(self) -> None:
        if self._leader is not None:
            self._leader.kill()
            self._leader = None


def _wait_until(metric: str, place: Place, replica: Child) -> None:
    """``metric``: the beginning of a line of /metrics. Raises ChildFailed."""
    listen = yaml.safe_load((place.folder / "kubedelta.yaml").read_text())["telemetry"]["listen"]
    deadline = time.monotonic() + READY
    while not any(line.startswith(metric) for line in _metrics(listen)):
        if replica.ended or time.monotonic() > deadline:
            replica.kill()
            raise ChildFailed(f"{metric} did not come\n{replica.log_tail()}")
        time.sleep(0.1)


def _metrics(listen: str) -> Sequence[str]:
    try:
        return httpx.get(f"http://{listen}/metrics", trust_env=False).text.splitlines()
    except httpx.TransportError:
        return ()
