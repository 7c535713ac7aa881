"""The effect of other entries of ``resources`` on a bridge that runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bridge.kube import Catalogue
from bridge.model.resource import Resource, Scope
from bridge.outbox import Ledger
from bridge.plan.plan import Wanted
from bridge.resources.resolve import Resolution, absent_scopes, ignored_by, resolve_wanted, rules_for


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
