"""The rights that entries of ``resources`` need. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from bridge.kube import Catalogue, UnknownResource, resolve_name
from bridge.model.resource import LEASES, Resource, Scope
from bridge.model.resource_name import ResourceName
from bridge.plan.plan import ElectionPlan, Wanted

VERBS = ("list", "watch")
ANY = "*"


@dataclass(frozen=True, slots=True)
class Right:
    """Verbs on the objects of a resource, in the terms of a rule of RBAC."""

    group: str
    """``""`` for the core group, ``*`` for all groups."""
    resource: str
    """The plural, or ``*`` for all resources of the group."""
    namespace: str | None = None
    """None for the whole cluster."""
    name: str = ""
    """The only object that the right is for; empty for all objects. RBAC grants list and watch of a single name to
    requests with the field selector ``metadata.name``."""
    verbs: tuple[str, ...] = VERBS

    @classmethod
    def of(cls, resource: Resource, scope: Scope) -> Right:
        """To list and watch these objects."""
        return cls(resource.group, resource.plural, scope.namespace, scope.fixed_name or "")

    def __str__(self) -> str:
        resource = self.resource if self.group in ("", ANY) else f"{self.resource}.{self.group}"
        name = f" {self.name}" if self.name else ""
        where = f"in namespace {self.namespace}" if self.namespace else "in the whole cluster"
        return f"{', '.join(self.verbs)} {resource}{name} {where}"


IDENTITY = Right("", "namespaces", None, "kube-system", ("get",))
"""The uid of this namespace identifies the cluster."""


def election_rights(election: ElectionPlan | None, namespace: str = "") -> tuple[Right, ...]:
    """On the Lease; none without an election. RBAC cannot restrict a create to a name.
    ``namespace``: where the plan has none."""
    if election is None:
        return ()
    where = election.namespace or namespace
    lease = Right(LEASES.group, LEASES.plural, where, election.lease, ("get", "update", "watch"))
    return lease, replace(lease, name="", verbs=("create",))


class ClusterWide(Exception):
    """Roles of namespaces cannot grant this right. The message has the name of the entry."""


def rights_of(wanted: Wanted, catalogue: Catalogue) -> tuple[Right, ...]:
    """The rights that this entry needs: exactly its resources, scopes and fixed names.

    A wildcard needs its whole group, since later resources are watched as well. A resource that the cluster does not
    serve now must be written as ``plural.group``; else raises UnknownResource."""
    return tuple(dict.fromkeys(_rights(wanted, catalogue)))


def in_namespaces(name: str, rights: Iterable[Right]) -> Iterator[Right]:
    """The same rights, granted by Roles alone. Raises ClusterWide for the entry ``name`` whose objects may be in any
    namespace, or in none."""
    for right in rights:
        if right == IDENTITY:
            # The API server takes a namespace's own name for the namespace of the request.
            yield replace(right, namespace=right.name)
        elif right.namespace is None:
            raise ClusterWide(
                f"resources: {name}: a Role cannot grant {right}: name the namespaces of this entry, or leave out"
                " --namespaced"
            )
        else:
            yield right


def _rights(wanted: Wanted, catalogue: Catalogue) -> Iterator[Right]:
    parsed = ResourceName.parsed(wanted.name)
    try:
        resources = resolve_name(wanted.name, catalogue)
    except UnknownResource:
        if not wanted.is_wildcard and not parsed.group:
            raise
        resources = ()
    if not wanted.is_wildcard and resources:
        for scope in wanted.scopes_of(resources[0]):
            yield Right.of(resources[0], scope)
        return
    for scope in wanted.scopes:
        yield Right(parsed.group or ANY, parsed.word, scope.namespace, scope.fixed_name or "")
    if all(scope.namespace for scope in wanted.scopes):
        for resource in resources:
            if not resource.namespaced:  # No Role of a namespace grants these.
                for scope in wanted.scopes_of(resource):
                    yield Right.of(resource, scope)
