"""Paths of members in a JSON document: ``spec.containers[*].image``, ``metadata.annotations['a.b/c']``, ``data.*``."""

from __future__ import annotations

import re
from typing import Final, TypeAlias

import msgspec

_NAME = r"[A-Za-z0-9_-]+"
_QUOTED = r"'[^'\x00-\x1f]+'|\"[^\"\x00-\x1f]+\""
_BRACKETS = rf"\[(?:\*|{_QUOTED})\]"
PATTERN: Final = rf"(?:{_NAME}|\*|{_BRACKETS})(?:\.(?:{_NAME}|\*)|{_BRACKETS})*"
"""A regular expression for a written path, in the part of the syntax that ECMA 262 and Python share."""
_STEP = re.compile(rf"({_NAME})|(\*|\[\*\])|\[(?:{_QUOTED})\]")
_PLAIN = re.compile(_NAME)
_IN_QUOTES = re.compile(_QUOTED)
MOST_STEPS: Final = 32


class Every:
    """The step ``*``: every member of a map, or every item of a list."""

    def __repr__(self) -> str:
        return "*"


EVERY: Final = Every()

Step: TypeAlias = str | Every


class FieldPath(msgspec.Struct, frozen=True):
    """The steps from the root of a document. A name that contains a dot or a slash stands in quotes and brackets."""

    steps: tuple[Step, ...]

    @classmethod
    def parsed(cls, text: str) -> FieldPath:
        """Raises ValueError with the expected form."""
        if not re.fullmatch(PATTERN, text):
            raise ValueError("a path is expected: spec.containers[*].image, data.*, metadata.annotations['a.b/c']")
        steps = tuple(_step(found) for found in _STEP.finditer(text))
        if len(steps) > MOST_STEPS:
            raise ValueError(f"a path has at most {MOST_STEPS} steps")
        return cls(steps)

    def meets(self, other: FieldPath) -> bool:
        """Whether some member may be in both subtrees: one path leads through the other, or to it."""
        pairs = zip(self.steps, other.steps, strict=False)
        return all(one == other or EVERY in (one, other) for one, other in pairs)


def written_step(step: Step) -> str | None:
    """A step behind others; None for a name that the syntax cannot have."""
    if not isinstance(step, str):
        return "[*]"
    if _PLAIN.fullmatch(step):
        return f".{step}"
    return next((f"[{quoted}]" for quoted in (f"'{step}'", f'"{step}"') if _IN_QUOTES.fullmatch(quoted)), None)


def _step(found: re.Match[str]) -> Step:
    name, every = found.groups()
    if every:
        return EVERY
    return name or found[0][2:-2]
