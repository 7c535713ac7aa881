"""Facts of bridge.kube and bridge.plan: the connection, discovery and the cluster's identity."""

from __future__ import annotations

from bridge.telemetry.fact_log import FactLog
from bridge.telemetry.facts import Counts, Fact, Metric, ResourceFact

LEFT_OBJECTS = Metric(
    "scope_left_objects", "Objects exported as deleted because the configuration no longer covers them."
)


class ConnectionInsecure(Fact, frozen=True):
    """The configuration asks for a connection to the API server without encryption or verification. Reported once, at
    the start."""

    level = "warning"
    sentence = "connection to the API server is not secure"

    server: str
    reason: str


class CredentialsRead(Fact, frozen=True):
    """The files of the connection to the API server were read again, since they changed or the server refused. The last
    credentials stay in use where there is a ``problem``, which is reported once."""

    origin: str
    """The source of the connection's settings."""
    problem: str = ""

    def log(self, log: FactLog) -> None:
        if self.problem:
            text = "the credentials for the API server have changed, and the former ones stay in use"
            log.warning(text, origin=self.origin, reason=self.problem)
        else:
            log.info("new credentials for the API server are in use", origin=self.origin)


class PluginComplained(Fact, frozen=True):
    """A credential plugin ended, and had written to its standard error. The text may hold a secret."""

    level = "debug"
    sentence = "credential plugin complained"

    command: str
    text: str
    """The last few thousand characters of standard error."""


class DiscoveryFailed(Fact, frozen=True):
    counter = Metric("discovery_failures", "Discoveries that failed.")

    reason: str
    retry_after: float

    def log(self, log: FactLog) -> None:
        log.failure("discovery", "discovery failed", self.reason, retry_in=round(self.retry_after, 1))


class GroupStale(Fact, frozen=True):
    """The API server cannot discover this API group (its aggregated server is down). The group's resources of the last
    discovery are kept. Reported once for each such outage."""

    level = "warning"
    sentence = "the API server cannot discover this API group now; its known resources are kept"
    counter = Metric("discovery_stale_groups", "Times the API server could not discover an API group.")

    group: str
    """Group and version: ``metrics.k8s.io/v1beta1``."""
    reason: str


class DiscoveryRejected(Fact, frozen=True):
    """A name in a discovery document is invalid, and the bridge ignores its entry. Reported once, until the document
    changes."""

    level = "warning"
    sentence = "discovery has an entry with an invalid name; it is ignored"

    name: str
    """The name (escaped), its position in the document, and the expected form."""


class ResourceUnknown(Fact, frozen=True):
    """No resource of this cluster has this configured name (yet)."""

    name: str
    reason: str

    def log(self, log: FactLog) -> None:
        if log.change(("unknown", self.name), self.reason) != self.reason:
            text = "no resource has this name; it is looked up again at every discovery"
            log.warning(text, resource=self.name, reason=self.reason)


class ShardSelected(ResourceFact, frozen=True):
    """Whether the API server itself selects the objects of the bridge's shard: reported when that turns out first, and
    when it changes. Where it does not, the bridge drops the objects of other shards."""

    by_server: bool

    def log(self, log: FactLog) -> None:
        sent = "this shard alone" if self.by_server else "every shard; those of others are dropped"
        log.info(f"the API server sends the objects of {sent}", **self.named)


class ClusterChanged(Fact, frozen=True):
    """The state belonged to another cluster, and ``state.on_cluster_change`` is ``restart``: the bridge compares the
    state with this cluster, in a new epoch."""

    level = "warning"
    sentence = "the state belonged to another cluster; comparing it with this cluster, in a new epoch"
    counter = Metric("cluster_changes", "Times the state was found to belong to another cluster.")

    was: str
    now: str


class ClusterUnidentified(Fact, frozen=True):
    """The uid of the namespace kube-system cannot be read, so the bridge could not notice another cluster."""

    reason: str

    def log(self, log: FactLog) -> None:
        text = (
            "the cluster cannot be identified, so another cluster behind the same state would go unnoticed: "
            'grant the bridge\'s account the verb "get" on the namespace kube-system'
        )
        log.failure("cluster", text, self.reason)


class ScopeChanged(Fact, frozen=True):
    """Less of a resource is watched than before: the configuration changed, or the meaning of its names."""

    resource: str
    left: int
    """Objects that are no longer covered, and are exported as deleted."""

    def log(self, log: FactLog) -> None:
        text = "the configured scope changed; objects outside of it are exported as deleted"
        log.write("warning" if self.left else "info", text, resource=self.resource, left=self.left)

    def counts(self) -> Counts:
        yield (LEFT_OBJECTS,), self.left
