"""Which deletes were told: a server may announce one again, long after its object is forgotten. Pure; hot."""

from __future__ import annotations

from collections import OrderedDict

from bridge.model.object import ApiObject
from bridge.model.versions.version import is_reached


class Tombstones:
    """Of one informer. Everything up to the position it has reached was told, whatever was deleted since; where there
    is no position (inside a list, in doubt) or versions have no order, the last ``most`` deletes are remembered."""

    def __init__(self, position: str | None = None, *, most: int = 500) -> None:
        self.position = position
        """The version that the store was at last; None while it is at none."""
        self._most = most
        self._versions: OrderedDict[str, str] = OrderedDict()

    def add(self, thing: ApiObject) -> None:
        """It is told as deleted, with this version."""
        self._versions[thing.uid] = thing.resource_version
        if len(self._versions) > self._most:
            self._versions.popitem(last=False)

    def cover(self, thing: ApiObject) -> bool:
        """Whether this delete of an object that is not known is one that was told."""
        version, told = thing.resource_version, self._versions.get(thing.uid)
        if told is not None and (version == told or is_reached(version, told)):
            return True  # Of an object that came back under its uid, by its labels, the version is newer.
        return self.position is not None and is_reached(version, self.position)
