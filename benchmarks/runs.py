"""One run of one contender: what is done, and which figures come of it."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.contenders import Contender, Place
from benchmarks.destinations import Destination
from benchmarks.meter import Figures, acknowledged_ms, per_event, read
from benchmarks.processes import Child, ChildFailed, Usage
from benchmarks.servers import Brokers, Load, LoadServer

POLL_INTERVAL = 0.02
"""Seconds between two looks at whether everything has arrived: the error of every time that is measured."""
SETTLE = 2.0
"""Seconds of quiet before memory and CPU are read: what is put off until later counts too."""
STALL = 240.0
"""Seconds without a further record after which a run has failed. client-go's dynamic informer decodes 100,000 pods
before it tells the first of them."""


@dataclass(frozen=True, slots=True)
class Around:
    """What every run needs."""

    folder: Path
    """Its own; it is deleted afterwards."""
    brokers: Brokers

    def place(self, load: Load) -> Place:
        (self.folder / "contender").mkdir()
        return Place(self.folder / "contender", LoadServer(self.folder / "server", load), self.brokers)


@dataclass(frozen=True, slots=True)
class Running:
    """A contender at work, and where its records arrive."""

    contender: Contender
    place: Place
    child: Child
    destinations: Sequence[Destination]

    def arrive(self, objects: int) -> None:
        """Wait until every destination has so many objects. Raises ChildFailed when they stop coming."""
        waiting = list(self.destinations)
        seen, since = -1, time.monotonic()
        while waiting:
            self.child.peak_bytes()
            ended = self.child.ended  # asked before the count: what it delivered before its end counts
            arrived = [each.arrived() for each in waiting]
            waiting = [each for each, count in zip(waiting, arrived, strict=True) if count < objects]
            if not waiting:
                return
            if sum(arrived) != seen:
                seen, since = sum(arrived), time.monotonic()
            if ended or time.monotonic() - since > STALL:
                why = "it ended" if ended else f"nothing came for {STALL:.0f} s"
                raise ChildFailed(f"{arrived} of {objects} arrived, and then {why}\n{self.child.log_tail()}")
            time.sleep(POLL_INTERVAL)

    def end(self) -> Usage:
        """Wait for its end, after the last of its records."""
        return self.child.wait(STALL) if self.contender.ends_itself else self.child.stop()


@contextmanager
def running(contender: Contender, place: Place, records: int) -> Iterator[Running]:
    """Started with fresh destinations, which are taken away afterwards."""
    destinations = contender.destinations(place)
    child = contender.start(place, destinations, records)
    try:
        yield Running(contender, place, child, destinations)
    finally:
        child.kill()
        contender.close()
        for each in destinations:
            each.close()


def stream(
    around: Around, contender: Contender, load: Load, events: int, *, rate: float = 0, settle: float = SETTLE
) -> Figures:
    """List everything, rest, and then follow so many events (at least one), at full speed or so many a second."""
    place, records = around.place(load), load.objects + events
    with place.server as server, running(contender, place, records) as run:
        run.arrive(load.objects)
        figures = {"list_seconds": run.child.age_seconds(), "list_cpu_seconds": run.child.cpu_seconds()}
        stats = server.stats()
        figures["list_server_left"] = 1 - stats["cpu_seconds"] / figures["list_seconds"]
        figures["list_cpu_us_per_kb"] = figures["list_cpu_seconds"] / stats["bytes"] * 1e9
        figures |= at_rest(run, settle)
        figures |= _timed(run, events, rate, settle) if rate else follow(run, load.objects, events, 0, settle)
        whole = run.end()
        return figures | {"peak_bytes": run.child.peak_bytes(), "whole_cpu_us": whole.cpu_seconds / records * 1e6}


def at_rest(run: Running, settle: float) -> Figures:
    """Memory after a time without events, in seconds."""
    time.sleep(settle)
    resident = run.child.resident_bytes()
    return {"rest_bytes": resident, "rest_bytes_per_object": resident / run.place.server.load.objects}


def follow(run: Running, records: int, events: int, rate: float, settle: float) -> Figures:
    """Further events, after so many records. ``rate``: events a second; 0 for full speed."""
    server = run.place.server
    before, used, began = server.stats(), read(run.contender, run.place, run.child), time.monotonic()
    server.go(events, rate)
    if rate:
        time.sleep(events / rate)  # Looking at the destination meanwhile would cost cores that the contender needs.
    run.arrive(records + events)
    wall = time.monotonic() - began
    after = server.stats()
    _settle(run.child, settle)
    used_now = read(run.contender, run.place, run.child)
    return per_event(used, used_now, events) | {
        "cpu_us_per_kb": (used_now.cpu_seconds - used.cpu_seconds) / (after["bytes"] - before["bytes"]) * 1e9,
        "wall_seconds": wall,
        "events_per_second": events / wall,
        "received_bytes": after["bytes"] - before["bytes"],
        "server_left": 1 - (after["cpu_seconds"] - before["cpu_seconds"]) / wall,
    }


def _timed(run: Running, events: int, rate: float, settle: float) -> Figures:
    """Events at a rate, with their latencies."""
    for each in run.destinations:
        each.follow()
    waited, since_ns = run.contender.waited(run.place), time.time_ns()
    figures = follow(run, run.place.server.load.objects, events, rate, settle)
    figures |= acknowledged_ms(waited, run.contender.waited(run.place))
    found = [latency for each in run.destinations for latency in each.latencies(since_ns)]
    return figures | {"latency_p50_ms": statistics.median(found), "latency_p99_ms": percentile(found, 99)}


def _settle(child: Child, seconds: float) -> None:
    until = time.monotonic() + seconds
    while not child.ended and time.monotonic() < until:
        time.sleep(POLL_INTERVAL)
        child.peak_bytes()


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest of the values that so many percent of them do not exceed."""
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


def turned(names: Sequence[str], number: int) -> list[str]:
    """Another one first in each round: what the machine does meanwhile meets all alike."""
    first = number % len(names)
    return [*names[first:], *names[:first]]
