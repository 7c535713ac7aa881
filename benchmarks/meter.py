"""What a contender has used until now, and the figures per event between two readings."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.contenders import Contender, Place
from benchmarks.processes import Child

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Reading:
    """Counts since the start of the process; None where the contender or the kernel has no count."""

    cpu_seconds: float
    switches: int
    """Voluntary context switches of all threads."""
    written_bytes: int | None
    """Bytes sent to disks."""
    fsyncs: int | None


def read(contender: Contender, place: Place, child: Child) -> Reading:
    written = child.written_bytes()
    return Reading(child.cpu_seconds(), child.switches(), written, contender.fsyncs(place))


def per_event(before: Reading, after: Reading, events: int) -> Figures:
    """CPU µs, context switches, bytes written to disk and fsyncs of one event. A figure without both counts is left
    out."""
    counts = {
        "cpu_us": (before.cpu_seconds * 1e6, after.cpu_seconds * 1e6),
        "switches": (before.switches, after.switches),
        "written_bytes": (before.written_bytes, after.written_bytes),
        "fsyncs": (before.fsyncs, after.fsyncs),
    }
    return {name: (now - then) / events for name, (then, now) in counts.items() if then is not None and now is not None}


def acknowledged_ms(before: tuple[float, float] | None, after: tuple[float, float] | None) -> Figures:
    """The mean time of a delivery until its acknowledgement, between two answers of `Contender.waited`. Empty without
    deliveries in between."""
    if before is None or after is None or after[1] <= before[1]:
        return {}
    return {"acknowledged_ms": (after[0] - before[0]) / (after[1] - before[1]) * 1e3}
