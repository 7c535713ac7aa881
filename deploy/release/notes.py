"""The part of the changelog for a version. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True, slots=True)
class Notes:
    """Changes of a version that operators notice."""

    version: str
    when: str
    """Behind the version, in brackets: a day, or ``unreleased``."""
    text: str
    """Markdown, without the heading of the version."""

    @property
    def is_released(self) -> bool:
        return bool(_DAY.fullmatch(self.when))


def notes_of(changelog: str, version: str) -> Notes:
    """The section ``## version (day)``, up to the next version. Raises LookupError without such a section, and
    ValueError if it is empty."""
    heading = re.compile(rf"^## {re.escape(version)} \(([^()\n]+)\)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
    found = heading.search(changelog)
    if found is None:
        raise LookupError(f"CHANGELOG.md has no section '## {version} (YYYY-MM-DD)'")
    if not found[2].strip():
        raise ValueError(f"CHANGELOG.md: the section of {version} is empty")
    return Notes(version, found[1], f"{found[2].strip()}\n")
