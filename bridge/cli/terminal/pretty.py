"""Indented JSON for people, of any depth."""

from __future__ import annotations

import re
from collections.abc import Iterator

DEEPEST = 32
"""Levels that are indented. Deeper levels stand on a single line: fully indented, an object of 9,000 levels would take
160 MB."""
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[{}\[\],:]|[^\s{}\[\],:"]++')
_INDENT = "  "


def pretty(document: str) -> str:
    """A line for each member of the outer levels. ``document`` is JSON, whose strings and numbers stay unchanged."""
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
