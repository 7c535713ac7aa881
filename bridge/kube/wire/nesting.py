"""Finds where JSON values end, and how deep they are nested. Pure.

``end_of_whole`` asks msgspec's decoder, which is fast and recursive. The other functions scan without recursion, at any
depth, in pieces of any size, and see only brackets and strings: a decoder checks that the text is JSON. Every step is
linear in its input: the regular expressions are possessive, so that hostile text cannot make them backtrack.

Every recursive decoder has a limit: msgspec 1,000 to 10,000 levels, by the version of Python; Jackson 1,000; PHP 512.
Any tenant may write an object beyond that, and a decoder for the whole page would fail on it at every attempt. (A
recursion limit does not help: Python 3.12 ignores it in C.) So ``pages`` cuts items out without recursion, brackets are
counted where a decoder gives up or where the API leaves the form free, and an object with more than 500 levels
(``objects.DEEPEST``) is exported bare, with its name, uid and version only. Its list is complete, and its watch
continues. Objects as deep as this Python reads them would be objects that consumers cannot read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate

import msgspec

_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
# Strings come first: before CPython 3.11.5, a possessive loop ended where its last alternative had failed, and a string
# that is cut off fails behind its quote.
_BETWEEN = re.compile(rb'(?:%b|[^"{}\[\]]++)*+' % _STRING, re.DOTALL)
_TO_BRACKETS = re.compile(rb'(?:%b|[^"{}\[\]]++)*+([{\[]++|[}\]]++)' % _STRING, re.DOTALL)
_REST_OF_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_KEY = re.compile(rb"[\s,]*+(%b)\s*+:\s*+" % _STRING, re.DOTALL)
_SCALAR = re.compile(rb'%b|[^\s,:"{}\[\]]++(?=[\s,}\]])' % _STRING, re.DOTALL)

_OPENING = b"{["
_BACKSLASH = ord("\\")


_decode = msgspec.json.Decoder(msgspec.Raw).decode
_BEHIND = re.compile(r"trailing characters \(byte (\d+)\)")
_TRUNCATED = "truncated"
_WHITE = b" \t\n\r"

_BRACES = bytes.maketrans(b"[]", b"{}")
_NEITHER = bytes(set(range(256)).difference(b'{}[]"'))
_STEPS = [(byte == ord("{")) - (byte == ord("}")) for byte in range(256)]


def end_of_whole(text: memoryview) -> int:
    """The index behind the value that begins the text; -1 if the text ends before the value does. Raises DecodeError
    for a value that the decoder cannot read, and RecursionError for one that is too deep for it. ``Nesting`` finds the
    end of all of them, at forty times the cost.

    msgspec names the first character behind a value in its error about that character. In other words than today's,
    this would be a value that cannot be read."""
    end = len(text)
    try:
        _decode(text)
    except msgspec.DecodeError as error:
        if (behind := _BEHIND.search(str(error))) is not None:
            end = int(behind[1]) - 1
        elif _TRUNCATED in str(error):
            return -1
        else:
            raise
    return end if text[end - 1] not in _WHITE else len(bytes(text[:end]).rstrip(_WHITE))


def deeper_than(text: bytes, levels: int) -> bool:
    """Whether JSON is nested deeper than ``levels``."""
    if len(text) <= 2 * levels:
        return False
    if b"\\" in text:
        text = text.replace(rb"\\", b"").replace(rb"\"", b"")
    left = text.translate(_BRACES, _NEITHER)
    if left.count(b"}") <= levels:
        return False
    # Two quotes side by side are an empty string, or the end of a string and the beginning of the next one: without
    # them, every bracket stays inside or outside of a string.
    left = left.replace(b'""', b"")
    if b'"' in left:
        left = b"".join(left.split(b'"')[::2])
    while len(left) > 2 * levels:
        if not levels:
            return True
        shorter = left.replace(b"{}", b"")  # The innermost level of each branch.
        if 4 * len(shorter) > 3 * len(left):  # Few wide levels: level by level would take their number times the text.
            return max(accumulate(map(_STEPS.__getitem__, left)), default=0) > levels
        left, levels = shorter, levels - 1
    return False


class Nesting:
    """Finds the end of an object or array. Keeps only the state of the scan, so the text may come in pieces."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self.deepest = 0
        """Levels of objects and arrays so far."""

    def end(self, text: bytes, at: int = 0) -> int:
        """Continues the scan at ``at``; the first call begins it there. Returns the index behind the value, or -1 if
        the value ends in a later piece."""
        if self._in_string:
            at = self._behind_string(text, at)
        while 0 <= at < len(text):
            found = _TO_BRACKETS.match(text, at)
            if found is None:
                # Only scalars up to the end, or a string that ends in a later piece.
                between = _BETWEEN.match(text, at)
                at = between.end() if between else at
                at = self._behind_string(text, at + 1) if at < len(text) else -1
                continue
            first, at = found.span(1)
            if text[first] in _OPENING:
                self._depth += at - first
                self.deepest = max(self.deepest, self._depth)
            elif at - first >= self._depth:
                return first + self._depth
            else:
                self._depth -= at - first
        return -1

    def _behind_string(self, text: bytes, at: int) -> int:
        """``at`` lies inside of a string. The index behind the string, or -1 if the string ends in a later piece."""
        self._in_string = True
        if self._escaped and at < len(text):
            at += 1
            self._escaped = False
        rest = _REST_OF_STRING.match(text, at)
        at = rest.end() if rest else at
        if at >= len(text):
            return -1
        if text[at] == _BACKSLASH:
            self._escaped = True
            return -1
        self._in_string = False
        return at + 1


def members(text: bytes, at: int = 0, *, last: bytes = b"") -> Iterator[tuple[bytes, int, int]]:
    """The members of the object that begins at ``at``: key (with its quotes), start and end of the value.

    The iteration ends with a value that the text does not complete (its end is -1), at text that is not a member, and
    with the key ``last``, whose value is not scanned (its end is -1)."""
    if text[at : at + 1] != b"{":
        return
    at += 1
    while (key := _KEY.match(text, at)) is not None:
        start = key.end()
        at = -1 if key[1] == last else end_of_value(text, start)
        yield key[1], start, at
        if at < 0:
            return


def end_of_value(text: bytes, start: int) -> int:
    """The index behind the value that begins at ``start``; -1 if the text may end before the value does."""
    if text[start : start + 1] in {b"{", b"["}:
        return Nesting().end(text, start)
    scalar = _SCALAR.match(text, start)
    return scalar.end() if scalar else -1
