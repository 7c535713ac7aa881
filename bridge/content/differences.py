"""The differences that ``include`` asks for, made of the bytes of two states. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import msgspec

from bridge.content.changed import changed_paths
from bridge.content.patches import json_patch, merge_patch
from bridge.model.formats.content import Include

MOST_COMPARED = 4 * 1024 * 1024
"""Bytes of both states: more than etcd takes for two objects. Decoded they have some twenty times as much memory."""
_WHOLE = ["*"]
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class Differences(NamedTuple):
    """Each is None if it is not asked for."""

    patch: bytes | None = None
    """JSON; None also where no merge patch leads to the state after."""
    json_patch: bytes | None = None
    """JSON."""
    changed: list[str] | None = None
    uncompared: str = ""
    """Why the states could not be compared, without any value of them; empty if they were. Then the JSON patch replaces
    the whole state, there is no merge patch, and ``*`` has changed."""


def differences(before: bytes, after: bytes, include: Collection[Include]) -> Differences:
    """The states are not kept decoded. Never raises: states that are too large or cannot be decoded count as different
    as a whole."""
    size = len(before) + len(after)
    if size > MOST_COMPARED:
        return _whole(after, include, f"they have {size} bytes; {MOST_COMPARED} are the most")
    try:
        was, now = _decode(before), _decode(after)
        return Differences(
            _encode(found) if Include.PATCH in include and (found := merge_patch(was, now)) is not None else None,
            _encode(json_patch(was, now)) if Include.JSON_PATCH in include else None,
            changed_paths(was, now) if Include.CHANGED in include else None,
        )
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, MemoryError) as error:
        return _whole(after, include, f"they cannot be read: {type(error).__name__}")


def _whole(after: bytes, include: Collection[Include], why: str) -> Differences:
    whole = b'[{"op":"replace","path":"","value":%b}]' % after
    return Differences(
        None,
        whole if Include.JSON_PATCH in include else None,
        _WHOLE if Include.CHANGED in include else None,
        why,
    )
