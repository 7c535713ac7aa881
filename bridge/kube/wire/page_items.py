"""The objects of a list page that were read and not taken yet. Hot."""

from __future__ import annotations

import msgspec

from bridge.kube.wire.objects import LeftBare
from bridge.kube.wire.status import shortened
from bridge.model.object import ApiObject

MOST_UNREADABLE = 100
"""Unreadable items that are reported, per page."""


class PageItems:
    """The result of a PageReader, which fills it."""

    def __init__(self) -> None:
        self._objects: list[ApiObject] = []
        self._unreadable: list[str] = []
        self.left_bare: list[str] = []
        """Objects reduced to their identity: name and reason. The reader of this list may clear it."""
        self.held = 0
        """Bytes of the objects that were not taken yet."""

    def _take(self, *, secret: bool) -> list[ApiObject]:
        """Removes and returns the objects that are complete. ``secret``: the list's kind names Secrets."""
        objects, self._objects, self.held = self._objects, [], 0
        return [msgspec.structs.replace(each, secret=True) for each in objects] if secret else objects

    def _put(self, thing: ApiObject | LeftBare | str) -> None:
        if isinstance(thing, LeftBare):
            self.left_bare.append(shortened(thing.reason))
            thing = thing.object
        if isinstance(thing, ApiObject):
            self._objects.append(thing)
            self.held += len(thing.body)
        elif len(self._unreadable) < MOST_UNREADABLE:
            self._unreadable.append(shortened(thing))
