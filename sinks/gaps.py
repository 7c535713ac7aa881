"""The newest gap in later envelopes, for sinks with a single stream."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from bridge.model.formats.cloudevent import CloudEvents
from bridge.model.record import Gap, Record, later_gap
from bridge.model.resource import Resource
from sinks.receipt import Receipt

UNKNOWN_GAP = b"gap/unknown"
"""Stands for the newest gap when the saved id cannot be read."""
_GAP = re.compile(rb"gap/(?:[0-9]+/[0-9]+|unknown)")


class NamesGaps:
    """A ``StatefulSink`` for destinations with a single stream: a gap is a record of the stream, and every later
    envelope names the newest gap. The memory is the id of that gap."""

    def __init__(self, events: CloudEvents) -> None:
        self._note_gap = events.note_gap
        self._newest = b""
        self.watched: Callable[[], Sequence[Resource] | None] = tuple

    @property
    def memory(self) -> bytes:
        return self._newest

    @memory.setter
    def memory(self, saved: bytes) -> None:
        # Bytes of another version, or damaged bytes: some gap was there, and must not be forgotten.
        self._newest = saved if not saved or _GAP.fullmatch(saved) else UNKNOWN_GAP
        self._note_gap(self._newest.decode())

    def note_gaps(self, batch: Sequence[Record], receipt: Receipt) -> Receipt:
        """Call with the receipt of every batch; returns it unchanged. A notice is always the only record of its batch,
        so the last record decides."""
        if isinstance(batch[-1], Gap) and not receipt.pending:
            self.memory = later_gap(self._newest.decode(), batch[-1].id).encode()
        return receipt
