"""Points in the past, as an operator writes them: a time, a time ago, now, or the version of a resource."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from config.values import Duration

_1970 = datetime(1970, 1, 1, tzinfo=UTC)
# ASCII: otherwise \d matches the digits of every alphabet.
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d+)?)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_VERSION = re.compile(r"([A-Za-z0-9.-]+)=([0-9]{1,18})", re.ASCII)
ALLOWED = "2026-11-24T10:00Z, 10m or 2h or 3d (ago), now, or a resource's version such as pods=184467"


class NotInHistory(Exception):
    """The file cannot answer. The message says what it has, for the operator."""


@dataclass(frozen=True, slots=True)
class PastPoint:
    """A point that is no version is a time of the bridge: when it saw a change, and not when that was made."""

    text: str
    """As the operator wrote it."""
    time: int | None = None
    """Microseconds since 1970. None for now, the end of the file, and for a version."""
    resource: str = ""
    """kubectl's name of the resource; empty but for a version."""
    version: int = 0
    """The resourceVersion; 0 but for a version."""

    @classmethod
    def parsed(cls, text: str) -> PastPoint:
        """Reads the clock for a time ago. Raises ValueError with what is allowed."""
        text = text.strip()
        if text == "now":
            return cls(text)
        if found := _VERSION.fullmatch(text):
            return cls(text, None, found[1].lower(), int(found[2]))
        try:
            if _TIME.fullmatch(text):
                return cls(text, microseconds(text.upper()))
            return cls(text, _since_1970(datetime.now(UTC) - timedelta(seconds=Duration.read(text))))
        except (ValueError, OverflowError):
            if _TIME.fullmatch(f"{text}Z"):
                raise ValueError(f"{text!r} has no zone; allowed: {text}Z, or with an offset {text}+01:00") from None
            raise ValueError(f"{text!r} is not a point in the past; allowed: {ALLOWED}") from None


def microseconds(time: str) -> int:
    """Since 1970, of a time by RFC 3339. Raises ValueError, also for a time without an offset."""
    found = datetime.fromisoformat(time)
    if found.tzinfo is None:
        raise ValueError(f"{time!r} has no offset")
    return _since_1970(found)


def moment(time: int) -> datetime:
    """``time``: in microseconds since 1970."""
    return _1970 + timedelta(microseconds=time)


def in_words(time: int) -> str:
    """RFC 3339, UTC, to the millisecond."""
    return moment(time).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _since_1970(time: datetime) -> int:
    return (time - _1970) // timedelta(microseconds=1)
