"""Encodes objects alone, for readers that know nothing of events: the object itself, or the data that the option
``data`` makes of the object.
"""

from __future__ import annotations

import msgspec

from bridge.model.formats.content import JSON, TEXT
from bridge.model.formats.definitions import Definitions, JsonSchema
from bridge.model.record import Delta


class RawObjects:
    """The state of the object after the change, byte for byte; for a delete, its last known state. The state does not
    show the operation."""

    name = "object"

    def __init__(self) -> None:
        self.gap = ""
        """Id of the newest gap in the stream, for headers: a state has no place for the id."""

    def __call__(self, delta: Delta) -> bytes:
        return delta.body

    def schema(self, definitions: Definitions) -> JsonSchema:
        return definitions.state()


MEDIA_TYPES = (JSON, TEXT)
_encode = msgspec.json.Encoder().encode


class MadeData:
    """Encodes the data in the content of a record."""

    name = "data"

    def __init__(self) -> None:
        self.gap = ""
        """Id of the newest gap in the stream, for headers."""

    def __call__(self, delta: Delta) -> bytes:
        """A map or a list as JSON, a text as it is. Raises ValueError for a record without data."""
        data = delta.made.data
        return data.encode() if isinstance(data, str) else _encode(data)

    def json(self, delta: Delta) -> bytes:
        """The data as JSON, also a text. Raises ValueError for a record without data."""
        return _encode(delta.made.data)

    def schema(self, definitions: Definitions) -> JsonSchema:
        return definitions.add(
            "Data", {"description": "Made by the option data.", "type": ["object", "array", "string"]}
        )
