"""Warns of foreign packages that hide ours, since our top-level packages have common names."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

OURS = ("config", "sinks")
"""``bridge`` itself is ours once this module runs."""


def shadowed() -> list[str]:
    """A warning for each of our packages that a foreign package hides, with the path of that package."""
    root = Path(__file__).resolve().parents[2]
    return [
        f"kubedelta: another package called {name} ({found}) hides kubedelta's: install kubedelta into an environment "
        "of its own (its image, pipx, a venv), and unset PYTHONPATH"
        for name in OURS
        if (found := _place(name)) != root / name
    ]


def _place(name: str) -> Path | None:
    spec = find_spec(name)
    if spec is None:
        return None
    places = [spec.origin] if spec.origin else list(spec.submodule_search_locations or ())
    path = Path(places[0]).resolve() if places else None
    return path.parent if path and path.name == "__init__.py" else path
