"""Finds the way of an object back from a list to its known state; ``recovery`` makes the requests.

The state at the version before a change shows the step before, whatever its version is: so the walk goes back from step
to step. Where the object is absent, its delete is found by bisection between a version with the object and a version
without it. A walk ends where it meets the known state, where the server has forgotten the states, or where the states
cannot be of one history with the known one.

``walks_of`` makes the walks of a batch, and ``with_steps`` puts their steps in front of the differences that they lead
to. Objects that came and went between two lists show no difference: a few whole lists at ``sampled_versions`` may show
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from bridge.informer.deltas import TYPE_OF_EVENT, DeltaType, QueuedDelta, Span
from bridge.model.answers import EventType
from bridge.model.change import Evidence, ObjectVersion
from bridge.model.object import ApiObject, at_version
from bridge.model.versions import number_of

# ── The walk of a name ────────────────────────────────────────────────────────


class Moment(msgspec.Struct, frozen=True):
    """The state of an object at a version of the server; None where the object does not exist."""

    version: int
    object: ApiObject | None


class ExportedState(msgspec.Struct, frozen=True):
    """The known state of an object."""

    uid: str
    version: int


class FoundStep(msgspec.Struct, frozen=True):
    """A change of an object, as a watch would have announced it."""

    type: EventType
    object: ApiObject
    """The state after the change; of a delete, the last state with the version of the delete."""
    follows: bool = True
    """No step of the object is missing before the change."""


class Walk:
    """Finds the steps of a name between a known state and a later state.

    ``wanted`` is the version whose state is needed next, answered by ``take`` or ``forgotten``; None once the walk has
    ended. A name may have had several objects in turn. Each of them is found, but for objects between two absences
    that the bisection passes over."""

    def __init__(
        self, key: str, known: ExportedState | None, last: Moment, *, since: int = 0, seen: Moment | None = None
    ) -> None:
        """``known``: None if no object of this name is known. ``last``: the later state. ``since``: a version at which
        the known state was the present state; 0 without such a version. ``seen``: an object that came after ``since``
        and is absent in ``last``."""
        self.key = key
        self.wanted: int | None = None
        self.is_complete = False
        """The steps reach back to the known state."""
        self.is_contradicted = False
        """The states cannot be of one history with the known state."""
        self.newest = seen or last
        """The newest state of an object that the walk has found; absence until the first."""
        self._known = known
        self._lower = max(since, known.version if known else 0)
        self._steps: list[FoundStep] = []
        self._is_listed = last.object is not None
        self._oldest: ApiObject | None = None
        """The oldest state found, whose predecessor is wanted; None while a delete is looked for."""
        self._present = seen or Moment(self._lower, None)
        """The newest version at which the object was there; its state, if that is known."""
        self._absent = last.version
        if seen is None:
            self._seek(last)
        else:
            self._bisect()

    @property
    def steps(self) -> list[FoundStep]:
        """The steps found, oldest first. The change to a listed object is the last; without a predecessor it is
        missing, because the list has it already."""
        found = self._steps[::-1]
        if not self.is_complete and self._oldest is not None and (found or not self._is_listed):
            return [FoundStep(EventType.MODIFIED, self._oldest, follows=False), *found]
        return found

    def take(self, moment: Moment) -> None:
        """Takes the state at ``wanted``."""
        if moment.object is not None and (self.newest.object is None or moment.version > self.newest.version):
            self.newest = moment
        if self._oldest is None:
            self._take_bound(moment)
        elif _precedes(moment.object, self._oldest):
            self._found(EventType.MODIFIED if moment.object else EventType.ADDED, self._oldest)
            self._seek(moment)
        else:
            self._end(contradicted=True)

    def forgotten(self, through: int) -> None:
        """The server has forgotten the states through this version, that at ``wanted`` included."""
        if self._oldest is None and self._present.version < through < self._absent:
            # The object may have been there until then: the states behind it decide.
            self._present = Moment(through, None)
            self._bisect()
        else:
            self._end()

    def give_up(self) -> None:
        """The states of the object cannot be had."""
        self._end()

    def _take_bound(self, moment: Moment) -> None:
        if moment.object is not None:
            self._present = moment
        elif moment.version == self._present.version:
            return self._end(contradicted=True)
        else:
            self._absent = moment.version
        return self._bisect()

    def _seek(self, at: Moment) -> None:
        """Looks for the step that led to this state."""
        self._oldest = thing = at.object
        if thing is not None:
            return self._seek_predecessor(thing)
        if self._known is None:
            return self._end(complete=True)
        self._present, self._absent = Moment(self._lower, None), at.version
        return self._bisect()

    def _seek_predecessor(self, thing: ApiObject) -> None:
        known, version = self._known, number_of(thing.resource_version) or 0
        if version > max(self._lower, 1):
            self.wanted = version - 1
        elif known is None:
            self._end()
        elif thing.uid == known.uid and known.version <= version:
            # A newer version than the known one, of before ``since``, is a change that was ignored.
            self._end(complete=True)
        else:
            self._end(contradicted=True)

    def _bisect(self) -> None:
        there, absent = self._present, self._absent
        if there.version >= absent:
            self._end(contradicted=True)
        elif absent - there.version > 1:
            self.wanted = (there.version + absent) // 2
        elif there.object is None:
            self.wanted = there.version
        else:
            self._found(EventType.DELETED, at_version(there.object, str(absent)))
            self._seek(there)

    def _found(self, kind: EventType, thing: ApiObject) -> None:
        self._steps.append(FoundStep(kind, thing))

    def _end(self, *, complete: bool = False, contradicted: bool = False) -> None:
        self.wanted, self.is_complete, self.is_contradicted = None, complete, contradicted


def _precedes(before: ApiObject | None, after: ApiObject) -> bool:
    if before is None:
        return True
    older, newer = number_of(before.resource_version), number_of(after.resource_version)
    return before.uid == after.uid and older is not None and newer is not None and older < newer


# ── The walks of a batch ──────────────────────────────────────────────────────


class HistoryContradicted(Exception):
    """A listed object is older than the known object: the list is of another history, in which no steps are sought."""


def walks_of(deltas: Sequence[QueuedDelta], known: Callable[[str], ObjectVersion | None]) -> dict[int, Walk]:
    """Index of a delta → the walk from its state to the known state, for each difference of a list whose versions have
    an order. ``known`` has the states before the batch. Raises HistoryContradicted."""
    walks: dict[int, Walk] = {}
    earlier: dict[str, QueuedDelta] = {}
    for index, delta in enumerate(deltas):
        if isinstance(delta.compared, Span):
            before = earlier.get(delta.key)
            exported = _exported(known(delta.key)) if before is None else _state_after(before)
            if (walk := _walk(delta, delta.compared, exported)) is not None and walk.wanted is not None:
                walks[index] = walk
        if delta.type is not DeltaType.SYNC:
            earlier[delta.key] = delta
    return walks


def _walk(delta: QueuedDelta, span: Span, known: ExportedState | None) -> Walk | None:
    since, thing = number_of(span.since or "") or 0, delta.object
    if thing is None:
        until = number_of(span.until or "")
        if delta.type is not DeltaType.DELETED or until is None or known is None:
            return None
        return Walk(delta.key, known, Moment(until, None), since=since)
    version = number_of(thing.resource_version)
    if delta.type is not DeltaType.REPLACED or version is None:
        return None
    if known is not None and known.uid == thing.uid and known.version == version:
        return None
    if known is not None and version < known.version:
        raise HistoryContradicted
    return Walk(delta.key, known, Moment(version, thing), since=since)


def _exported(known: ObjectVersion | None) -> ExportedState | None:
    return None if known is None else ExportedState(known.uid, number_of(known.resource_version) or 0)


def _state_after(delta: QueuedDelta) -> ExportedState | None:
    thing = delta.object
    if thing is None or delta.type is DeltaType.DELETED:
        return None
    return ExportedState(thing.uid, number_of(thing.resource_version) or 0)


def with_steps(
    deltas: Sequence[QueuedDelta], walks: Mapping[int, Walk], came_and_went: Iterable[Walk] = ()
) -> list[QueuedDelta]:
    """The batch with the steps of the walks, each object's in their order and before the delta that showed its
    difference. Steps of objects that came and went are first."""
    batch = [_queued(step, walk.key, 0) for walk in came_and_went if walk.is_complete for step in walk.steps]
    for index, delta in enumerate(deltas):
        steps = walks[index].steps if index in walks else []
        batch += (_queued(step, delta.key, delta.arrival) for step in steps[:-1])
        if not steps:
            batch.append(delta)
        elif delta.object is None:
            batch.append(_queued(steps[-1], delta.key, delta.arrival))
        else:
            batch.append(replace(delta, evidence=_evidence(steps[-1])))
    return batch


def recovered_in(deltas: Iterable[QueuedDelta]) -> int:
    """The number of recovered steps."""
    return sum(delta.evidence is Evidence.RECOVERED for delta in deltas)


def _queued(step: FoundStep, key: str, arrival: int) -> QueuedDelta:
    return QueuedDelta(TYPE_OF_EVENT[step.type], key, step.object, _evidence(step), arrival)


def _evidence(step: FoundStep) -> Evidence:
    return Evidence.RECOVERED if step.follows else Evidence.RELISTED


# ── Objects that came and went ────────────────────────────────────────────────

FEW_OBJECTS = 100
"""Objects of an informer up to which a whole list is as cheap as a few lists of a single object."""
MOST_SAMPLES = 8


def sampled_versions(span: Span) -> list[int]:
    """Versions spread evenly over the span, newest first; none without both ends of the span."""
    since, until = number_of(span.since or ""), number_of(span.until or "")
    if since is None or until is None or until - since < 2:
        return []
    between = until - since - 1
    count = min(MOST_SAMPLES, between)
    return sorted({since + (until - since) * place // (count + 1) for place in range(1, count + 1)} - {since})[::-1]


def walk_of(thing: ApiObject, version: int, span: Span) -> Walk:
    """The walk of an object that came and went, seen at this version."""
    since, until = number_of(span.since or "") or 0, number_of(span.until or "") or version
    return Walk(thing.key, None, Moment(until, None), since=since, seen=Moment(version, thing))
