"""Entries of ``select`` that name no watched resource. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from difflib import get_close_matches

from bridge.model.resource import Resource
from bridge.model.resource_name import ResourceName
from bridge.selection.selector import Selector


@dataclass(frozen=True, slots=True)
class Unwatched:
    """An entry without a watched resource."""

    resource: str
    """As the entry names it."""
    is_mistake: bool
    """False if a name in the list ``resources`` may mean the same resource, once it is served."""
    nearest: str | None
    """The closest watched name; None if no name is close."""

    def __str__(self) -> str:
        guess = f'; did you mean "{self.nearest}"?' if self.nearest else ""
        if not self.is_mistake:
            return f"{self.resource} is not served yet{guess}"
        return f"{self.resource} is not watched{guess or '; see the list resources'}"


def find_unwatched(selector: Selector, watched: Collection[Resource], unserved: Collection[str]) -> Unwatched | None:
    """``watched``: the resources that are watched now. ``unserved``: names in the configuration without a resource at
    this moment, and wildcards, which may cover later resources. None if the entry covers a watched resource."""
    if any(selector.covers(resource) for resource in watched):
        return None
    name = ResourceName.parsed(selector.resource)
    may_come = any(_may_mean_the_same(name, ResourceName.parsed(each)) for each in unserved)
    known = {resource.name for resource in watched}
    if not may_come:
        known.update(unserved)
    return Unwatched(selector.resource, not may_come, _nearest(selector.resource, known))


def _may_mean_the_same(one: ResourceName, other: ResourceName) -> bool:
    if "*" in (one.word, other.word):
        return not one.rest or not other.rest or one.group == other.group
    return one.word == other.word and (not one.rest or not other.rest or one.group == other.group)


def _nearest(name: str, known: Collection[str]) -> str | None:
    """Also by the part before the first dot, since the group may be left out."""
    spoken = {each.partition(".")[0]: each for each in sorted(known, reverse=True)} | {each: each for each in known}
    close = get_close_matches(name.lower(), spoken, n=1)
    return spoken[close[0]] if close else None
