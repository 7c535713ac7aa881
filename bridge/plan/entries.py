"""Says which resources of a cluster the entries of ``resources`` and ``select`` mean. What a single name means is
kubectl's rule: ``kube.resolve_name``.

``resolve_wanted`` takes the entries of ``resources`` and the last discovery, and assigns each resource and scope to a
single entry. A name that no served resource has stays unresolved, with the reason, and is tried again at the next
discovery, since a CRD may come later. ``resolve_entries`` does the same for ``select``: its names mean watched
resources, by kubectl's rules, and a meaning that was found once holds. ``foresee`` applies other entries to the ledger
of a bridge that runs, for a reload. Only ``foresee`` reads, from the ledger; the rest are functions of their arguments.

Only discovery has the short names of custom resources. So while a configured name is unresolved, it may be the short
name of a resource that is known from before, which keeps its scopes, rules and accepted entries.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from bridge.kube import Catalogue, UnknownResource, is_accepted, resolve_name
from bridge.kube.catalogue import Document, GroupVersion, Served
from bridge.model.policies import RedactionRule
from bridge.model.primitives.field_path import FieldPath
from bridge.model.resource import SHORT_NAMES, Resource, ResourceName, Scope
from bridge.outbox import Ledger
from bridge.plan.plan import Wanted
from bridge.views.selection import Selector, SelectorText, Unwatched, find_unwatched

Desired: TypeAlias = dict[tuple[str, Scope], Resource]
"""A resource's name and a scope → the resource in its served version."""


# ── Entries of resources ─────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Resolution:
    desired: Desired
    unresolved: dict[str, str]
    """Names without a resource at this moment → the reason."""
    empty: dict[str, str]
    """Wildcards without a resource at this moment → the reason."""
    twice: tuple[str, ...] = ()
    """Names for a resource of another entry. They are in ``unresolved`` too."""
    wildcards: tuple[str, ...] = ()
    """Configured wildcards, which cover resources that are served later, too."""


def resolve_wanted(configured: Sequence[Wanted], catalogue: Catalogue) -> Resolution:
    """Assigns each object to a single entry, since it would be exported twice otherwise. A name comes before a wildcard
    that covers it; of names for the same resource with overlapping scopes, the first counts."""
    desired: Desired = {}
    claimed: dict[str, list[Wanted]] = {}
    unresolved: dict[str, str] = {}
    empty: dict[str, str] = {}
    twice: list[str] = []
    for wanted in sorted(configured, key=lambda each: each.is_wildcard):
        try:
            resources = resolve_name(wanted.name, catalogue)
        except UnknownResource as error:
            (empty if wanted.is_wildcard else unresolved)[wanted.name] = error.reason
            continue
        if not resources:
            empty[wanted.name] = "it covers no resource at this moment"
        for resource in resources:
            others = claimed.setdefault(resource.name, [])
            if first := next((each for each in others if each.meets(wanted, resource)), None):
                if not wanted.is_wildcard:
                    twice.append(wanted.name)
                    unresolved[wanted.name] = f"{first.name} means {resource} as well, and an object has one entry"
                continue
            others.append(wanted)
            desired.update({(resource.name, scope): resource for scope in wanted.scopes_of(resource)})
    wildcards = tuple(each.name for each in configured if each.is_wildcard)
    return Resolution(desired, unresolved, empty, tuple(dict.fromkeys(twice)), wildcards)


def mistakes_of(resolution: Resolution) -> list[str]:
    """A sentence for each name that means a resource of another entry."""
    return [f"resources: {name}: {resolution.unresolved[name]}" for name in resolution.twice]


def wanted_scopes(configured: Sequence[Wanted], resource: Resource) -> tuple[Scope, ...]:
    """The scopes that would be watched if this resource were served. Empty if no entry means it, or for an invalid
    name."""
    if not is_accepted(resource):
        return ()
    return tuple(scope for _, scope in resolve_wanted(configured, _alone(resource)).desired)


def absent_scopes(
    configured: Sequence[Wanted],
    resolution: Resolution,
    resource: Resource,
    catalogue: Catalogue,
    known: Sequence[Scope],
) -> Sequence[Scope]:
    """The scopes of a resource that is in no entry's resolution: a served resource that no entry means has none; one
    that is not served has those of the entry that would mean it. If no entry would, but a configured name is
    unresolved, which may be its short name, the resource keeps the scopes ``known``."""
    scopes = wanted_scopes(configured, resource)
    served = any(each.name == resource.name for each in catalogue.resources)
    return scopes if scopes or served or not may_be_short(resolution.unresolved) else known


