"""Names the rights that a configuration needs in its cluster, and no others; prints them as manifests, and asks the API
server which of them the bridge has.

``rights_of`` resolves an entry of ``resources`` against a catalogue, and ``election_rights`` adds those on the Lease.
``kubedelta rbac`` needs no cluster where ``built_in_catalogue`` serves: the names of Kubernetes' own resources mean the
same on every cluster, since no other group can claim them. ``manifests`` joins the rights to Roles and ClusterRoles of
rbac.authorization.k8s.io/v1, with their bindings. Only ``missing_of`` and ``who_am_i`` send requests.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeAlias

import yaml

from bridge.kube import ApiError, Catalogue, KubeClient, Served, UnknownResource, resolve_name
from bridge.kube.catalogue import Document, GroupVersion
from bridge.model.resource import LEASES, Resource, ResourceName, Scope
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


# ── Rights of a configuration ────────────────────────────────────────────────


def rights_of(wanted: Wanted, catalogue: Catalogue) -> tuple[Right, ...]:
    """The rights that this entry needs: exactly its resources, scopes and fixed names.

    A wildcard needs its whole group, since later resources are watched as well. A resource that the cluster does not
    serve now must be written as ``plural.group``; else raises UnknownResource."""
    return tuple(dict.fromkeys(_rights(wanted, catalogue)))


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


# ── Without a cluster ────────────────────────────────────────────────────────


@cache
def built_in_catalogue() -> Catalogue:
    """What a cluster without custom resources and aggregated API servers serves."""
    # Imported here: it brings the whole simulated API server along.
    from bridge.playground.objects.builtin import BUILT_IN

    versions = [
        GroupVersion(kind.group, version, (Served(kind.resource(version), kind.singular, kind.short_names),))
        for kind in BUILT_IN
        if kind.watchable
        for version in kind.versions
    ]
    return Catalogue((Document("", None, tuple(versions)),))


def is_built_in(wanted: Wanted) -> bool:
    """Whether the rights of this entry are known without a cluster. Those of a wildcard in namespaces are not: they
    depend on the resources under it that have no namespace."""
    if wanted.is_wildcard:
        return not all(scope.namespace for scope in wanted.scopes)
    try:
        resolve_name(wanted.name, built_in_catalogue())
    except UnknownResource:
        return False
    return True


def is_written_out(wanted: Wanted) -> bool:
    """Whether the entry can be taken for plural and group where no cluster can be asked."""
    return not wanted.is_wildcard and bool(ResourceName.parsed(wanted.name).group)


# ── Manifests ────────────────────────────────────────────────────────────────

Manifest: TypeAlias = Mapping[str, Any]
_API_GROUP = "rbac.authorization.k8s.io"
_ACCOUNT = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class Subject:
    """The account that gets the rights."""

    name: str
    namespace: str = ""
    """Of a ServiceAccount; empty for a user."""

    @classmethod
    def of_user(cls, name: str) -> Subject:
        """The subject behind an authenticated user's name."""
        if name.startswith(_ACCOUNT) and name.count(":") == 3:
            _, _, namespace, account = name.split(":")
            return cls(account, namespace)
        return cls(name)

    def manifest(self) -> Manifest:
        if self.namespace:
            return {"kind": "ServiceAccount", "name": self.name, "namespace": self.namespace}
        return {"kind": "User", "name": self.name, "apiGroup": _API_GROUP}


def manifests(rights: Iterable[Right], *, name: str, subject: Subject) -> str:
    """YAML documents: a ClusterRole for rights in the whole cluster, a Role in each namespace of the others, each with
    its binding. All have the same ``name``. The order of the rights is kept."""
    by_namespace: dict[str | None, list[Right]] = defaultdict(list)
    for right in dict.fromkeys(rights):
        by_namespace[right.namespace].append(right)
    documents = [
        document
        for namespace, of_namespace in by_namespace.items()
        for document in _role_and_binding(namespace, of_namespace, name, subject)
    ]
    return yaml.safe_dump_all(documents, sort_keys=False).rstrip("\n")


def _role_and_binding(
    namespace: str | None, rights: Iterable[Right], name: str, subject: Subject
) -> tuple[Manifest, Manifest]:
    kind = "ClusterRole" if namespace is None else "Role"
    metadata = {"name": name} if namespace is None else {"name": name, "namespace": namespace}
    role = {
        "apiVersion": f"{_API_GROUP}/v1",
        "kind": kind,
        "metadata": metadata,
        "rules": _rules(rights),
    }
    binding = {
        "apiVersion": f"{_API_GROUP}/v1",
        "kind": f"{kind}Binding",
        "metadata": dict(metadata),
        "roleRef": {"apiGroup": _API_GROUP, "kind": kind, "name": name},
        "subjects": [subject.manifest()],
    }
    return role, binding


def _rules(rights: Iterable[Right]) -> list[Manifest]:
    """A rule for all resources of a group that share verbs and object name."""
    resources: dict[tuple[str, str, tuple[str, ...]], list[str]] = defaultdict(list)
    for right in rights:
        resources[right.group, right.name, right.verbs].append(right.resource)
    return [
        {
            "apiGroups": [group],
            "resources": names,
            **({"resourceNames": [name]} if name else {}),
            "verbs": list(verbs),
        }
        for (group, name, verbs), names in resources.items()
    ]


# ── Questions to the API server ──────────────────────────────────────────────


async def missing_of(client: KubeClient, rights: Iterable[Right]) -> list[Right]:
    """The rights that are not granted, each with its missing verbs. Raises ApiError."""
    missing = []
    for right in rights:
        verbs = [verb for verb in right.verbs if not await _may(client, verb, right)]
        if verbs:
            missing.append(replace(right, verbs=tuple(verbs)))
    return missing


async def _may(client: KubeClient, verb: str, right: Right) -> bool:
    return await client.can_i(
        verb, group=right.group, resource=right.resource, namespace=right.namespace, name=right.name
    )


async def who_am_i(client: KubeClient) -> Subject | None:
    """The account of the bridge's credentials; None where the API server does not say (Kubernetes before 1.28)."""
    try:
        return Subject.of_user(await client.user_name())
    except ApiError:
        return None
