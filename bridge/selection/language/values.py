"""Values of CEL as JSON values, of a bounded size. Pure."""

from __future__ import annotations

import ctypes
import math
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from typing import Any

from bridge.selection.language.expression import EvaluationFailed

NO_JSON = "a part that is no JSON"
TOO_LARGE = "the value is too large"
TOO_MUCH = "too much work"
TOO_DEEP = "too deep"
LONG_NUMBER = "a number of more than 64 bits"
NUL = "a text with the character U+0000"
_keep = ctypes.pythonapi.Py_IncRef
_keep.argtypes, _keep.restype = [ctypes.py_object], None
_PER_VALUE = 8
"""Bytes that a value counts beside its text."""


def plain(value: Any) -> Any:
    """The value of a value of cel-cpp's binding; lists and maps are unfolded by one level."""
    found = value.value()
    if found is None:
        # The binding gives None away without a reference, and takes one back when the value ends. Python 3.11 counts
        # them, and ends the process at the last.
        _keep(None)
    return found


def json_value(value: Any, largest: int) -> Any:
    """``value``: of cel-cpp's binding. Bytes become base64, times RFC 3339 and durations seconds (``1.5s``), as in the
    JSON of Protocol Buffers; keys become texts. Raises EvaluationFailed for a part that is no JSON, and for more than
    ``largest`` bytes."""
    return _Conversion(largest).of(value)


class _Conversion:
    def __init__(self, largest: int) -> None:
        self._left = largest

    def of(self, value: Any) -> Any:
        # Recursive without a comprehension: a level of the value is a single frame.
        found = plain(value)
        match found:
            case dict():
                self._count(len(found) * _PER_VALUE)
                members = {}
                for key, inner in found.items():
                    name = _key(key)
                    self._count(len(name))
                    members[name] = self.of(inner)
                return members
            case list():
                self._count(len(found) * _PER_VALUE)
                items = []
                for inner in found:
                    items.append(self.of(inner))
                return items
            case str():
                self._count(len(found))
                return found
            case bytes() | bytearray():
                self._count(len(found))
                return b64encode(found).decode()
        return _scalar(found)

    def _count(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise EvaluationFailed(TOO_LARGE)


def _key(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _scalar(value: Any) -> Any:
    match value:
        case None | bool() | int():
            return value
        case float() if math.isfinite(value):
            return value
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case timedelta():
            return f"{value.total_seconds():f}".rstrip("0").rstrip(".") + "s"
    raise EvaluationFailed(NO_JSON)
