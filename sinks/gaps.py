"""Keeps the newest gap for sinks with a single stream, whose later envelopes all name it (``NamesGaps``), and makes the
Gap that stands for records which a destination has lost (``gap_before``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace as replace_fields
from datetime import UTC, datetime

from msgspec.structs import replace

from bridge.model.formats.cloudevent import CloudEvents
from bridge.model.record import Concern, Gap, Record, later_gap, lost_gap
from sinks.receipt import Receipt

UNKNOWN_GAP = b"gap/unknown"
"""Stands for the newest gap when the saved id cannot be read."""
_GAP = re.compile(rb"gap/(?:(?:[0-9]+-of-[0-9]+/)?[0-9]+/[0-9]+|unknown)")


def gap_before(batch: Sequence[Record], reason: str, concerns: Sequence[Concern] | None) -> Gap:
    """For records that the destination had stored and has lost: all before this batch. ``reason``: how, such as
    ``stream K8S was purged``. ``concerns``: everything that these records may be about; None if unknown."""
    now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    return replace(lost_gap(max(1, batch[0].sequence - 1), reason, now, concerns), term=batch[0].term)


class NamesGaps:
    """For sinks of destinations with a single stream: a gap is a record of the stream, and every later envelope names
    the newest gap. Its id is in the memory."""

    def __init__(self, events: CloudEvents) -> None:
        self._note_gap = events.note_gap
        self.newest_gap = b""
        """Its id; empty before the first."""

    def remember_gap(self, saved: bytes) -> None:
        """``saved``: the id of the newest gap, as the memory had it; empty before the first."""
        # Bytes of another version, or damaged bytes: some gap was there, and must not be forgotten.
        self.newest_gap = saved if not saved or _GAP.fullmatch(saved) else UNKNOWN_GAP
        self._note_gap(self.newest_gap.decode())

    def note_gap(self, batch: Sequence[Record], receipt: Receipt) -> None:
        """Call with the receipt of every batch. A notice is always the only record of its batch, so the last record
        decides."""
        if isinstance(batch[-1], Gap) and not receipt.pending:
            self.remember_gap(later_gap(self.newest_gap.decode(), batch[-1].id).encode())

    def remembered(self, batch: Sequence[Record], receipt: Receipt) -> Receipt:
        """Like ``note_gap``, for a sink whose memory is the newest gap alone. Returns the receipt, with the memory if
        that has changed."""
        before = self.newest_gap
        self.note_gap(batch, receipt)
        return receipt if self.newest_gap == before else replace_fields(receipt, memory=self.newest_gap)
