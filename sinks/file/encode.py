"""One record, one line. Hot."""

from __future__ import annotations

from bridge.model.cloudevent import CloudEvents
from bridge.model.record import Record
from sinks.base import Format

_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")


class LineEncoder:
    def __init__(self, events: CloudEvents, form: Format) -> None:
        self._json = events.structured if form is Format.CLOUDEVENTS else events.data

    def line(self, record: Record) -> bytes:
        """Ends with the only newline in it. Raises ValueError for a record that has no such form."""
        text = self._json(record)
        if b"\n" in text or b"\r" in text:
            # In JSON these stand outside of strings only, where a space means the same.
            text = text.translate(_ONE_LINE)
        return text + b"\n"
