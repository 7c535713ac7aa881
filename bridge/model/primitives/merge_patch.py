"""JSON merge patches (RFC 7396)."""

from __future__ import annotations

from typing import Any


def patched(target: Any, patch: Any) -> Any:
    """Section 2. Changes a target that is a map."""
    if not isinstance(patch, dict):
        return patch
    found = target if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = patched(found.get(name), value)
    return found
