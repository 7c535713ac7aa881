"""Warns where another package stands in the way of ours: three of our packages have names that others use, too."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

OURS = ("config", "sinks")
"""Beside ``bridge``, which is ours by the time that this is asked."""


def shadowed() -> list[str]:
    """A warning for each of our packages in whose place Python would import another one; it names that one's place."""
    root = Path(__file__).resolve().parents[2]
    return [
        f"kubedelta: another package called {name} ({found}) stands before kubedelta's: install kubedelta into an"
        " environment of its own (its image, pipx, a venv), and take PYTHONPATH away"
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
