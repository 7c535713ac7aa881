"""The progress of a sink in numbers that every replica understands: what each transaction stores of it, and what is
read back after a takeover (pure)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace

from bridge.model.change import Op
from bridge.model.record import Delta, Record
from bridge.model.versions import beyond
from bridge.model.versions.beyond import Beyond
from bridge.model.versions.frontier import MOST_RETIRED, Point, later
from bridge.model.versions.progress import BeyondPart, LettersBefore, SharedProgress

_MOST_INLINE = 500
"""Objects in the progress itself: the rest is in parts, so that a long list costs each transaction its own records
alone."""
_MOST_LEFT = 1000
"""Deleted objects of informers that left the configuration."""
_MOST_CURSORS = 16

InformersOf = Callable[[Delta], tuple[str, ...]]
"""The running informers that may have brought a record; none if the informer left."""
LEFT = ""
"""In place of a group: informers that left."""


@dataclass(frozen=True, slots=True)
class Reached:
    """What the log here says when a transaction ends."""

    points: Mapping[str, Point]
    """Informer → what the sink has settled with it."""
    newest: Mapping[str, Point]
    """Informer → what the log has; during a list, what it had before."""
    ended: Collection[str]
    """Informers that left the configuration."""
    retired: Collection[str]
    """Those of which the sink has everything (``retired_key``)."""
    epochs: Mapping[str, int]
    """Running informer → the epoch in which it is."""
    sequence: int
    listing: Collection[str] = ()
    """Informers whose list is under way."""


@dataclass(frozen=True, slots=True)
class StoredBefore:
    """The state behind a stored transaction."""

    points: Mapping[str, Point | None] = field(default_factory=dict)
    retired: tuple[str, ...] = ()
    inline: Mapping[str, Beyond] = field(default_factory=dict)
    parts: int = 0


class SharedSink:
    """Of a sink. A replica that takes over goes on with what it finds, and drops a value when its frontier says as
    much: so what one replica has stored, the third one knows."""

    def __init__(self, found: SharedProgress | None, parts: Iterable[BeyondPart], letters: Mapping[str, LettersBefore]):
        """``found``: in the destination, with its ``parts``. ``letters``: see
        ``SharedProgress.letters``."""
        found = found or SharedProgress()
        self._known = self._next = StoredBefore(found.informers, found.retired, found.beyond, found.parts)
        self._found = found.informers
        self._all = beyond.merged(iter([*(part.beyond for part in parts), found.beyond]))
        """Of all parts."""
        self._new: dict[str, Beyond] = {}
        self.letters: Mapping[str, LettersBefore] = dict(list(letters.items())[-_MOST_CURSORS:])
        """Those of the cursors that stored some last."""

    def has(self, record: Record, informers_of: InformersOf) -> bool:
        """Whether the destination has the record, beyond its frontier."""
        if not (self._all or self._found) or not isinstance(record, Delta) or not beyond.counts(record):
            return False
        informers = informers_of(record)
        if informers and beyond.is_dated(record):
            # Whatever evidence the other replica had: its sink has all versions up to these points.
            point = Point(record.epoch, record.resource_version)
            if all((found := self._found.get(each)) is not None and found.covers(point) for each in informers):
                return True
        return any(
            (of_group := self._all.get(group)) is not None and beyond.has(of_group, record)
            for group in (_group(informers), LEFT)
        )

    def after(
        self, items: Iterable[Record], reached: Reached, informers_of: InformersOf
    ) -> tuple[SharedProgress, BeyondPart | None]:
        """The progress with these records, and what is stored beside it; in effect with ``settle``."""
        known = self._known
        points = {each: point for each, point in known.points.items() if each not in reached.ended}
        points |= {
            each: later(own, points.get(each), reached.epochs.get(each, 0)) for each, own in reached.points.items()
        }
        retired = tuple(dict.fromkeys([*known.retired, *reached.retired]))[-MOST_RETIRED:]
        moved = {each for each, point in points.items() if point != known.points.get(each)}
        left = _uncovered(known.inline, points, moved)
        self._new = self._beyond(items, points, reached, informers_of)
        inline = beyond.merged(iter([left, self._new]))
        _bound_left(inline)
        part, parts = None, known.parts
        if parts and not _uncovered(self._all, points, moved):
            parts = 0
        if sum(len(each.objects) for each in inline.values()) > _MOST_INLINE:
            part, parts, inline = BeyondPart(number=parts, beyond=inline), parts + 1, {}
        self._next = StoredBefore(points, retired, inline, parts)
        shared = SharedProgress(
            sequence=reached.sequence,
            informers=points,
            retired=retired,
            beyond=inline,
            parts=parts,
            letters=dict(self.letters),
        )
        return shared, part

    def settle(self) -> None:
        """The destination has stored what ``after`` returned last."""
        if self._next is self._known:
            return
        before, self._known = self._known.points, self._next
        moved = {each for each, point in self._known.points.items() if point != before.get(each)}
        if moved and self._all:
            self._all = _uncovered(self._all, self._known.points, moved)
        if self._new:
            self._all = beyond.merged(iter([self._all, self._new]))
            self._new = {}

    def forget(self) -> None:
        """Objects are delivered again in older versions, and so are the later ones."""
        self._found = {}
        if self._all:
            self._all = {}
            self._known = self._next = replace(self._known, inline={}, parts=0)

    def _beyond(
        self,
        items: Iterable[Record],
        points: Mapping[str, Point | None],
        reached: Reached,
        informers_of: InformersOf,
    ) -> dict[str, Beyond]:
        """Of the delivered records, those of which the frontier says nothing."""
        found: dict[str, Beyond] = {}
        for delta in items:
            if not isinstance(delta, Delta) or not beyond.counts(delta):
                continue
            informers = informers_of(delta)
            if not informers and delta.op is not Op.DELETED:
                continue
            entry = _entry_of(delta, informers, points, reached)
            if informers and all(beyond.covers(points.get(each), delta.epoch, entry) for each in informers):
                continue
            group = _group(informers)
            of_group = found.get(group)
            if of_group is None or of_group.epoch < delta.epoch:
                of_group = found[group] = Beyond(delta.epoch, {})
            if of_group.epoch == delta.epoch:
                name = beyond.name_of(delta)
                of_group.objects[name] = beyond.newer(of_group.objects.get(name), entry)
        return found


def _entry_of(delta: Delta, informers: tuple[str, ...], points: Mapping[str, Point | None], reached: Reached) -> str:
    if not informers:
        return beyond.entry_of(delta, None)
    first = informers[0]
    return beyond.entry_of(delta, reached.newest.get(first) or points.get(first), lists=first in reached.listing)


def _group(informers: tuple[str, ...]) -> str:
    return "+".join(informers)


def _uncovered(values: Mapping[str, Beyond], points: Mapping[str, Point | None], moved: Set[str]) -> dict[str, Beyond]:
    """Without what the frontier says; looks only where it has moved. A version without an order is covered by any
    move."""
    left: dict[str, Beyond] = {}
    for group, of_group in values.items():
        informers = group.split("+") if group else []
        if not informers or moved.isdisjoint(informers):
            left[group] = of_group
            continue
        objects = {
            name: entry
            for name, entry in of_group.objects.items()
            if beyond.version_in(entry).isdecimal()
            and not all(beyond.covers(points.get(each), of_group.epoch, entry) for each in informers)
        }
        if objects:
            left[group] = Beyond(of_group.epoch, objects)
    return left


def _bound_left(inline: dict[str, Beyond]) -> None:
    of_left = inline.get(LEFT)
    if of_left is not None and len(of_left.objects) > _MOST_LEFT:
        inline[LEFT] = Beyond(of_left.epoch, dict(list(of_left.objects.items())[-_MOST_LEFT:]))
