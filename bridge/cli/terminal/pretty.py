"""JSON for people, however deep it is."""

from __future__ import annotations

import re
from collections.abc import Iterator

DEEPEST = 32
"""Levels that are indented. What is deeper stands on one line: with each level indented, an object of 9,000 levels
would be 160 MB."""
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_INDENT = "  "


def pretty(document: str) -> str:
    """A line for each member of the outer levels. ``document`` is JSON; its strings and numbers stay as they are."""
    return "".join(_pieces(_TOKEN.findall(document)))


def _pieces(tokens: list[str]) -> Iterator[str]:
    depth = 0
    for piece, before in zip(tokens, ["", *tokens], strict=False):
        if piece in ("}", "]"):
            depth -= 1
            if before not in ("{", "[") and depth < DEEPEST:
                yield _line(depth)
        elif before in ("{", "[") and depth <= DEEPEST:
            yield _line(depth)
        yield piece
        if piece in ("{", "["):
            depth += 1
        elif piece == ",":
            yield _line(depth) if depth <= DEEPEST else " "
        elif piece == ":":
            yield " "


def _line(depth: int) -> str:
    return "\n" + _INDENT * depth
