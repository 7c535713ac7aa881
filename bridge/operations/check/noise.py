"""Counts the paths that change in updates: by resource, with list indexes as ``[*]``, in bounded memory."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from bridge.model.primitives.field_path import EVERY, MOST_STEPS, Step, written_step
from bridge.views.differences import same

MOST_PATHS = 10_000
"""Different paths, and different sets of paths, that are counted. Later ones count as others."""
MOST_OF_UPDATE = 200
"""Paths of an update. With more changes, the whole object counts as changed."""
LONGEST_NAME = 316
"""Characters: a prefix of 253, a slash, and a name of 63 make the longest key of a label or an annotation. A longer
name ends the path before it."""
NOISIEST = 10

_Path: TypeAlias = tuple[Step, ...]
_PLAIN_YAML = re.compile(r"[A-Za-z][A-Za-z0-9_]*(\.[A-Za-z0-9_*-]+|\[\*\]|\['[A-Za-z0-9_./-]+'\])+")
_YAML_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null"})
_NOWHERE = "(resourceVersion or managedFields alone)"
_ABSENT = object()
_decode = msgspec.json.decode


@dataclass(frozen=True, slots=True)
class NoisyPath:
    """A path of a resource. Its shares and those of other paths overlap, for an update may change several."""

    resource: str
    path: str
    """As ``ignore_changes`` has it."""
    updates: int
    per_second: float
    share: float
    """Of all compared updates, between 0 and 1."""
    can_be_ignored: bool
    """Whether ``ignore_changes`` takes the path."""


class NoiseTally:
    """The updates of all resources. Objects are given in their exported form, without ignored paths and without the
    resourceVersion."""

    def __init__(self) -> None:
        self.compared = 0
        self.ignored = 0
        """Updates that the configuration ignores already."""
        self.others = 0
        """Updates with paths beyond ``MOST_PATHS``."""
        self._seconds: dict[str, float] = {}
        self._paths: Counter[tuple[str, _Path]] = Counter()
        self._sets: Counter[tuple[str, frozenset[_Path]]] = Counter()

    def watched(self, resource: str, seconds: float) -> None:
        """The time of the updates of the resource; of its scopes, the longest counts."""
        self._seconds[resource] = max(self._seconds.get(resource, 0.0), seconds)

    def update(self, resource: str, before: bytes, after: bytes, *, ignores: bool) -> None:
        """``ignores``: updates without a difference here are ignored by the configuration."""
        if before == after and ignores:
            self.ignored += 1
            return
        self.compared += 1
        found = frozenset(_changed_paths(before, after))
        for path in found:
            self._add(self._paths, (resource, path))
        self._add(self._sets, (resource, found))

    def _add(self, counter: Counter[Any], counted: tuple[str, Any]) -> None:
        if counted in counter or len(counter) < MOST_PATHS:
            counter[counted] += 1
        elif counter is self._sets:
            self.others += 1

    def noisiest(self) -> list[NoisyPath]:
        """At most ``NOISIEST``, the noisiest first."""
        rates = {
            (resource, path): count / max(self._seconds[resource], 1e-3)
            for (resource, path), count in self._paths.items()
        }
        order = sorted(rates, key=lambda each: (-rates[each], each[0], written(each[1])))
        return [
            NoisyPath(
                resource,
                written(path),
                self._paths[resource, path],
                rates[resource, path],
                self._paths[resource, path] / self.compared,
                _can_be_ignored(path),
            )
            for resource, path in order[:NOISIEST]
        ]

    def entries(self, noisiest: Sequence[NoisyPath]) -> str:
        """Entries of the configuration that ignore these paths, as YAML, each with the updates that would not be
        exported. Empty if no path can be ignored."""
        lines = []
        for resource in dict.fromkeys(each.resource for each in noisiest if each.can_be_ignored):
            paths = {each.path for each in noisiest if each.resource == resource and each.can_be_ignored}
            of_resource = {found: count for (name, found), count in self._sets.items() if name == resource}
            saved = sum(count for found, count in of_resource.items() if paths.issuperset(map(written, found)))
            seconds = max(self._seconds[resource], 1e-3)
            total = sum(of_resource.values())
            lines += [
                f"  # {saved / seconds:.1f} of {total / seconds:.1f} updates/s would not be exported",
                f"  - resource: {_in_yaml(resource)}",
                "    ignore_changes:",
                *(
                    f"      - {_in_yaml(each.path)}"
                    for each in noisiest
                    if each.resource == resource and each.path in paths
                ),
            ]
        return "\n".join(["resources:", *lines]) if lines else ""


def _changed_paths(before: bytes, after: bytes) -> set[_Path]:
    """The paths at which two bodies differ, the shortest that have all of a difference. A list of another length is a
    path. The path of the whole object is empty: then either a body cannot be read, or nothing differs."""
    try:
        found: set[_Path] = set()
        for path in _changed((), _decode(before), _decode(after)):
            found.add(path)
            if len(found) > MOST_OF_UPDATE:
                return {()}
    except (msgspec.DecodeError, RecursionError):
        return {()}
    return found or {()}


def _changed(path: _Path, before: Any, after: Any) -> Iterator[_Path]:
    if same(before, after):
        return
    deeper = len(path) < MOST_STEPS
    # A map that becomes empty is absent for `ignore_changes`, so its members are the difference.
    was = {} if before is _ABSENT else before
    now = {} if after is _ABSENT else after
    if deeper and isinstance(was, dict) and isinstance(now, dict) and (was or now):
        names = [name for name in {**was, **now} if not same(was.get(name, _ABSENT), now.get(name, _ABSENT))]
        if all(len(name) <= LONGEST_NAME for name in names):
            for name in names:
                yield from _changed((*path, name), was.get(name, _ABSENT), now.get(name, _ABSENT))
            return
    if deeper and isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for pair in zip(before, after, strict=True):
            yield from _changed((*path, EVERY), *pair)
        return
    yield path


def written(path: _Path) -> str:
    """The path in the syntax of ``ignore_changes``, where it can be written there."""
    if not path:
        return _NOWHERE
    return "".join(written_step(step) or f"['{step}']" for step in path).removeprefix(".")


def _can_be_ignored(path: _Path) -> bool:
    return 0 < len(path) <= MOST_STEPS and all(written_step(step) for step in path)


def _in_yaml(text: str) -> str:
    """A scalar of YAML. No character of a stranger changes the meaning of its line."""
    if _PLAIN_YAML.fullmatch(text) or (text.isascii() and text.isalpha() and text.lower() not in _YAML_WORDS):
        return text
    return '"' + "".join(map(_character, text)) + '"'


def _character(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return character if " " <= character <= "~" else f"\\U{ord(character):08x}"
