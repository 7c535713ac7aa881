"""The parts of a file sink's file: how a closed part is called, and in which order parts were closed.

A part of the sink is called ``<file>.<time>.<first>-<last>``: the time at which it was closed, in UTC and with
microseconds, and the sequence numbers of its first and last line (0 for a line without a number). A compressed part has
``.zst`` behind that. Names sort as the parts were closed, also over a clock that was set back. The folder itself is the
list of parts: ``parts_of`` reads it, parts of logrotate included, and nothing else is remembered over a restart.

Programs that rotate a file themselves, as kube-apiserver does with its audit log (lumberjack), call a part
``<stem>-<time><suffix>``: ``audit-2026-11-27T10-00-00.000.log``. ``timed_parts_of`` reads these, and no others.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

# ── Names and order ──────────────────────────────────────────────────────────

OWN = r"\.(?P<time>[0-9]{8}T[0-9]{12}Z)\.[0-9]{20}-[0-9]{20}"
_LOGROTATE = r"\.(?P<number>[0-9]+)|-(?P<date>[0-9]{8}(?:-?[0-9]+)?)"
"""A number, the smallest for the newest part, or with ``dateext`` a date."""
_SUFFIX = re.compile(rf"(?P<stem>{OWN}|{_LOGROTATE})(?P<packed>\.gz|\.zst)?")

_TIMED = r"(?P<stem>-(?P<time>[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}-[0-9]{2}-[0-9]{2}\.[0-9]{3,6}))"

PartOrder: TypeAlias = tuple[int, int, str]
Parts: TypeAlias = "Callable[[Path], list[ClosedPart]]"
"""Returns the parts of a file, oldest first. Raises OSError."""


@dataclass(frozen=True, slots=True)
class ClosedPart:
    """A closed part. Its path is that of the plain file as long as there is one: a compressed file beside the plain one
    may not be whole."""

    path: Path
    status: os.stat_result
    packed: str
    """``.zst``, ``.gz``, or empty."""
    stem: str
    """The suffix without ``packed``."""
    order: PartOrder
    """Ascends as the parts were closed. Parts of logrotate come before parts of the sink."""
    time: str
    """When the file's writer closed it, from the name; empty for parts of logrotate."""

    @property
    def is_own(self) -> bool:
        """Whether the file's writer closed it, and may compress or remove it. Its stem never changes."""
        return bool(self.time)


def parts_of(path: Path) -> list[ClosedPart]:
    """The parts, oldest first. Raises OSError.

    A listing of a folder may miss a file that is renamed meanwhile. A part that one listing misses under both of its
    names is there under the second name before the next listing begins: two equal listings miss no part.
    """
    return _settled(path, path.name, _SUFFIX)


def timed_parts_of(path: Path) -> list[ClosedPart]:
    """Like ``parts_of``, of a file whose writer puts a time in front of its suffix."""
    return _settled(path, path.stem, re.compile(rf"{_TIMED}{re.escape(path.suffix)}(?P<packed>\.gz)?"))


def _settled(path: Path, beginning: str, rest: re.Pattern[str]) -> list[ClosedPart]:
    before: list[str] | None = None
    while True:
        found = _listed(path, beginning, rest)
        stems = [part.stem for part in found]
        if stems == before:
            return found
        before = stems


def _listed(path: Path, beginning: str, rest: re.Pattern[str]) -> list[ClosedPart]:
    found: dict[str, ClosedPart] = {}
    with os.scandir(path.parent) as entries:
        for part in _matching(path, entries, beginning, rest):
            if part.stem not in found or not part.packed:
                found[part.stem] = part
    return sorted(found.values(), key=lambda part: part.order)


def _matching(
    path: Path, entries: Iterator[os.DirEntry[str]], beginning: str, rest: re.Pattern[str]
) -> Iterator[ClosedPart]:
    for entry in entries:
        match = rest.fullmatch(entry.name, len(beginning)) if entry.name.startswith(beginning) else None
        if match is None or not entry.is_file(follow_symlinks=False):
            continue
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:  # Compressed or removed meanwhile.
            continue
        yield ClosedPart(
            path=path.with_name(entry.name),
            status=status,
            packed=match["packed"] or "",
            stem=match["stem"],
            order=_order(match),
            time=match["time"] or "",
        )


def _order(match: re.Match[str]) -> PartOrder:
    if match["time"]:
        return 2, 0, match["stem"]
    return (1, -int(match["number"]), "") if match["number"] else (0, 0, match["date"])
