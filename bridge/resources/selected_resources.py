"""The resources that the entries of ``select`` mean on a cluster. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from bridge.kube import Catalogue
from bridge.model.resource_name import ResourceName
from bridge.resources.resolve import Resolution, may_be_short, meant
from bridge.selection import Selector, SelectorText, Unwatched, find_unwatched


def resolve_entries(
    entries: Sequence[SelectorText], resolution: Resolution, catalogue: Catalogue, known: Mapping[str, str]
) -> tuple[Sequence[SelectorText], Mapping[str, str]]:
    """The entries with full names of resources, and all names with their meanings. A wildcard, and a name without a
    watched resource, stay. ``known``: meanings at an earlier start, which hold: discovery may lack a short name for a
    while."""
    watched = tuple(dict.fromkeys(resolution.desired.values()))
    names = {}
    for each in entries:
        name = known.get(each.resource, each.resource)
        is_new = name == each.resource and not ResourceName.parsed(name).is_wildcard
        names[each.resource] = meant(name, watched, catalogue) if is_new else name
    return [replace(each, resource=names[each.resource]) for each in entries], names


def unwatched_entries(
    entries: Sequence[SelectorText], path: str, resolution: Resolution, known: Collection[str] = ()
) -> Iterator[tuple[str, Unwatched]]:
    """Path and problem of each entry, with its full name, that means no watched resource. ``known``: names that were
    accepted at an earlier start. They are no mistakes while a configured name is unresolved that may be their short
    name, since only discovery has short names."""
    watched = tuple(dict.fromkeys(resolution.desired.values()))
    unserved = (*resolution.unresolved, *resolution.empty, *resolution.wildcards)
    spared = known if may_be_short(resolution.unresolved) else ()
    for index, each in enumerate(entries):
        found = find_unwatched(Selector(resource=each.resource), watched, unserved)
        if found is not None:
            is_mistake = found.is_mistake and each.resource not in spared
            yield f"{path}[{index}].resource", replace(found, is_mistake=is_mistake)
