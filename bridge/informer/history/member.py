"""The part of an informer that its History uses."""

from __future__ import annotations

from typing import Protocol

from bridge.informer.history.outcomes import OtherHistory
from bridge.model.answers import ListerWatcher
from bridge.model.change import ObjectVersion
from bridge.model.object import ApiObject
from bridge.model.resource import Resource, Scope
from bridge.model.versions.version_table import Deleted


class Member(Protocol):
    """The part of an informer that its History uses."""

    resource: Resource
    scope: Scope
    source: ListerWatcher

    @property
    def reached(self) -> str | None:
        """The newest version that the server sent, in the informer's present history; None before the first."""
        ...

    @property
    def is_witness(self) -> bool:
        """Its ``reached``, ``newest`` and ``deleted`` are of the present history."""
        ...

    @property
    def live(self) -> bool:
        """The informer has an open watch."""
        ...

    def newest(self, most: int) -> list[tuple[str, ObjectVersion]]:
        """The newest known objects, newest first."""
        ...

    @property
    def deleted(self) -> Deleted | None:
        """The newest announced delete; None if a newer change is known."""
        ...

    def known(self, key: str) -> ObjectVersion | None: ...

    async def wait_processed(self) -> None:
        """Returns when the Indexer has every delta that was queued before, and no batch is under way."""
        ...

    async def wait_recovered(self) -> None:
        """Returns when no steps behind a list are looked for: in seconds (``allowance.LONGEST``)."""
        ...

    async def wait_known(self) -> None:
        """Return when the Indexer has every delta that is queued now."""
        ...

    def exported(self, key: str, known: ObjectVersion) -> ApiObject:
        """A known object with its exported body, without paths that the informer ignores. ``known`` must be
        current."""
        ...

    def as_exported(self, thing: ApiObject) -> ApiObject:
        """The object as it would be exported (transformed), without paths that the informer ignores."""
        ...

    def disproved(self, other: OtherHistory) -> None:
        """Learns that the server has another history. Does not wait."""
        ...
