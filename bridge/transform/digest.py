"""A digest of an object's state without the parts that change without a meaning: heartbeats, counters in annotations.

Two bodies of one object are compared by it, and neither must be kept. Only maps and lists on the way to an ignored
path are taken apart; all other bytes are hashed as kube-apiserver wrote them. So an API server of another version,
which may write members in another order, can make equal states look different, but never the other way round.

A digest costs 16 bytes for each object, in memory and on disk, and a pass over each new body; the former body would
have to be read for every heartbeat. ``verify`` uses the digests too (``verify.ignored``): it cannot compare bodies,
since sinks redact, project and format them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import Raw

from bridge.model.primitives.field_path import FieldPath, Step

SIZE = 16
"""Bytes of a digest."""

_VERSION = FieldPath(("metadata", "resourceVersion"))
_members = msgspec.json.Decoder(dict[str, Raw])
_items = msgspec.json.Decoder(list[Raw])
_encode = msgspec.json.Encoder().encode
_MAP, _LIST = b"{["
_Left: TypeAlias = Raw | dict[str, Any] | list[Any]


class IgnoredPaths:
    """Paths whose changes are ignored, beside the resourceVersion. As in redaction, a name leads through a list into
    each item. A map that is left empty on an ignored path counts as absent, so that a first annotation can be ignored
    like a second."""

    def __init__(self, paths: Iterable[FieldPath]) -> None:
        steps = [each.steps for each in (*paths, _VERSION)]
        self._root = (_Ignored(steps),)
        # Of other paths, equal remains would not show equal states.
        texts = sorted("".join(f"/{step!r}" for step in each) for each in steps)
        self._seed = hashlib.sha256("\n".join(texts).encode())
        self.name = self._seed.hexdigest()[: 2 * SIZE]
        """Other paths have another name."""

    def digest(self, body: bytes) -> bytes:
        """``SIZE`` bytes, which differ where anything differs beside these paths, and where the paths do. Without a
        key, so it belongs into no record."""
        # The processor has instructions for it; BLAKE2 takes twice as long.
        found = self._seed.copy()
        found.update(self.remaining(body))
        return found.digest()[:SIZE]

    def remaining(self, body: bytes) -> bytes:
        """The body without these paths; as it is if it cannot be read."""
        try:
            return _encode(_without(Raw(body), self._root) or {})
        except (msgspec.DecodeError, RecursionError, IndexError):
            return body


class _Ignored:
    """The rests of paths that lead to one value."""

    def __init__(self, rests: Sequence[Sequence[Step]]) -> None:
        longer = [steps for steps in rests if steps]
        names = dict.fromkeys(steps[0] for steps in longer if isinstance(steps[0], str))
        named = [steps for steps in longer if isinstance(steps[0], str)]
        every = [steps[1:] for steps in longer if not isinstance(steps[0], str)]
        self.whole = len(longer) < len(rests)
        """A path ends here."""
        self.members = {name: _Ignored([steps[1:] for steps in named if steps[0] == name]) for name in names}
        self.every = _Ignored(every) if every else None
        """In each member of a map, beside ``members``."""
        through = (_Ignored(named) if every else self,) if named else ()
        self.items = (*((self.every,) if self.every else ()), *through)
        """In each item of a list."""


def _without(value: Raw, ignored: Sequence[_Ignored]) -> _Left | None:
    """The value without these paths; None if it belongs to a path, or is a map of which no member is left."""
    for each in ignored:
        if each.whole:
            return None
    first = memoryview(value)[0]
    if first == _MAP:
        return _map_without(value, ignored)
    within = [below for each in ignored for below in each.items] if first == _LIST else []
    if not within:
        return value
    if any(each.whole for each in within):
        return None
    kept = (_without(item, within) for item in _items.decode(value))
    return [{} if item is None else item for item in kept]


def _map_without(value: Raw, ignored: Sequence[_Ignored]) -> _Left | None:
    members: dict[str, Raw] = _members.decode(value)
    left: dict[str, _Left] = {**members}
    every = [each.every for each in ignored if each.every is not None]
    for key in members if every else {key for each in ignored for key in each.members if key in members}:
        kept = _without(members[key], [*every, *(each.members[key] for each in ignored if key in each.members)])
        if kept is None:
            del left[key]
        else:
            left[key] = kept
    return left or None
