"""Runs of the bridge that are about its life: how it starts, starts again, and rests."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace

from benchmarks.contenders import Bridge
from benchmarks.meter import Figures
from benchmarks.processes import Child, ChildFailed
from benchmarks.runs import POLL_INTERVAL, SETTLE, STALL, Around, running
from benchmarks.servers import Load, LoadServer

DEPENDENCIES = (
    "aiohttp, apsw, confluent_kafka, httpx, httpx_aiohttp, msgspec, nats, prometheus_client, pydantic_settings, "
    "structlog, yaml, zstandard"
)
"""What the bridge imports of others, in a process that does nothing else."""


def start(around: Around) -> Figures:
    """From the start of the process to its first request."""
    place = around.place(Load(pods=1))
    with place.server as server, running(Bridge("file"), place, 1) as run:
        seconds = first_request(server, run.child)
        run.arrive(1)
        run.child.stop()
        return {"start_seconds": seconds}


def imports(around: Around) -> Figures:
    """From the start of a process that imports what the bridge depends on, to its end."""
    child = Child([sys.executable, "-c", f"import {DEPENDENCIES}"], {}, around.folder / "log")
    child.wait(STALL)
    return {"start_seconds": child.age_seconds()}


def restart(around: Around, load: Load) -> Figures:
    """List everything; end; start again on the same state, and watch."""
    place, bridge = around.place(load), Bridge("kafka")
    with place.server as server, running(bridge, place, load.objects) as first:
        first.arrive(load.objects)
        listed = first.child.age_seconds()
        first.child.stop()
        before = server.stats()
        server.forget_requests()
        second = replace(first, child=bridge.start(place, first.destinations, load.objects))
        try:
            watching = first_request(server, second.child, "watch=true")
            server.go(1)
            second.arrive(load.objects + 1)
            after = server.stats()
            second.child.stop()
        finally:
            second.child.kill()
        lists = sum(after[kind] - before[kind] for kind in ("lists", "watch_lists"))
        return {"list_seconds": listed, "watching_seconds": watching, "lists_after_restart": lists}


def quiet(around: Around, load: Load, seconds: float) -> Figures:
    """Watch resources on which nothing happens."""
    place = around.place(load)
    with place.server as server, running(Bridge("file"), place, load.objects) as run:
        run.arrive(load.objects)
        _wait_until(run.child, lambda: server.stats()["watching"] >= load.widgets)
        time.sleep(SETTLE)
        cpu, began = run.child.cpu_seconds(), time.monotonic()
        time.sleep(seconds)
        share = (run.child.cpu_seconds() - cpu) / (time.monotonic() - began)
        figures = {"core_share": share, "rest_bytes": run.child.resident_bytes()}
        run.child.stop()
        return figures


def first_request(server: LoadServer, child: Child, having: str = "") -> float:
    """Seconds from the start of the process to its first request with these words, as the server saw it."""
    at: list[int] = []

    def asked() -> bool:
        at[:] = [each["at"] for each in server.stats()["asked"] or () if having in each["what"]][:1]
        return bool(at)

    _wait_until(child, asked)
    return (at[0] - child.started_ns) / 1e9


def _wait_until(child: Child, is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + STALL
    while not is_so():
        if child.ended or time.monotonic() > deadline:
            raise ChildFailed(f"it ended, or took more than {STALL:.0f} s\n{child.log_tail()}")
        time.sleep(POLL_INTERVAL)
