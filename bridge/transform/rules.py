"""Redacts the values at configured paths. Pure.

Maps and lists along a path are decoded one level deep; members beside the path are copied. A value that stands where a
path expects a map or a list is redacted itself, because it cannot be judged; but not a member of the object itself, and
not a value that the path came to by ``*``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import Raw

from bridge.model.object import MASKED
from bridge.model.policies import RedactionMode, RedactionRule
from bridge.model.primitives.field_path import Every, FieldPath, Step
from bridge.transform.credentials import Digest
from bridge.transform.redaction import is_digest

_members = msgspec.json.Decoder(dict[str, Raw]).decode
_items = msgspec.json.Decoder(list[Raw]).decode
_any = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode

_FIRST_JUDGED = 1
"""The step from which on a value is redacted if it has not the shape that the path expects. A path is looked for only
in bodies with this step's name: so a rule costs little for other objects."""

_Where: TypeAlias = tuple[str, ...]


class PathRules:
    """The rules for the objects of one resource."""

    def __init__(self, rules: Sequence[RedactionRule]) -> None:
        self._paths = tuple((path.steps, _needle(path), rule.mode) for rule in rules for path in rule.paths)

    def redacted(self, body: bytes, digest: Digest) -> bytes:
        """The body with its values redacted; the same bytes if no path leads to a value. Raises msgspec.DecodeError,
        UnicodeDecodeError or RecursionError for a body of an unexpected shape; then it must not be exported."""
        escaped = b"\\" in body  # An escape may hide a name.
        for steps, needle, mode in self._paths:
            if escaped or needle in body:
                body = bytes(_Edit(mode, digest).redacted(Raw(body), steps, ()) or b"")
        return body


def _needle(path: FieldPath) -> bytes:
    names = [step for step in path.steps if isinstance(step, str)]
    return _encode(names[: _FIRST_JUDGED + 1][-1]) if names else b""


class _Edit:
    def __init__(self, mode: RedactionMode, digest: Digest) -> None:
        self._mode = mode
        self._digest = digest

    def redacted(self, raw: Raw, steps: Sequence[Step], where: _Where, every: bool = False) -> Raw | None:
        """The value without the values that ``steps`` lead to; None if the value itself is left out. ``every``: a step
        ``*`` led here."""
        if not steps:
            return self._leaf(raw, where)
        match bytes(raw)[:1]:
            case b"{":
                return self._map(raw, steps, where)
            case b"[":
                return self._list(raw, steps, where)
        return raw if every or len(where) <= _FIRST_JUDGED else self._leaf(raw, where)

    def _map(self, raw: Raw, steps: Sequence[Step], where: _Where) -> Raw:
        step, *rest = steps
        members = _members(raw)
        names = [step] if isinstance(step, str) else list(members)
        for name in names:
            if name not in members:
                continue
            left = self.redacted(members[name], rest, (*where, name), isinstance(step, Every))
            if left is None:
                del members[name]
            else:
                members[name] = left
        return Raw(_encode(members))

    def _list(self, raw: Raw, steps: Sequence[Step], where: _Where) -> Raw:
        # A name leads through a list into each item. A digest does not depend on the index: an item that moves has not
        # changed. A removed item becomes null, so that the others stay where they are.
        rest, every = (steps[1:], True) if isinstance(steps[0], Every) else (steps, False)
        items = [self.redacted(item, rest, (*where, "*"), every) for item in _items(raw)]
        return Raw(_encode(items))

    def _leaf(self, raw: Raw, where: _Where) -> Raw | None:
        if self._mode is RedactionMode.REMOVE:
            return None
        return Raw(_encode(self._replaced(_any(raw), where)))

    def _replaced(self, value: Any, where: _Where) -> Any:
        match value:
            case dict():
                return {name: self._replaced(inner, (*where, name)) for name, inner in value.items()}
            case list():
                return [self._replaced(item, (*where, "*")) for item in value]
            case None:
                return None
            case str() if is_digest(value):
                return value
        if self._mode is RedactionMode.MASK:
            return MASKED
        return self._digest("path", *where, value if isinstance(value, str) else _encode(value).decode())
