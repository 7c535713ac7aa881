"""What an election does before an informer lists."""

from __future__ import annotations

from typing import Protocol


class BeforeLists(Protocol):
    """``informer``: see ``frontier.informer_key``. ``listed``: the version of the list; None if it is not known yet."""

    def note(self, informer: str, epoch: int, listed: str | None = None) -> bool:
        """Whether the list may pass over the delete of an object that another replica has delivered. If so, that is
        durable with the next write."""
        ...

    async def begin(self, informer: str, epoch: int, listed: str | None) -> None:
        """Returns once records of the list may be appended."""
        ...
