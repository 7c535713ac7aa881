"""Decides which request made each step of an object, and how exactly that is known. Pure.

A step has at most one request, and a request one step; a delete may have two. A request that changed nothing is
answered with the present version, so several may claim one: the first to end made it
(https://github.com/kubernetes/kubernetes/issues/100473).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import accumulate

import msgspec

from bridge.history.actors.audit import Actor, Join

SLACK = timedelta(seconds=1)
"""Behind the end of a request, in which the bridge may see its change."""
_DELETES = ("delete", "deletecollection")


class StepOfObject(msgspec.Struct, frozen=True, kw_only=True):
    """A step of one object, as its delta tells it."""

    uid: str
    version: str
    before: str | None
    """The version of the step before; empty for the step that made the object, None where it is not known."""
    deleted: bool
    time: datetime
    """When the bridge saw it."""


class Made(msgspec.Struct, frozen=True):
    """The request that made a step."""

    actor: Actor
    join: Join
    """Never NONE."""


def made_by(steps: Sequence[StepOfObject], actors: Iterable[Actor]) -> Sequence[Made | None]:
    """For each step of an object the request that made it, or None. ``actors``: those with the object's key. Takes time
    in proportion to both, but for sorting."""
    by_version: dict[tuple[str, str], Actor] = {}
    by_before: dict[tuple[str, str], list[Actor]] = {}
    for actor in sorted(actors, key=lambda actor: actor.completed):
        if actor.join is Join.VERSION:
            by_version.setdefault((actor.uid, actor.version), actor)
        else:
            by_before.setdefault((actor.uid, actor.before), []).append(actor)
    found = [_exact(step, by_version, by_before) for step in steps]
    for index, (step, made) in enumerate(zip(steps[1:], found[1:], strict=True)):
        # A delete of a pod shortens its grace period first, which is a step of its own.
        if step.deleted and made is not None and found[index] is None and _is_around(steps[index], made.actor):
            found[index] = Made(made.actor, Join.WINDOW)
    exact = {made.actor.id for made in found if made is not None}
    others = [each for claims in by_before.values() for each in claims if each.id not in exact]
    for deleted in (False, True):
        left = [index for index, step in enumerate(steps) if found[index] is None and step.deleted is deleted]
        claims = [each for each in others if (each.verb in _DELETES) is deleted]
        for index, actor in _likely([steps[each].time for each in left], claims):
            if actor.uid in ("", steps[left[index]].uid):
                found[left[index]] = Made(actor, Join.WINDOW)
    return found


def _exact(
    step: StepOfObject,
    by_version: Mapping[tuple[str, str], Actor],
    by_before: Mapping[tuple[str, str], Sequence[Actor]],
) -> Made | None:
    actor = by_version.get((step.uid, step.version)) or (by_version.get((step.uid, "")) if step.deleted else None)
    if actor is not None:
        return Made(actor, Join.VERSION)
    before = () if step.before is None else by_before.get((step.uid, step.before), ())
    claims = [each for each in before if each.join is Join.BEFORE]
    if len(claims) > 1:
        # A request that changed nothing, and one that did, have the same version before them.
        claims = [each for each in claims if _is_around(step, each)]
    return Made(claims[0], Join.BEFORE) if len(claims) == 1 else None


def _likely(times: Sequence[datetime], actors: Iterable[Actor]) -> Iterator[tuple[int, Actor]]:
    """The index of a step, and its actor, where this is the only request around the step, and the step the only one
    within the request. ``times``: ascending."""
    changes = [0] * (len(times) + 1)
    single: dict[int, Actor] = {}
    for actor in actors:
        if (window := _window(actor)) is None:
            continue
        first, end = bisect_left(times, window[0]), bisect_right(times, window[1])
        changes[first] += 1
        changes[end] -= 1
        if end - first == 1:
            single[first] = actor
    for index, requests in zip(range(len(times)), accumulate(changes), strict=False):
        if requests == 1 and index in single:
            yield index, single[index]


def _is_around(step: StepOfObject, actor: Actor) -> bool:
    window = _window(actor)
    return window is not None and window[0] <= step.time <= window[1]


def _window(actor: Actor) -> tuple[datetime, datetime] | None:
    """None if its times are none."""
    try:
        received, completed = map(datetime.fromisoformat, (actor.received, actor.completed))
        return (received, completed + SLACK) if received.tzinfo and completed.tzinfo else None
    except (ValueError, OverflowError):
        return None
