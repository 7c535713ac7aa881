"""The reasons of failed evaluations, without any value of the object: they go to logs, and an object may have secrets
that no redaction knows. Pure."""

from __future__ import annotations

import re

from bridge.selection.language.expression import LARGEST, LARGEST_OF_SMALL, TIMES
from bridge.selection.language.values import LONG_NUMBER, NO_JSON, NUL, TOO_DEEP, TOO_LARGE, TOO_MUCH

_MIB, _KIB = LARGEST // 1024**2, LARGEST_OF_SMALL // 1024
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
