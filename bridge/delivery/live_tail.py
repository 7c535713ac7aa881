"""Shows what the running bridge commits to people who watch, and for a sink the snapshots and gaps beside that.

A follower gets a tap on the processor, with a bound on what waits in it: a slow one misses records, and delays nobody.
Nobody who watches costs nothing.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TypeAlias

import msgspec

from bridge.delivery.sink_pipeline import SinkPipeline
from bridge.model.admin import Followed, UnknownTarget
from bridge.model.formats.cloudevent import CloudEvents
from bridge.model.record import Delta, Record, body_bytes, unfit
from bridge.outbox import SinkCursors
from bridge.processor.shared_processor import ListenerClosed, SharedProcessor, Tap

MOST_FOLLOWERS = 8
_WAITING = 1000
"""Records that wait for a follower."""
_WAITING_BYTES = 16 << 20
_AT_ONCE = 100
"""Records that are encoded before other work on the event loop goes on."""
_EVERY = 5.0
"""Seconds between two answers without records, by which a follower that is gone is noticed."""


class _BesideLog(NamedTuple):
    """A record that its sink reads and that is not in the log: a notice, or an object of a snapshot."""

    record: Record


_Seen: TypeAlias = Record | _BesideLog


class LiveTail:
    """Followers of commits. A slow one misses records, and delays nobody."""

    def __init__(
        self,
        processor: SharedProcessor[Record],
        sinks: SinkCursors,
        pipelines: Mapping[str, SinkPipeline],
        cluster: str,
    ) -> None:
        """``pipelines``: those of the configured sinks at the moment of each call."""
        self._processor = processor
        self._sinks = sinks
        self._pipelines = pipelines
        self._stored = CloudEvents(cluster)
        self._taps: list[Tap[_Seen]] = []
        self._closed = False

    async def follow(self, sink: str | None = None) -> AsyncGenerator[Followed, None]:
        """See AdminOperations. Ends when the sink leaves the configuration, and after ``close``."""
        if sink is not None and sink not in self._pipelines:
            raise UnknownTarget(f"there is no sink {sink}; there are: {', '.join(sorted(self._pipelines)) or 'none'}")
        if len(self._taps) >= MOST_FOLLOWERS:
            raise UnknownTarget(f"{MOST_FOLLOWERS} readers follow the bridge already: end one of them")
        if self._closed:
            return
        tap = Tap[_Seen](most=_WAITING, most_bytes=_WAITING_BYTES, size=_size)
        with self._tapping(tap, sink):
            yield Followed()
            while sink is None or sink in self._pipelines:
                try:
                    records, dropped = await tap.take(_AT_ONCE, _EVERY)
                except ListenerClosed:
                    return
                yield await self._encoded(None if sink is None else self._pipelines.get(sink), records, dropped)

    @contextmanager
    def _tapping(self, tap: Tap[_Seen], sink: str | None) -> Iterator[None]:
        def beside_log(of: str, records: Sequence[Record]) -> None:
            if of == sink and (found := [_BesideLog(each) for each in records if _is_beside_log(each)]):
                tap.offer(found, 0)

        self._taps.append(tap)
        self._processor.receivers.append(tap)
        self._sinks.receivers.append(beside_log)
        try:
            yield
        finally:
            self._taps.remove(tap)
            self._processor.receivers.remove(tap)
            self._sinks.receivers.remove(beside_log)

    def close(self) -> None:
        """Ends every ``follow``."""
        self._closed = True
        for tap in self._taps:
            tap.close()

    async def _encoded(self, pipeline: SinkPipeline | None, records: Sequence[_Seen], dropped: int) -> Followed:
        """``dropped``: records for any sink. A follower of a sink with a selection may have missed fewer."""
        events = self._stored if pipeline is None or pipeline.plan.events is None else pipeline.plan.events()
        encoded: list[msgspec.Raw] = []
        rejected: list[str] = []
        found: Sequence[Record] = [seen for each in records if (seen := _seen(each, pipeline)) is not None]
        rejected += [f"{seen.id}: {why}" for seen in found if (why := unfit(seen))]
        found = [seen for seen in found if not unfit(seen)]
        if pipeline is not None and pipeline.make_content is not None:
            found = await pipeline.make_content(found)
        for seen in found:
            try:
                encoded.append(msgspec.Raw(events.structured(seen)))
            except Exception as error:
                reason = (
                    str(error) if isinstance(error, ValueError) else f"it cannot be encoded: {type(error).__name__}"
                )
                rejected.append(f"{seen.id}: {reason}")
        return Followed(encoded, dropped, rejected)


def _is_beside_log(record: Record) -> bool:
    return not isinstance(record, Delta) or record.snapshot is not None


def _seen(record: _Seen, pipeline: SinkPipeline | None) -> Record | None:
    """The record as the follower gets it; None if its sink does not. Objects of a snapshot are selected already."""
    if isinstance(record, _BesideLog):
        return record.record if pipeline is None else pipeline.redacted(record.record)
    return record if pipeline is None else pipeline.seen(record)


def _size(record: _Seen) -> int:
    return body_bytes(record.record if isinstance(record, _BesideLog) else record)
