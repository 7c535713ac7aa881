"""Facts of bridge.kube and bridge.plan: the connection, discovery and the cluster's identity."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from bridge.model.resource import Resource, Scope


class ConnectionInsecure(msgspec.Struct, frozen=True):
    """The configuration asks for a connection to the API server without encryption or verification. Reported once, at
    the start."""

    server: str
    reason: str


class CredentialsRead(msgspec.Struct, frozen=True):
    """The files of the connection to the API server were read again, since they changed or the server refused. The last
    credentials stay in use where there is a ``problem``, which is reported once."""

    origin: str
    """The source of the connection's settings."""
    problem: str = ""


class PluginComplained(msgspec.Struct, frozen=True):
    """A credential plugin ended, and had written to its standard error. The text may hold a secret."""

    command: str
    text: str
    """The last few thousand characters of standard error."""


class DiscoveryFailed(msgspec.Struct, frozen=True):
    reason: str
    retry_after: float


class GroupStale(msgspec.Struct, frozen=True):
    """The API server cannot discover this API group (its aggregated server is down). The group's resources of the last
    discovery are kept. Reported once for each such outage."""

    group: str
    """Group and version: ``metrics.k8s.io/v1beta1``."""
    reason: str


class DiscoveryRejected(msgspec.Struct, frozen=True):
    """A name in a discovery document is invalid, and the bridge ignores its entry. Reported once, until the document
    changes."""

    name: str
    """The name (escaped), its position in the document, and the expected form."""


class ResourceUnknown(msgspec.Struct, frozen=True):
    """No resource of this cluster has this configured name (yet)."""

    name: str
    reason: str


class ShardSelected(msgspec.Struct, frozen=True):
    """Whether the API server itself selects the objects of the bridge's shard: reported when that turns out first, and
    when it changes. Where it does not, the bridge drops the objects of other shards."""

    resource: Resource
    scope: Scope
    by_server: bool


class ClusterChanged(msgspec.Struct, frozen=True):
    """The state belonged to another cluster, and ``state.on_cluster_change`` is ``restart``: the bridge compares the
    state with this cluster, in a new epoch."""

    was: str
    now: str


class ClusterUnidentified(msgspec.Struct, frozen=True):
    """The uid of the namespace kube-system cannot be read, so the bridge could not notice another cluster."""

    reason: str


class ScopeChanged(msgspec.Struct, frozen=True):
    """Less of a resource is watched than before: the configuration changed, or the meaning of its names."""

    resource: str
    left: int
    """Objects that are no longer covered, and are exported as deleted."""


ClusterFact: TypeAlias = (
    ConnectionInsecure
    | CredentialsRead
    | PluginComplained
    | DiscoveryFailed
    | GroupStale
    | DiscoveryRejected
    | ResourceUnknown
    | ShardSelected
    | ClusterChanged
    | ClusterUnidentified
    | ScopeChanged
)
