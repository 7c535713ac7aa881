"""Holds the present state of the configured resources: the entries in effect, the last discovery, and the resources
that are watched by both. ``WatchedResources`` replaces them; informers, sinks and commands ask.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridge.kube import Catalogue
from bridge.model.resource import Resource
from bridge.plan.plan import Wanted


class CurrentResources:
    """Returns the watched resources when called; None before the first discovery."""

    def __init__(self, wanted: Sequence[Wanted] = ()) -> None:
        self.wanted = wanted
        self.catalogue = Catalogue()
        self._watched: tuple[Resource, ...] | None = None

    def __call__(self) -> Sequence[Resource] | None:
        return self._watched

    def replace(self, watched: Sequence[Resource]) -> None:
        self._watched = tuple(watched)
