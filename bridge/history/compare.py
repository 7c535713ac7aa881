"""What differs between two points."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from bridge.history.file import HistoryFile, StateAt
from bridge.history.points import PastPoint
from bridge.model.formats.object_paths import ObjectName


class StatePair(NamedTuple):
    """An object at two points; None where it did not exist. Not both are None."""

    before: StateAt | None
    after: StateAt | None


def compared(
    history: HistoryFile,
    before: PastPoint,
    after: PastPoint,
    *,
    resource: str | None = None,
    namespace: str | None = None,
    name: str | None = None,
) -> Iterator[StatePair]:
    """The objects that differ, in the order of ``HistoryFile.at``. An object that was replaced under its name is two
    pairs. Raises NotInHistory."""
    befores = history.at(before, resource=resource, namespace=namespace, name=name)
    afters = history.at(after, resource=resource, namespace=namespace, name=name)
    was, now = next(befores, None), next(afters, None)
    while was is not None or now is not None:
        if now is None or (was is not None and _place(was) < _place(now)):
            yield StatePair(was, None)
            was = next(befores, None)
        elif was is None or _place(now) < _place(was):
            yield StatePair(None, now)
            now = next(afters, None)
        else:
            if was.uid != now.uid:
                yield StatePair(was, None)
                yield StatePair(None, now)
            elif was.state != now.state:
                yield StatePair(was, now)
            was, now = next(befores, None), next(afters, None)


def _place(found: StateAt) -> tuple[str, ...]:
    """As the file orders objects."""
    name = ObjectName.of(found.key)
    return (name.cluster, name.plural, name.group, name.namespace, name.name)
