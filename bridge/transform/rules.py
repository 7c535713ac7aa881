"""Redacts the values at configured paths. Pure.

Maps and lists along a path are decoded one level deep; members beside the path are copied. A value that stands where a
path expects a map or a list is redacted itself, because it cannot be judged.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile
from typing import Any, TypeAlias

import msgspec
from msgspec import Raw

from bridge.model.object import MASKED
from bridge.model.policies import RedactionMode, RedactionRule
from bridge.model.primitives.field_path import Every, FieldPath, Step
from bridge.transform.effort import Effort
from bridge.transform.redaction import is_digest

_members = msgspec.json.Decoder(dict[str, Raw]).decode
_items = msgspec.json.Decoder(list[Raw]).decode
_any = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode

_Where: TypeAlias = tuple[str, ...]


class PathRules:
    """The rules for the objects of one resource."""

    def __init__(self, rules: Sequence[RedactionRule]) -> None:
        self._paths = tuple((path.steps, _Signs(path), rule.mode) for rule in rules for path in rule.paths)

    def redacted(self, body: bytes, effort: Effort) -> bytes:
        """The body with its values redacted; the same bytes if no path leads to a value. Raises one of
        ``UNREDACTED`` for a body of an unexpected shape, or one that takes too much work; then it must not be exported.
        """
        escaped = b"\\" in body  # An escape may hide a name.
        for steps, signs, mode in self._paths:
            if escaped or signs.in_(body):
                body = bytes(_Edit(mode, effort).redacted(Raw(body), steps, ()) or b"")
        return body


class _Signs:
    """What a body has if a path may lead to a value in it, so that a rule costs little for other objects."""

    def __init__(self, path: FieldPath) -> None:
        names = list(takewhile(lambda step: isinstance(step, str), path.steps))[:2]
        self._name = _encode(names[-1]) if names else b""
        """Of its first two names, the last. A later name may be missing where a value stands in place of a map."""
        self._no_map = re.compile(rb"%b\s*+:\s*+[^\s{n]" % re.escape(_encode(names[0]))) if len(names) == 2 else None
        """Another value than a map or null in place of the first."""

    def in_(self, body: bytes) -> bool:
        return self._name in body or (self._no_map is not None and self._no_map.search(body) is not None)


class _Edit:
    def __init__(self, mode: RedactionMode, effort: Effort) -> None:
        self._mode = mode
        self._effort = effort

    def redacted(self, raw: Raw, steps: Sequence[Step], where: _Where) -> Raw | None:
        """The value without the values that ``steps`` lead to; None if the value itself is left out."""
        self._effort.copies(len(memoryview(raw)))
        if not steps:
            return self._leaf(raw, where)
        match bytes(memoryview(raw)[:1]):
            case b"{":
                return self._map(raw, steps, where)
            case b"[":
                return self._list(raw, steps, where)
        return self._leaf(raw, where)

    def _map(self, raw: Raw, steps: Sequence[Step], where: _Where) -> Raw:
        step, *rest = steps
        members = _members(raw)
        names = [step] if isinstance(step, str) else list(members)
        for name in names:
            if name not in members:
                continue
            left = self.redacted(members[name], rest, (*where, name))
            if left is None:
                del members[name]
            else:
                members[name] = left
        return Raw(_encode(members))

    def _list(self, raw: Raw, steps: Sequence[Step], where: _Where) -> Raw:
        # A name leads through a list into each item. A digest does not depend on the index: an item that moves has not
        # changed. A removed item becomes null, so that the others stay where they are.
        rest = steps[1:] if isinstance(steps[0], Every) else steps
        items = [self.redacted(item, rest, (*where, "*")) for item in _items(raw)]
        return Raw(_encode(items))

    def _leaf(self, raw: Raw, where: _Where) -> Raw | None:
        if self._mode is RedactionMode.REMOVE:
            return None
        self._effort.searches(len(memoryview(raw)) // 4)
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
        return self._effort("path", *where, value if isinstance(value, str) else _encode(value).decode())
