"""Values of expressions on parts of objects that came before. Pure. Hot.

Most updates change none of the members that an expression reads, so its value is known. The key is the part itself, not
a digest of it. Expressions of a resource with the same paths have their values together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_MOST = 16_384
"""Parts of all resources: some 5 MB, as parts of some 150 bytes."""
_LONGEST = 1024
"""Bytes of a part."""


class KnownValues:
    """Values by part, for all paths of all resources together; forgets all of them when there are ``most`` parts."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._count = 0
        self._by_paths: list[dict[bytes, dict[Any, bool]]] = []

    def of_paths(self) -> Callable[[bytes], dict[Any, bool]]:
        """A function from the part of an object, as JSON, to the values of the expressions that read it, which the
        caller completes. A longer part is not kept."""
        parts: dict[bytes, dict[Any, bool]] = {}
        self._by_paths.append(parts)

        def values_of(part: bytes) -> dict[Any, bool]:
            values = parts.get(part)
            if values is None:
                values = {}
                if len(part) <= _LONGEST:
                    self._make_room()
                    parts[part] = values
            return values

        return values_of

    def _make_room(self) -> None:
        if self._count >= self._most:
            for each in self._by_paths:
                each.clear()
            self._count = 0
        self._count += 1
