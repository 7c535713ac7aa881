"""Makes JSON values of the library's values, and safe words of its errors.

``json_value`` converts a result of cel-cpp's binding and counts its bytes on the way, so that a value is refused before
it is large. ``why_failed`` gives the reason of a failed evaluation without any value of the object: reasons go to logs,
and an object may have secrets that no redaction knows.
"""

from __future__ import annotations

import ctypes
import math
import re
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from typing import Any

from bridge.views.language.expression import LARGEST, LARGEST_OF_SMALL, TIMES, EvaluationFailed

NO_JSON = "a part that is no JSON"
TOO_LARGE = "the value is too large"
TOO_MUCH = "too much work"
TOO_DEEP = "too deep"
LONG_NUMBER = "a number of more than 64 bits"
NUL = "a text with the character U+0000"
_PER_VALUE = 8
"""Bytes that a value counts beside its text."""
_keep = ctypes.pythonapi.Py_IncRef
_keep.argtypes = [ctypes.py_object]
_keep.restype = None


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


# ── Reasons of failures ──────────────────────────────────────────────────────

_MIB = LARGEST // 1024**2
_KIB = LARGEST_OF_SMALL // 1024
_MISSING = re.compile(r'Key not found in map : "(.*)"', re.DOTALL)
_OVERLOAD = re.compile(r"No matching overloads found : (.*)", re.DOTALL)
_WRONG_TYPE = re.compile(r"of type (\S+); expected: (.+)")
_SIGNATURE = re.compile(r"[\w@!<>?:.()\[\],+*/%=&| -]{1,100}")
_WORDS = {
    NO_JSON: "the value has a part that is no JSON, such as an optional or a type",
    "Unable to convert": "the value has a part that is no JSON, such as an optional or a type",
    TOO_LARGE: f"the value is larger than {_MIB} MiB, or than {_KIB} KiB and {TIMES} times what it is made of",
    TOO_MUCH: "the values that it reads are too many or too long for it: it could take too much time or memory",
    TOO_DEEP: "the object cannot be decoded",
    NUL: "a text has the character U+0000",
    "no JSON": "the object cannot be decoded",
    "bare object": "only the identity of the object is known",
    "Applying SELECT to non-message type": "a member is read of a value that is no map",
    "Iteration budget exceeded": "more than 10000 items were visited",
    "Index error: index=": "a list is shorter than an index needs it",
    "Index error: expected integer": "the index of a list is no number",
    LONG_NUMBER: "a number has more than 64 bits",
    "optional.none()": "an optional has no value",
    "divide by zero": "a division by zero",
    "modulus by zero": "a division by zero",
    "overflow": "a number has more than 64 bits",
    "conversion": "a text of the object cannot be converted",
    "cannot convert": "a text of the object cannot be converted",
}


def why_failed(message: str, expression: str) -> str:
    """A message of cel-cpp in the operator's words. The name of a missing member is in it only if the expression
    itself has it: a computed name is a value of the object."""
    if match := _MISSING.search(message):
        return f'the member "{match[1]}" is missing' if match[1] in expression else "a member is missing"
    if (match := _OVERLOAD.search(message)) and _SIGNATURE.fullmatch(match[1]):
        return f"an operation does not take values of this type: {match[1]}"
    if match := _WRONG_TYPE.fullmatch(message):
        return f"the value is of type {match[1]}; expected: {match[2]}"
    return next((words for part, words in _WORDS.items() if part in message), "the evaluation failed")
