"""Shows what the running bridge commits to people who watch. Costs nothing while nobody does."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence

import msgspec

from bridge.model.admin import Followed, UnknownTarget
from bridge.model.formats.cloudevent import CloudEvents
from bridge.model.record import Record, body_bytes
from bridge.pipelines.sink_pipeline import SinkPipeline
from bridge.processor.log import ListenerClosed
from bridge.processor.shared_processor import SharedProcessor
from bridge.processor.tap import Tap

MOST_FOLLOWERS = 8
_WAITING = 1000
"""Records that wait for a follower."""
_WAITING_BYTES = 16 << 20
_AT_ONCE = 100
"""Records that are encoded before other work on the event loop goes on."""
_EVERY = 5.0
"""Seconds between two answers without records, by which a follower that is gone is noticed."""


class LiveTail:
    """Followers of commits. A slow one misses records, and delays nobody."""

    def __init__(self, processor: SharedProcessor[Record], pipelines: Mapping[str, SinkPipeline], cluster: str) -> None:
        """``pipelines``: those of the configured sinks at the moment of each call."""
        self._processor = processor
        self._pipelines = pipelines
        self._stored = CloudEvents(cluster)
        self._taps: list[Tap[Record]] = []
        self._closed = False

    async def follow(self, sink: str | None = None) -> AsyncGenerator[Followed, None]:
        """See AdminOperations. Ends when the sink leaves the configuration, and after ``close``."""
        if sink is not None and sink not in self._pipelines:
            raise UnknownTarget(f"there is no sink {sink}; there are: {', '.join(sorted(self._pipelines)) or 'none'}")
        if len(self._taps) >= MOST_FOLLOWERS:
            raise UnknownTarget(f"{MOST_FOLLOWERS} readers follow the bridge already: end one of them")
        if self._closed:
            return
        tap = Tap[Record](most=_WAITING, most_bytes=_WAITING_BYTES, size=body_bytes)
        self._taps.append(tap)
        self._processor.receivers.append(tap)
        try:
            yield Followed()
            while sink is None or sink in self._pipelines:
                records, dropped = await tap.take(_AT_ONCE, _EVERY)
                yield self._encoded(None if sink is None else self._pipelines.get(sink), records, dropped)
        except ListenerClosed:
            return
        finally:
            self._taps.remove(tap)
            self._processor.receivers.remove(tap)

    def close(self) -> None:
        """Ends every ``follow``."""
        self._closed = True
        for tap in self._taps:
            tap.close()

    def _encoded(self, pipeline: SinkPipeline | None, records: Sequence[Record], dropped: int) -> Followed:
        """``dropped``: records for any sink. A follower of a sink with a selection may have missed fewer."""
        events = self._stored if pipeline is None or pipeline.plan.events is None else pipeline.plan.events()
        encoded: list[msgspec.Raw] = []
        rejected: list[str] = []
        for record in records:
            seen = record if pipeline is None else pipeline.seen(record)
            if seen is None:
                continue
            try:
                encoded.append(msgspec.Raw(events.structured(seen)))
            except ValueError as error:
                rejected.append(f"{seen.id}: {error}")
        return Followed(encoded, dropped, rejected)
