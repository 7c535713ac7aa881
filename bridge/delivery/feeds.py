"""Opens a feed out of the outbox for each sink.

A commit hands its records to the ``SharedProcessor``, which distributes them to the listener of each sink. ``Feeds``
joins the three: the outbox, the processor, and a feed that begins where the cursor of its sink is.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

from bridge.delivery.sink_feed import SelectedLog, SinkFeed
from bridge.model.record import Record, body_bytes
from bridge.outbox import Outbox
from bridge.processor.shared_processor import SharedProcessor


def record_processor() -> SharedProcessor[Record]:
    """Its ``distribute`` is the ``committed`` of an outbox that is opened for ``Feeds``."""
    return SharedProcessor[Record](targets=attrgetter("targets"), size=body_bytes)


class Feeds:
    """Joins the outbox, the processor and the feeds: the outbox hands each commit to ``processor.distribute``, and the
    processor to the feed of each sink."""

    def __init__(self, outbox: Outbox, processor: SharedProcessor[Record]) -> None:
        """``processor``: see ``record_processor``."""
        self.outbox = outbox
        self.processor = processor
        self._fed: set[str] = set()
        """Sinks that had a feed in this run."""

    def feed(
        self,
        sink: str,
        kind: type[SinkFeed] = SinkFeed,
        *,
        window: int = 1000,
        resync: float = 0.0,
        redact: Callable[[Record], Record] | None = None,
    ) -> SinkFeed:
        """Begins where the sink's cursor is. ``window``: records in memory; ``resync``: seconds, 0 for never;
        ``redact``: see SinkFeed.
        Raises UnknownTarget for a sink without a cursor, and ListenerExists for a second feed: ``end`` the first."""
        cursor = self.outbox.sinks[sink]
        selection = self.outbox.selections.stored.get(sink)
        log = self.outbox if selection is None else SelectedLog(self.outbox, selection)
        listener = self.processor.add(sink, log, after=cursor.settled, window=window, resync=resync)
        # The feed before this one was ended, perhaps with records in flight; and so was the process before.
        uncertain_through = self.outbox.last if sink in self._fed else self.outbox.last_at_start
        self._fed.add(sink)
        sinks, turns = self.outbox.sinks, self.outbox.selections.turns
        return kind(sink, listener, sinks, uncertain_through, turns, selection=selection, redact=redact)

    def end(self, sink: str) -> None:
        """Removes the feed of a sink, whose worker has ended."""
        self.processor.remove(sink)
