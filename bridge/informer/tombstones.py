"""Remembers exported deletes, because a server may announce a delete again, long after it. Pure. Hot."""

from __future__ import annotations

from collections import OrderedDict

from bridge.model.object import ApiObject
from bridge.model.versions.version import is_reached


class Tombstones:
    """The exported deletes of an informer. All deletes up to its position are exported. If it has no position (within a
    list, in doubt), or if versions have no order, the last ``most`` deletes are remembered by uid."""

    def __init__(self, position: str | None = None, *, most: int = 500) -> None:
        self.position = position
        """The version whose state the store has; None while there is no such version."""
        self._most = most
        self._versions: OrderedDict[str, str] = OrderedDict()

    def __contains__(self, uid: str) -> bool:
        """Whether the object was exported as deleted lately."""
        return uid in self._versions

    def add(self, thing: ApiObject) -> None:
        """Remembers an exported delete, with its version."""
        self._versions[thing.uid] = thing.resource_version
        if len(self._versions) > self._most:
            self._versions.popitem(last=False)

    def cover(self, thing: ApiObject) -> bool:
        """Whether this delete of an unknown object was exported before."""
        version, exported = thing.resource_version, self._versions.get(thing.uid)
        if exported is not None and (version == exported or is_reached(version, exported)):
            # A newer version would be another delete: with a label selector, an object may come back under its uid.
            return True
        return self.position is not None and is_reached(version, self.position)
