"""Records as lines. Hot."""

from __future__ import annotations

from collections.abc import Sequence

from bridge.model.formats.cloudevent import CloudEvents
from bridge.model.formats.definitions import Definitions
from bridge.model.record import Delta, Record
from sinks.channels import Channel, object_messages, structured_messages
from sinks.file.options import FileOptions
from sinks.options import Format

_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")


class FileEncoder:
    """CloudEvents in the structured form, envelopes, rows or objects: a JSON object per line."""

    def __init__(self, events: CloudEvents, form: Format) -> None:
        self._json = events.structured if form is Format.CLOUDEVENTS else events.data
        self._takes_notices = form.has_notices

    def encode(self, record: Record) -> bytes:
        """A line, whose only newline is at its end. Empty for a notice in other formats than CloudEvents: readers could
        not distinguish its line from an object's, and every later envelope and row names the gap. Raises ValueError for
        a record that has no such form."""
        if not self._takes_notices and not isinstance(record, Delta):
            return b""
        text = self._json(record)
        if b"\n" in text or b"\r" in text:
            # In JSON these characters are outside of strings, where a space means the same.
            text = text.translate(_ONE_LINE)
        return text + b"\n"


def channels(options: FileOptions, cluster: str, definitions: Definitions) -> Sequence[Channel]:
    """The file."""
    messages = structured_messages if options.format is Format.CLOUDEVENTS else object_messages
    return [Channel(name="lines", address=str(options.path), messages=messages(options, cluster, definitions))]
