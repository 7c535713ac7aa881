"""What the web server asks of the rest of the bridge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar


class Informer(Protocol):
    @property
    def resource(self) -> str: ...
    @property
    def scope(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def ready(self) -> bool: ...
    @property
    def objects(self) -> int: ...
    @property
    def last_contact(self) -> float | None: ...
    @property
    def reason(self) -> str: ...


class Sink(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def lag(self) -> int: ...
    @property
    def last_error(self) -> str: ...
    @property
    def retry_in(self) -> float | None: ...


class Standing(Protocol):
    """How things stand at one moment. Frozen: it may be read in a thread."""

    @property
    def informers(self) -> Sequence[Informer]: ...
    @property
    def sinks(self) -> Sequence[Sink]: ...
    @property
    def ready(self) -> bool: ...


S_co = TypeVar("S_co", bound=Standing, covariant=True)
S_contra = TypeVar("S_contra", bound=Standing, contravariant=True)


class Status(Protocol[S_co]):
    def snapshot(self) -> S_co: ...

    def alive(self) -> bool:
        """False where only a new process can help."""
        ...


class Metrics(Protocol[S_contra]):
    def render(self, snapshot: S_contra, accept: str, /) -> tuple[bytes, str]:
        """The exposition and its content type."""
        ...
