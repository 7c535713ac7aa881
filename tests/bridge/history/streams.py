"""A stream of a bridge, as its events, and files made of them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
from kubedelta_reader import Event

from bridge.history import HistoryFile, PastPoint, StateAt
from bridge.history.points import in_words
from bridge.history.recorder import HistoryBounds, Recorder

EVERYTHING = HistoryBounds(keep=1e9, max_bytes=1 << 40)
SECOND = 1_000_000
BEGIN = 1_700_000_000 * SECOND
"""Microseconds since 1970: the time of the first record, one of which comes each second."""


def time_of(number: int) -> int:
    return BEGIN + number * SECOND


def point(number: int) -> PastPoint:
    """Behind the record of this number, and before the next one."""
    return PastPoint.parsed(in_words(time_of(number)))


class Stream:
    """Numbers its events; each has its number as its time, too."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    @property
    def number(self) -> int:
        """Of the newest event."""
        return len(self.events)

    def tell(self, name: str, state: Any, op: str = "updated", *, evidence: str = "watched", **more: Any) -> Event:
        """A record of a pod. ``more``: members of the event, and ``plural``."""
        number = self.number + 1
        key = f"prod/core/{more.pop('plural', 'pods')}/shop/{name}"
        uid = more.pop("uid", f"uid-{name}")
        members = {"uid": uid, "version": str(number), "sequence": number, "evidence": evidence, **more}
        return self._add(f"object.{op}", f"{uid}/{number}/{op}", state, key=key, op=op, **members)

    def notice(self, kind: str, data: Any, **more: Any) -> Event:
        number = self.number + 1
        return self._add(kind, f"{kind}/{number}", data, key="prod", **{"sequence": number, **more})

    def snapshot(self, states: dict[str, Any], **more: Any) -> None:
        """One of everything. ``more``: members of the data of its end."""
        through = self.number + 1
        members = {"sequence": through, "snapshot": f"snapshot/{through}"}
        self.notice("snapshot.began", {"count": len(states)}, **members)
        for name, state in states.items():
            self.tell(name, state, "sync", evidence="listed", **members)
        self.notice("snapshot.ended", {"count": len(states), "objects": len(states), **more}, **members)

    def _add(self, kind: str, id: str, data: Any, **members: Any) -> Event:
        event = Event(
            type=f"kubedelta.{kind}.v1",
            id=id,
            source="/clusters/prod",
            time=in_words(time_of(self.number + 1)),
            data=msgspec.json.encode(data),
            **members,
        )
        self.events.append(event)
        return event


def build(path: Path, events: Iterable[Event], bounds: HistoryBounds = EVERYTHING, *, batch: int = 10) -> Path:
    """Records the events that are behind the file's position."""
    with closing(Recorder(path, "a test", bounds)) as recorder:
        begin = int(recorder.position or b"0")
        rest = list(events)[begin:]
        for start in range(0, len(rest), batch):
            part = rest[start : start + batch]
            with recorder.batch(b"%d" % (begin + start + len(part))):
                for event in part:
                    recorder.record(event)
    return path


def states(path: Path, at: PastPoint) -> dict[str, Any]:
    """Name of each pod → its state."""
    with HistoryFile.open(path) as history:
        return {each.key.rsplit("/", 1)[1]: msgspec.json.decode(each.state) for each in history.at(at)}


def found(path: Path, at: PastPoint, **filters: str) -> list[StateAt]:
    with HistoryFile.open(path) as history:
        return list(history.at(at, **filters))
