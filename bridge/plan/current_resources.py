"""Holds the resources that are watched now, for sinks that send notices to the topics of all of them."""

from __future__ import annotations

from collections.abc import Sequence

from bridge.model.resource import Resource


class CurrentResources:
    """Returns the watched resources when called; None before the first discovery."""

    def __init__(self) -> None:
        self._resources: tuple[Resource, ...] | None = None

    def __call__(self) -> Sequence[Resource] | None:
        return self._resources

    def replace(self, resources: Sequence[Resource]) -> None:
        self._resources = tuple(resources)
