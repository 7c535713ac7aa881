"""One record, one line. Hot."""

from __future__ import annotations

from bridge.model.formats.cloudevent import CloudEvents
from bridge.model.record import Delta, Record
from sinks.base import Format

_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")


class LineEncoder:
    def __init__(self, events: CloudEvents, form: Format) -> None:
        self._json = events.structured if form is Format.CLOUDEVENTS else events.data
        self._takes_notices = form is Format.CLOUDEVENTS

    def line(self, record: Record) -> bytes:
        """Ends with the only newline in it. Among envelopes a notice has no line: a line has no type that would tell it
        from them, and each that follows names the gap. Raises ValueError for a record that has no such form."""
        if not self._takes_notices and not isinstance(record, Delta):
            return b""
        text = self._json(record)
        if b"\n" in text or b"\r" in text:
            # In JSON these stand outside of strings only, where a space means the same.
            text = text.translate(_ONE_LINE)
        return text + b"\n"
