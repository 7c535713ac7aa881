"""Makes the picture of the bridge that a viewer sees: its state with rates, as JSON, and the backlogs of the last hour.

``Painter`` turns a BridgeStatus into a picture; rates are the growth of counters over the last seconds.
``BacklogHistory`` keeps a sample of each sink in a ring; its caller names the moment.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from bridge.model.status import BridgeStatus, SinkStatus

_WINDOW = 5.0
"""Seconds over which a rate is measured."""
_LONGEST_REASON = 2000
"""Characters."""


class Painter:
    """Makes a picture of each status, with the rates since the one before."""

    def __init__(self) -> None:
        self.committed: Counter[str] = Counter()
        """Resource → records since someone looks."""
        self._of_resources = Rates()
        self._of_sinks = Rates()

    def paint(self, status: BridgeStatus, now: float) -> bytes:
        """All that a viewer sees, except records: the status of each resource and sink, whether it is well, and records
        in a second; as JSON. ``now``: seconds of the event loop's clock."""
        of_resources = {each.resource: self.committed[each.resource] for each in status.informers}
        of_sinks = self._of_sinks.look(now, {sink.name: sink.delivered for sink in status.sinks})
        configuration = status.configuration
        picture = {
            "ready": status.ready,
            "intake_blocked": _cut(status.intake_blocked),
            "resources": [
                {"status": replace(each, reason=_cut(each.reason)), "ready": each.ready} for each in status.informers
            ],
            "rates": self._of_resources.look(now, of_resources),
            "sinks": [
                {
                    "status": replace(each, last_error=_cut(each.last_error)),
                    "well": each.well,
                    "rate": of_sinks[each.name],
                }
                for each in status.sinks
            ],
            "refused": "" if configuration is None else _cut(configuration.refused),
            "outbox_records": status.outbox_records,
            "outbox_bytes": status.outbox_bytes,
            "outbox_oldest_seconds": status.outbox_oldest_seconds,
            "disk_free_bytes": status.disk_free_bytes,
        }
        return msgspec.json.encode(picture)


def _cut(text: str) -> str:
    # A reason may hold bytes that are not UTF-8, which JSON cannot.
    return text[:_LONGEST_REASON].encode(errors="replace").decode()


class Rates:
    """Growth of counters, in a second, over the last seconds."""

    def __init__(self) -> None:
        self._looks: deque[tuple[float, Mapping[str, int]]] = deque()

    def look(self, now: float, counts: Mapping[str, int]) -> dict[str, float]:
        """``now``: seconds of a clock that never goes back. A counter that begins anew has the rate 0."""
        looks = self._looks
        looks.append((now, dict(counts)))
        while len(looks) > 2 and looks[1][0] <= now - _WINDOW:
            looks.popleft()
        then, before = looks[0]
        seconds = now - then
        if seconds <= 0:
            return dict.fromkeys(counts, 0.0)
        return {name: round(max(0, count - before.get(name, count)) / seconds, 2) for name, count in counts.items()}


# ── Backlogs of the last hour ────────────────────────────────────────────────

EVERY = 10.0
"""Seconds between two samples."""
MOST = 360
"""Samples: an hour."""


class BacklogHistory:
    """The newest samples."""

    def __init__(self) -> None:
        self._samples: deque[BacklogSample] = deque(maxlen=MOST)

    def add(self, time: float, sinks: Sequence[SinkStatus]) -> BacklogSample:
        """``time``: seconds since 1970."""
        sample = BacklogSample(time, {sink.name: sink.backlog_records for sink in sinks})
        self._samples.append(sample)
        return sample

    def series(self) -> BacklogSeries:
        names = dict.fromkeys(name for sample in self._samples for name in sample.records)
        return BacklogSeries(
            [int(sample.time) for sample in self._samples],
            {name: [sample.records.get(name) for sample in self._samples] for name in names},
        )


class BacklogSample(msgspec.Struct, frozen=True):
    """The backlogs of all sinks at a moment."""

    time: float
    """Seconds since 1970."""
    records: dict[str, int]
    """Sink → records."""


class BacklogSeries(msgspec.Struct, frozen=True):
    """Samples in the form of a chart: a value for each time, null where the sink did not exist."""

    times: list[int]
    records: dict[str, list[int | None]]
