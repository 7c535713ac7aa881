"""Backlogs of the last hour: a sample of each sink, in a ring. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import msgspec

from bridge.model.status import SinkStatus

EVERY = 10.0
"""Seconds between two samples."""
MOST = 360
"""Samples: an hour."""


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
