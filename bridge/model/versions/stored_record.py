"""Records as a destination has them, before anybody asks what they say.

The reader of a destination gives them. ``stored_version`` reads the version in one, and ``followed_record`` shows all
of it to people.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec


class StoredRecord(msgspec.Struct, frozen=True, gc=False):
    """A line of a file, or a message of a topic, a stream or a subject."""

    data: bytes | None
    """The line, or the payload of the message. None for a line that is too long or damaged, and for a message without a
    payload (Kafka's tombstone)."""
    attributes: Mapping[str, str] | None = None
    """The attributes of a CloudEvent in the message's headers; empty for a message of another program. None for a line:
    its attributes are in ``data``."""
    key: bytes = b""
    """The key of a Kafka record."""
    key_is_of_object: bool = False
    """``key`` names an object, so a tombstone of any program means that this object is deleted."""


@dataclass(frozen=True, slots=True)
class ReadFilter:
    """A filter of objects. A reader may return more objects than match, but none less. None matches any."""

    group: str | None = None
    """Empty for the core group."""
    version: str | None = None
    plural: str | None = None
    kind: str | None = None
    namespace: str | None = None
    """Empty for objects without namespace."""


ANY_OBJECT = (ReadFilter(),)
