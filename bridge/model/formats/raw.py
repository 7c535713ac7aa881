"""Objects alone, for readers that know nothing of events."""

from __future__ import annotations

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
