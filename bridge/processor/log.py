"""The log that listeners read, and the errors of listeners."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from bridge.model.primitives.ring import Slice

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class Receiver(Protocol[T_contra]):
    """Gets the items that are distributed. Must not wait."""

    def offer(self, items: Sequence[T_contra], last: int, /) -> None:
        """See ProcessorListener.offer."""
        ...


class Log(Protocol[T]):
    """The distributed items, which can be read again as long as they are kept."""

    @property
    def last(self) -> int:
        """Sequence number of the newest item; 0 before the first."""
        ...

    async def read(self, after: int, limit: int) -> Slice[T]:
        """See Ring.read."""
        ...


class ListenerClosed(Exception):
    """The listener was removed, and its pending items with it."""


class ListenerExists(Exception):
    """A listener of that name exists already."""
