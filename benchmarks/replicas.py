"""Two replicas of a bridge: one leads, the other follows it."""

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
READY = 60.0
"""Seconds until the first replica must lead, and until the second must be in sync: the first finds no Lease and waits
its duration, in case somebody has it."""
_KEY = bytes(range(32))


class Replica(Bridge):
    """One of two replicas, with one Kafka sink: the leader, or the follower."""

    def __init__(self, *, leads: bool) -> None:
        super().__init__("kafka")
        self._leads = leads
        self._other: Child | None = None

    def configuration(self, place: Place, destinations: Sequence[Destination]) -> Mapping[str, Any]:
        key_file = place.folder / "redaction.key"
        key_file.touch(0o600)
        key_file.write_bytes(_KEY)
        election = {"enabled": True, "namespace": NAMESPACE, "identity": place.folder.name, "port": 0}
        elected = {"election": election, "redaction": {"key_file": str(key_file)}}
        return {**super().configuration(place, destinations), **elected}

    def start(self, place: Place, destinations: Sequence[Destination], records: int) -> Child:
        (beside := replace(place, folder=place.folder / "beside")).folder.mkdir()
        places = (place, beside) if self._leads else (beside, place)
        started: dict[bool, Child] = {}
        for leads, where in zip((True, False), places, strict=True):
            started[leads] = super().start(where, destinations, records)
            if leads is not self._leads:
                self._other = started[leads]
            _wait_until("kubedelta_leader 1" if leads else "kubedelta_replica_in_sync 1", where, started[leads])
        return started[self._leads]

    def close(self) -> None:
        if self._other is not None:
            self._other.kill()
            self._other = None


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
