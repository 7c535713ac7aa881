"""Aligned text for people, the same on a terminal and in a pipe."""

from __future__ import annotations

from collections.abc import Sequence

from bridge.model.primitives.printable import escaped

_BYTES = 1024
_UNITS = ("KiB", "MiB", "GiB", "TiB")


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their longest cell, without trailing blanks."""
    lines = [header, *([plain(cell) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def pairs(named: Sequence[tuple[str, str]]) -> str:
    """A line for each name and its text, aligned."""
    width = max(len(name) for name, _ in named)
    return "\n".join(f"{name:<{width}}  {plain(text)}".rstrip() for name, text in named)


def plain(text: str) -> str:
    """The text in a single line, escaped for a terminal, since reasons may come from strangers."""
    return escaped(" ".join(text.split()))


def shortened(text: str, length: int) -> str:
    """At most ``length`` characters, cut in the middle: a reason ends with what tells most (``Connection refused``)."""
    if len(text) <= length:
        return text
    head = (length - 1) // 3
    return f"{text[:head]}…{text[len(text) - (length - 1 - head) :]}"


def size(count: int) -> str:
    """``1.5 MiB``."""
    if count < _BYTES:
        return f"{count} B"
    scaled, units = count / _BYTES, iter(_UNITS)
    unit = next(units)
    # 1023.96 KiB would be printed as 1024.0 KiB.
    while scaled >= _BYTES - 0.05 and (larger := next(units, None)):
        scaled, unit = scaled / _BYTES, larger
    return f"{scaled:.1f} {unit}"


def age(seconds: float) -> str:
    """In the largest unit that fits: ``40s``, ``3m``, ``2h``, ``5d``."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= length:
            return f"{int(seconds // length)}{unit}"
    return f"{int(seconds)}s"
