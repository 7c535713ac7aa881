"""The content that a sink's options ask for beside the object: data, texts for addresses and headers, and differences
between states."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

JSON = "application/json"
TEXT = "text/plain;charset=utf-8"


class Makes(StrEnum):
    """The use of an expression's value."""

    DATA = "data"
    """The data of the event: a map, a list or a text."""
    TEXT = "text"
    """A part of a text."""


class Include(StrEnum):
    """A member of an envelope, or a column of a row, that a sink gets only if its options ask for it."""

    BEFORE = "before"
    """The state before the change."""
    PATCH = "patch"
    """A JSON Merge Patch (RFC 7396) from the state before to the state after."""
    JSON_PATCH = "json_patch"
    """A JSON Patch (RFC 6902)."""
    CHANGED = "changed"
    """The paths at which the states differ."""
    MANAGERS = "managers"
    """The field managers that changed something."""


STATES_BEFORE = frozenset({Include.BEFORE, Include.PATCH, Include.JSON_PATCH, Include.CHANGED})
"""Those that need the state before."""
DIFFERENCES = frozenset({Include.PATCH, Include.JSON_PATCH, Include.CHANGED})
"""Made of both states."""
MADE = DIFFERENCES | {Include.MANAGERS}
"""Those that are a part of the record's content."""


class OptionExpression(msgspec.Struct, frozen=True):
    """An expression in the options of a sink."""

    option: str
    """The path of the option, such as ``headers.X-Team``."""
    text: str
    makes: Makes
    offset: int = 0
    """Characters of the option in front of the expression."""


class ContentRequest(msgspec.Struct, frozen=True):
    """The content that a sink's options ask for."""

    expressions: tuple[OptionExpression, ...] = ()
    include: frozenset[Include] = frozenset()

    @property
    def is_made(self) -> bool:
        """Whether the content of a record must be made: the state before is a part of the record."""
        return bool(self.expressions) or not MADE.isdisjoint(self.include)


class Content(msgspec.Struct, frozen=True):
    """The content of a record for a sink."""

    data: Any = None
    """A JSON value: a map, a list or a text. None without the option ``data``. Nobody changes it."""
    texts: Mapping[str, str] = {}
    """Expression → its value."""
    patch: bytes | None = None
    """JSON. None if no sink asks for it, and without a state before; so are the next two. Also where no merge patch
    leads to the state after."""
    json_patch: bytes | None = None
    changed: bytes | None = None
    managers: bytes | None = None
    """JSON. None if no sink asks for it, and where it is unknown."""
    failure: str = ""
    """Why the content cannot be made, without any value of the object; empty if it can. A sink rejects such a
    record."""
    uncompared: str = ""
    """Why the differences have the object as a whole, without any value of it; empty if they do not."""

    @property
    def media_type(self) -> str:
        """Of the data in the binary form."""
        return TEXT if isinstance(self.data, str) else JSON
