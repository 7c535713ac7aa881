"""Wrongs that the server was asked for and that wait for a request, or last."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Self, TypeAlias

from bridge.playground.http.errors import ApiError

DISCOVERY = ""
"""Stands for a resource's name where discovery, version and health are meant."""


@dataclass(frozen=True, slots=True)
class Fail:
    """Answer with a Status."""

    error: ApiError


@dataclass(frozen=True, slots=True)
class Forbid:
    """Answer 403, and no to a SelfSubjectAccessReview."""

    namespace: str | None
    """None for every one, and for what has none."""


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer with these bytes."""

    status: int
    content_type: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Mislabel:
    """Answer as asked, under another content type."""

    content_type: str


@dataclass(frozen=True, slots=True)
class Delay:
    """Wait before answering as asked."""

    seconds: float


@dataclass(frozen=True, slots=True)
class EndAtOnce:
    """Accept a watch, and end it without a line."""


@dataclass(frozen=True, slots=True)
class CutLine:
    """Send the first half of the next line of a watch, and drop the connection."""


@dataclass(frozen=True, slots=True)
class Silence:
    """Keep watches open and send nothing, not even their end."""


Act: TypeAlias = Fail | Forbid | Reply | Mislabel | Delay | EndAtOnce | CutLine | Silence


@dataclass(slots=True, eq=False)
class Rule:
    """One misbehaviour in force."""

    act: Act
    resource: str | None
    verbs: Collection[str] | None
    times: int | None
    """How often it is still to act; None until it is stopped."""
    acted: int = 0
    _changed: Callable[[], None] = field(default=lambda: None)

    @property
    def in_force(self) -> bool:
        return self.times is None or self.times > 0

    def concerns(self, resource: str, verb: str) -> bool:
        return (
            self.in_force
            and (self.resource is None or self.resource == resource)
            and (self.verbs is None or verb in self.verbs)
        )

    def spend(self) -> None:
        self.acted += 1
        if self.times is not None:
            self.times -= 1

    def stop(self) -> None:
        """Behave again. Streams that were silent say what they held back."""
        self.times = 0
        self._changed()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
