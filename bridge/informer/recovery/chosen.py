"""The objects of a batch whose steps are looked for, and the batch with their steps. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec.structs import replace

from bridge.informer.deltas import TYPE_OF_EVENT, DeltaType, QueuedDelta, Span
from bridge.informer.recovery.walk import ExportedState, FoundStep, Moment, Walk
from bridge.model.change import Evidence, ObjectVersion
from bridge.model.versions.version import number_of


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
