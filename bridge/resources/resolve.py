"""What the configured names mean on a cluster. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from bridge.kube import SHORT_NAMES, Catalogue, UnknownResource, is_accepted, resolve_name
from bridge.kube.discovery.catalogue import Document, GroupVersion, Served
from bridge.model.resource import Resource, Scope
from bridge.plan.plan import Wanted

Desired: TypeAlias = dict[tuple[str, Scope], Resource]
"""A resource's name and a scope of it → how the server serves it now."""


def wanted_scopes(configured: Sequence[Wanted], resource: Resource) -> tuple[Scope, ...]:
    """What would be watched of this resource, were it served; nothing where no entry means it, or its name is
    none that the API could have."""
    if not is_accepted(resource):
        return ()
    version = GroupVersion(resource.group, resource.version, (Served(resource, resource.kind.lower()),))
    alone = Catalogue((Document("", None, (version,)),))
    return tuple(scope for _, scope in resolve_wanted(configured, alone).desired)


def meant(name: str, told: Iterable[Resource], served: Catalogue | None) -> str:
    """The name of the resource that ``name`` means among those that were ``told``, by kubectl's rules; ``name`` itself
    where it means none, or several. ``served``: what the API server says, where it was asked: it knows the short names
    of custom resources."""
    known = {each.resource.name: each for each in (served.served if served else ())}
    versions = [
        GroupVersion(resource.group, resource.version, (known.get(resource.name) or _remembered(resource),))
        for resource in told
    ]
    try:
        found = {each.name for each in resolve_name(name, Catalogue((Document("", None, tuple(versions)),)))}
    except UnknownResource:
        return name
    return found.pop() if len(found) == 1 else name


def _remembered(resource: Resource) -> Served:
    return Served(resource, resource.kind.lower(), SHORT_NAMES.get(resource.name, ()))


def may_be_short(unresolved: Iterable[str]) -> bool:
    """Whether one of these names may be the short name of a resource that is not served: only discovery tells those."""
    return any("." not in name and "*" not in name for name in unresolved)


@dataclass(frozen=True, slots=True)
class Resolution:
    desired: Desired
    unresolved: dict[str, str]
    """Names that mean nothing at this moment → why."""
    empty: dict[str, str]
    """Wildcards that cover nothing at this moment → why."""
    twice: tuple[str, ...] = ()
    """Names that mean what another name means; they are unresolved too."""


def resolve_wanted(configured: Sequence[Wanted], catalogue: Catalogue) -> Resolution:
    """An object belongs to one entry, or it would be told twice: a name that is said comes before a wildcard that
    covers it, and of names for one resource whose scopes meet, the first counts."""
    desired: Desired = {}
    claimed: dict[str, list[Wanted]] = {}
    unresolved: dict[str, str] = {}
    empty: dict[str, str] = {}
    twice: list[str] = []
    for wanted in sorted(configured, key=lambda each: each.is_wildcard):
        try:
            resources = resolve_name(wanted.name, catalogue)
        except UnknownResource as error:
            (empty if wanted.is_wildcard else unresolved)[wanted.name] = str(error)
            continue
        if not resources:
            empty[wanted.name] = f"{wanted.name}: it covers nothing at this moment"
        for resource in resources:
            others = claimed.setdefault(resource.name, [])
            if first := next((each for each in others if each.meets(wanted, resource)), None):
                if not wanted.is_wildcard:
                    twice.append(wanted.name)
                    unresolved[wanted.name] = f"{first.name} means {resource} as well, and an object belongs to one"
                continue
            others.append(wanted)
            desired.update({(resource.name, scope): resource for scope in wanted.scopes_of(resource)})
    return Resolution(desired, unresolved, empty, tuple(dict.fromkeys(twice)))
