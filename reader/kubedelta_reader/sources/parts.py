"""The parts of a file sink's file: how a closed part is called, in which order parts were closed, and the lock that
keeps a part until it is read.

A part of the sink is called ``<file>.<time>.<first>-<last>``: the time at which it was closed, in UTC and with
microseconds, and the sequence numbers of its first and last line (0 for a line without a number). A compressed part has
``.zst`` behind that. Names sort as the parts were closed, also over a clock that was set back. The folder itself is the
list of parts: ``parts_of`` reads it, parts of logrotate included, and nothing else is remembered over a restart.

Whoever may read a part may lock it, too, and for ever. So nobody waits for a lock without a bound: a reader goes on
without one, and the sink removes a locked part in the end.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeAlias

# ── Names and order ──────────────────────────────────────────────────────────

TEMPORARY = ".tmp"
"""Behind the name of a compressed part that is not whole yet."""
SUFFIX_BYTES = len(".20261122T221530123456Z.") + 20 + len("-") + 20 + len(".zst") + len(TEMPORARY)
"""Most bytes behind the name of the file."""
_TIME = "%Y%m%dT%H%M%S%fZ"
_OWN = r"\.(?P<time>[0-9]{8}T[0-9]{12}Z)\.[0-9]{20}-[0-9]{20}"
_LOGROTATE = r"\.(?P<number>[0-9]+)|-(?P<date>[0-9]{8}(?:-?[0-9]+)?)"
"""A number, the smallest for the newest part, or with ``dateext`` a date."""
_SUFFIX = re.compile(rf"(?P<stem>{_OWN}|{_LOGROTATE})(?P<packed>\.gz|\.zst)?")
_LEFTOVER = re.compile(rf"{_OWN}\.zst{re.escape(TEMPORARY)}")

PartOrder: TypeAlias = tuple[int, int, str]


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
    """When the sink closed it, from the name; empty for parts of logrotate."""

    @property
    def is_own(self) -> bool:
        """Whether the sink closed it, and may compress or remove it."""
        return bool(self.time)

    @property
    def closed(self) -> datetime | None:
        """None for parts of logrotate, and for a time that no clock shows."""
        try:
            return datetime.strptime(self.time, _TIME).replace(tzinfo=UTC)
        except ValueError:
            return None


def name_of_part(path: Path, first: int, last: int, now: datetime) -> Path:
    """A free name behind all parts that are there. Raises OSError."""
    newest = next((part.closed for part in reversed(parts_of(path)) if part.closed), None)
    closed = now if newest is None else max(now, newest + timedelta(microseconds=1))
    while True:
        name = path.with_name(f"{path.name}.{closed.astimezone(UTC).strftime(_TIME)}.{first:020d}-{last:020d}")
        if not os.path.lexists(name) and not os.path.lexists(f"{name}.zst"):
            return name
        closed += timedelta(microseconds=1)


def parts_of(path: Path) -> list[ClosedPart]:
    """The parts, oldest first. Raises OSError.

    A listing of a folder may miss a file that is renamed meanwhile. A part that one listing misses under both of its
    names is there under the second name before the next listing begins: two equal listings miss no part.
    """
    before: list[str] | None = None
    while True:
        found = _listed(path)
        stems = [part.stem for part in found]
        if stems == before:
            return found
        before = stems


def leftovers_of(path: Path) -> list[Path]:
    """Compressed parts that a crash left half. Raises OSError."""
    with os.scandir(path.parent) as entries:
        names = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
    return [
        path.with_name(name)
        for name in sorted(names)
        if name.startswith(path.name) and _LEFTOVER.fullmatch(name, len(path.name))
    ]


def _listed(path: Path) -> list[ClosedPart]:
    found: dict[str, ClosedPart] = {}
    with os.scandir(path.parent) as entries:
        for part in _matching(path, entries):
            if part.stem not in found or not part.packed:
                found[part.stem] = part
    return sorted(found.values(), key=lambda part: part.order)


def _matching(path: Path, entries: Iterator[os.DirEntry[str]]) -> Iterator[ClosedPart]:
    for entry in entries:
        match = _SUFFIX.fullmatch(entry.name, len(path.name)) if entry.name.startswith(path.name) else None
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


# ── Locks of readers ─────────────────────────────────────────────────────────

_LONGEST_WAIT = 5.0
"""Seconds. The sink holds its lock no longer than a removal takes."""
_LOOK = 0.01


class ReadingLock:
    """A shared lock on the closed part that is read next. The sink removes parts from the oldest on, and stops at a
    locked one: so the newer parts stay too."""

    def __init__(self) -> None:
        self._fd = -1

    def move_to(self, part: Path | None) -> None:
        """Locks another part, or None, and then releases the former one. Without effect on a part that is gone."""
        fd = -1 if part is None else _locked(part)
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = fd


def _locked(part: Path) -> int:
    """A descriptor with a lock on the part, under the name that it has now; -1 for a part that is gone. The sink may
    put the compressed part in the place of the plain one meanwhile: a lock on a file without a name keeps nothing."""
    plain = part.with_suffix("") if part.suffix == ".zst" else part
    for name in (part, plain.with_name(f"{plain.name}.zst")):
        with suppress(OSError):
            fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
            try:
                _share(fd)
                if os.path.samestat(os.fstat(fd), name.stat()):
                    return fd
            except OSError:
                pass
            os.close(fd)
    return -1


def _share(fd: int) -> None:
    """Raises BlockingIOError when somebody else has locked the part for long."""
    deadline = time.monotonic() + _LONGEST_WAIT
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_LOOK)
        else:
            return