def may_be_short(unresolved: Iterable[str]) -> bool:
    """Whether a name may be the short name of a resource that is not served, since only discovery has short names."""
    return any("." not in name and "*" not in name for name in unresolved)


def rules_for(configured: Sequence[Wanted], resource: Resource, catalogue: Catalogue) -> tuple[RedactionRule, ...]:
    """The rules of every entry that means the resource, or may mean it: a name that the catalogue does not know may be
    the short name of a resource that is not served now."""
    return tuple(
        rule for each in configured if each.redact and _may_mean(each, resource, catalogue) for rule in each.redact
    )


def ignored_by(
    configured: Sequence[Wanted], resource: Resource, scope: Scope, catalogue: Catalogue
) -> tuple[FieldPath, ...]:
    """The paths whose changes the entry with these objects ignores."""
    entry = _entry_of(configured, resource, scope, catalogue)
    return () if entry is None else entry.ignore_changes


def recovers_steps(configured: Sequence[Wanted], resource: Resource, scope: Scope, catalogue: Catalogue) -> bool:
    """Whether the entry with these objects wants steps that no watch announced."""
    entry = _entry_of(configured, resource, scope, catalogue)
    return entry is not None and entry.recover_steps


def _entry_of(configured: Sequence[Wanted], resource: Resource, scope: Scope, catalogue: Catalogue) -> Wanted | None:
    """As in ``resolve_wanted``, a name comes before a wildcard."""
    for each in sorted(configured, key=lambda each: each.is_wildcard):
        if scope in each.scopes_of(resource) and _may_mean(each, resource, catalogue):
            return each
    return None


def _may_mean(wanted: Wanted, resource: Resource, catalogue: Catalogue) -> bool:
    try:
        found = resolve_name(wanted.name, catalogue)
    except UnknownResource:
        found = ()
    if any(each.name == resource.name for each in found):
        return True
    try:
        return bool(resolve_name(wanted.name, _alone(resource)))
    except UnknownResource:
        return not found and may_be_short((wanted.name,))


def _alone(resource: Resource) -> Catalogue:
    """A catalogue with this resource only, so that the same rules decide as for a served resource."""
    version = GroupVersion(resource.group, resource.version, (Served(resource, resource.kind.lower()),))
    return Catalogue((Document("", None, (version,)),))


# ── Entries of select ────────────────────────────────────────────────────────


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


def meant(name: str, exported: Iterable[Resource], served: Catalogue | None) -> str:
    """The name of the resource among ``exported`` that ``name`` means by kubectl's rules; ``name`` itself if it means
    none or several. ``served``: the last discovery, if any, which has the short names of custom resources."""
    known = {each.resource.name: each for each in (served.served if served else ())}
    versions = [
        GroupVersion(resource.group, resource.version, (known.get(resource.name) or _remembered(resource),))
        for resource in exported
    ]
    try:
        found = {each.name for each in resolve_name(name, Catalogue((Document("", None, tuple(versions)),)))}
    except UnknownResource:
        return name
    return found.pop() if len(found) == 1 else name


def _remembered(resource: Resource) -> Served:
    return Served(resource, resource.kind.lower(), SHORT_NAMES.get(resource.name, ()))


# ── A change of the entries ──────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class ResourceChange:
    """Other entries, and the resources of the ledger under them."""

    wanted: Sequence[Wanted]
    resolution: Resolution
    former: Mapping[Resource, Sequence[Scope]]
    """The scopes that have informers."""
    scopes: Mapping[Resource, Sequence[Scope]]
    """The scopes that will have informers; none for a resource whose objects leave."""
    released: frozenset[str]
    """Names of resources whose informers end, and begin anew in scopes of theirs, if any."""


async def foresee(
    present: Sequence[Wanted], wanted: Sequence[Wanted], catalogue: Catalogue, ledger: Ledger
) -> ResourceChange:
    """Compares the entries ``present`` with ``wanted``."""
    resolution = resolve_wanted(wanted, catalogue)
    former, scopes, released = {}, {}, set()
    for resource in await ledger.resources():
        former[resource] = known = await ledger.scopes(resource.name)
        found: Sequence[Scope] = [scope for name, scope in resolution.desired if name == resource.name]
        scopes[resource] = found or absent_scopes(wanted, resolution, resource, catalogue, known)
        rules = rules_for(present, resource, catalogue), rules_for(wanted, resource, catalogue)
        ignored = [
            [ignored_by(each, resource, scope, catalogue) for scope in scopes[resource]] for each in (present, wanted)
        ]
        if set(known) != set(scopes[resource]) or rules[0] != rules[1] or ignored[0] != ignored[1]:
            released.add(resource.name)
    return ResourceChange(wanted, resolution, former, scopes, frozenset(released))
