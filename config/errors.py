"""What is wrong with a configuration: one Problem for each mistake, all of them at once."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

Path: TypeAlias = tuple[str | int, ...]
"""Where a value stands: the names and list places that lead to it from the top of the file."""


def dotted(path: Path) -> str:
    """``sinks.audit.topic``, ``resources[1].namespaces[0]``."""
    shown = ""
    for step in path:
        shown += f"[{step}]" if isinstance(step, int) else f".{step}" if shown else step
    return shown


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known name that ``word`` was probably meant to be."""
    close = get_close_matches(word.lower(), list(known), n=1, cutoff=0.6)
    return close[0] if close else None


def unknown(word: str, allowed: Iterable[str]) -> str:
    """Says that ``word`` is no option, what it was probably meant to be, and what there is."""
    names = sorted(allowed)
    close = nearest(word, names)
    guess = f'; did you mean "{close}"?' if close else ";"
    return f"unknown option{guess} allowed here: {', '.join(names)}"


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake. Never holds the value of an option that may be a secret."""

    source: str
    """Who said it: ``kubedelta.yaml:12`` or the name of an environment variable."""
    path: Path
    """Empty where the file as a whole is meant."""
    message: str
    """What was found and what is allowed."""

    def __str__(self) -> str:
        return ": ".join(part for part in (self.source, dotted(self.path), self.message) if part)


class ConfigError(Exception):
    """The configuration cannot be used. Its text has one line for each problem."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))
