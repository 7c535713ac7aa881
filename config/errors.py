"""ConfigError: every mistake in a configuration at once, a Problem for each."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Path: TypeAlias = tuple[str | int, ...]
"""A path in the file: names of options and indexes of lists, from the top."""


def dotted(path: Path) -> str:
    """``sinks.audit.topic``, ``resources[1].namespaces[0]``."""
    shown = ""
    for step in path:
        shown += f"[{step}]" if isinstance(step, int) else f".{step}" if shown else step
    return shown


def nearest(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The known name closest to ``word``; None where no name is close."""
    close = get_close_matches(word.lower(), list(known), n=1, cutoff=cutoff)
    return close[0] if close else None


def unknown(word: str, allowed: Iterable[str], elsewhere: Sequence[str] = ()) -> str:
    """The message for an unknown option ``word``: the closest name and the places ``elsewhere`` that have the option,
    if any, and all allowed names."""
    names = sorted(allowed)
    close = nearest(word, names)
    found = [*([close] if close else []), *elsewhere]
    guess = f"; did you mean {' or '.join(map(quoted, found))}?" if found else ";"
    return f"unknown option{guess} allowed here: {', '.join(names)}"


def quoted(name: str) -> str:
    return f'"{name}"'


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake. It never has the value of an option that may be a secret."""

    source: str
    """The source of the value: ``kubedelta.yaml:12``, or the name of an environment variable."""
    path: Path
    """Empty for the file as a whole."""
    message: str
    """The value that was found, and the allowed values."""

    def __str__(self) -> str:
        return ": ".join(part for part in (self.source, dotted(self.path), self.message) if part)


class ConfigError(Exception):
    """The configuration cannot be used. The text has a line for each problem."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))
