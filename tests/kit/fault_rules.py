"""The rules of misbehaviour, which wait for a request or last until they are stopped."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Self, TypeAlias

from bridge.playground.http.errors import StatusError


@dataclass(frozen=True, slots=True)
class Fail:
    """Answers with a Status."""

    error: StatusError


@dataclass(frozen=True, slots=True)
class Forbid:
    """Answers 403, and denies SelfSubjectAccessReviews."""

    namespace: str | None
    """None for all namespaces, and for kinds without namespaces."""


@dataclass(frozen=True, slots=True)
class Reply:
    """Answers with these bytes."""

    status: int
    content_type: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Mislabel:
    """Answers with another content type."""

    content_type: str


@dataclass(frozen=True, slots=True)
class Delay:
    """Delays an answer."""

    seconds: float


@dataclass(frozen=True, slots=True)
class EndAtOnce:
    """Accepts a watch, and ends it without a line."""


@dataclass(frozen=True, slots=True)
class CutLine:
    """Sends the first half of the next line of a watch, and drops the connection."""


@dataclass(frozen=True, slots=True)
class Silence:
    """Keeps watches open without sending anything, their end included."""


Act: TypeAlias = Fail | Forbid | Reply | Mislabel | Delay | EndAtOnce | CutLine | Silence


@dataclass(slots=True, eq=False)
class FaultRule:
    """A misbehaviour in force."""

    act: Act
    resource: str | None
    verbs: Collection[str] | None
    times: int | None
    """The remaining number of requests; None for no limit."""
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
        """Ends the misbehaviour. Silent watches send their held lines."""
        self.times = 0
        self._changed()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
