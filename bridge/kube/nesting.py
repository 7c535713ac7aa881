"""JSON looked through without recursion, however deep it is nested, in pieces if need be. Pure.

Only brackets and strings are seen here: that a text is JSON is for a decoder to say. Every step is linear in its input.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate

_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_BETWEEN = re.compile(rb'(?:[^"{}\[\]]++|%b)*+' % _STRING, re.DOTALL)
_TO_BRACKETS = re.compile(rb'(?:[^"{}\[\]]++|%b)*+([{\[]++|[}\]]++)' % _STRING, re.DOTALL)
_REST_OF_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_KEY = re.compile(rb"[\s,]*+(%b)\s*+:\s*+" % _STRING, re.DOTALL)
_SCALAR = re.compile(rb'%b|[^\s,:"{}\[\]]++(?=[\s,}\]])' % _STRING, re.DOTALL)

_OPENING = b"{["
_BACKSLASH = ord("\\")


_A_STRING = re.compile(_STRING, re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)).difference(b"{}[]"))
_STEPS = [(byte in b"{[") - (byte in b"}]") for byte in range(256)]


def deeper_than(text: bytes, levels: int) -> bool:
    """Whether JSON is nested deeper. Nearly free where it has fewer brackets than that."""
    if text.count(b"}") + text.count(b"]") <= levels:
        return False
    brackets = _A_STRING.sub(b"", text).translate(None, _NO_BRACKETS)
    return max(accumulate(map(_STEPS.__getitem__, brackets))) > levels


class Nesting:
    """Looks for the end of one object or array. Knows nothing but where it stands, and so takes text of any length."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self.deepest = 0
        """Levels of objects and arrays so far."""

    def end(self, text: bytes, at: int = 0) -> int:
        """The place in ``text`` behind the value, which goes on (at first: begins) at ``at``; -1 where its end is not
        in this piece: then the next piece follows."""
        if self._in_string:
            at = self._behind_string(text, at)
        while 0 <= at < len(text):
            found = _TO_BRACKETS.match(text, at)
            if found is None:
                # Nothing but scalars up to the end, or a string that has none in this piece.
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
        """``at`` is inside of a string; -1 where it does not end in this piece."""
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
    """The members of the object that begins at ``at``: the key as it is written, quotes included, and where the value
    begins and ends. An end of -1 says that the text ends before. What cannot be a member ends the members, too; so does
    the one whose key is ``last``, of which no end is looked for."""
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
    """Where the value that begins at ``start`` ends; -1 where the text may end before."""
    if text[start : start + 1] in {b"{", b"["}:
        return Nesting().end(text, start)
    scalar = _SCALAR.match(text, start)
    return scalar.end() if scalar else -1
