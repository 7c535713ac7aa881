"""The plan of a run, in the types of the rooms. ``run`` makes it from a configuration file, ``demo`` in code.

``CurrentResources`` holds what has become of its resources on the cluster: the entries in effect, the last discovery,
and the resources that are watched by both. ``WatchedResources`` replaces them; informers, sinks and commands ask.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

import msgspec

from bridge.informer import RecoveryLimits, Timing
from bridge.kube import Catalogue, ClusterAccess
from bridge.model.formats.cloudevent import CloudEvents
from bridge.model.formats.content import ContentRequest
from bridge.model.policies import (
    BacklogBounds,
    LeaseTiming,
    OnRejected,
    RedactionPreset,
    RedactionRule,
    StartPolicy,
    WhenFull,
)
from bridge.model.primitives.field_path import FieldPath
from bridge.model.primitives.shard import Shard
from bridge.model.resource import Resource, ResourceName, Scope
from bridge.outbox import Retention
from bridge.views.selection import SelectorText
from config.schema import TracingSettings
from sinks.base import Claim, Lanes, Sink, Transactions, WrongOption


class PlanRefused(Exception):
    """The configuration cannot run on this cluster. The message has the path of the option."""


class Wanted(msgspec.Struct, frozen=True):
    """An entry of ``resources``."""

    name: str
    """kubectl's name, or a wildcard."""
    scopes: tuple[Scope, ...] = (Scope(),)
    """At least one."""
    redact: tuple[RedactionRule, ...] = ()
    """Rules for the objects of the resource, also for objects of its other entries."""
    ignore_changes: tuple[FieldPath, ...] = ()
    """Paths of which a change alone is not exported."""
    recover_steps: bool = True

    @property
    def is_wildcard(self) -> bool:
        return ResourceName.parsed(self.name).is_wildcard

    def meets(self, other: Wanted, resource: Resource) -> bool:
        """Whether an object of this resource may be in both entries."""
        scopes = product(self.scopes_of(resource), other.scopes_of(resource))
        return any(ours.meets(theirs) for ours, theirs in scopes)

    def scopes_of(self, resource: Resource) -> tuple[Scope, ...]:
        """The scopes, without namespaces if the resource has none."""
        if resource.namespaced:
            return self.scopes
        return tuple({Scope(None, each.label_selector, each.field_selector): None for each in self.scopes})


class SinkPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A sink: its type, and the policies of its delivery."""

    name: str
    type: str
    make: Callable[[], Sink]
    """Creates the sink anew for each attempt to open it. The first call imports its code, and blocks."""
    max_batch: int
    window: int = 5000
    resync_seconds: float = 0.0
    lanes: Lanes | None = None
    transactions: Transactions | None = None
    start: StartPolicy = StartPolicy.SNAPSHOT
    snapshot_every: float = 0.0
    """Seconds between two snapshots by schedule; 0 for none."""
    bounds: BacklogBounds = msgspec.field(default_factory=BacklogBounds)
    when_full: WhenFull = WhenFull.COMPACT
    on_rejected: OnRejected = OnRejected.PARK
    redact: tuple[RedactionRule, ...] = ()
    """Rules for what this sink gets, beside those for every sink."""
    select: tuple[SelectorText, ...] | None = None
    """The entries of its selection, as they are written; None for everything."""
    events: Callable[[], CloudEvents] | None = None
    """The encoder of its events, for people who watch; None for a sink whose records have another form."""
    content: ContentRequest = msgspec.field(default_factory=ContentRequest)
    """The content that its own options ask for."""
    clear_text: str | None = None
    """The credentials that would cross a network unencrypted, in words for the operator; None without any."""
    caution: str | None = None
    """The promise that its options give up, in words for the operator; None if they keep all."""
    examine: Callable[[], Sequence[WrongOption]] = tuple
    """Finds mistakes in its options, without asking the destination. Blocks."""
    against_shards: Callable[[Shard], Sequence[WrongOption]] = lambda _shard: ()
    """Finds options that do not go together with other bridges, each with a shard of the objects."""
    claims: Callable[[], Sequence[Claim]] = tuple
    """Its claims on files and topics. Blocks."""

    @property
    def most_in_flight(self) -> int:
        """Bound on records that are taken and not settled. Records in flight count against ``max_backlog`` and cannot
        be compacted any more, so at most half of the bound may be in flight."""
        return sys.maxsize if self.bounds.records is None else max(1, self.bounds.records // 2)


class PagePlan(msgspec.Struct, frozen=True):
    """The page: where it is served, and who may change something."""

    host: str
    port: int
    token_file: Path | None = None


class ElectionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """An election among several replicas."""

    namespace: str
    """Of the Lease; empty if neither the configuration nor a pod says it."""
    lease: str
    """Its name."""
    name: str
    """Of this replica."""
    timing: LeaseTiming
    port: int = 0
    """At which a leader serves its followers; 0 for any free one."""
    ack_timeout: float = 1.0
    """Seconds without an acknowledgement after which a follower is not in sync any more."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The whole plan. Times are in seconds."""

    cluster: str
    access: ClusterAccess
    wanted: tuple[Wanted, ...]
    shard: Shard | None = None
    """The part of all objects that the bridge has; None for all."""
    unknown_shard: str = ""
    """Why the shard is not known, so that no bridge can run; empty if it is known, or all objects are meant."""
    sinks: tuple[SinkPlan, ...]
    timing: Timing = msgspec.field(default_factory=Timing)
    watch_list: bool = True
    recovery: RecoveryLimits | None = None
    """Bounds on the recovery of steps that no watch announced; None for none."""
    idle_timeout: float = 90.0
    """Without a byte, until a watch is closed."""
    latency: float = 0.01
    """How long a change may wait for others; 0 for no wait."""
    discovery_seconds: float = 10.0
    """Between two discoveries."""
    state: Path
    """The state directory."""
    redaction_key_file: Path | None = None
    """None for a key in ``state``."""
    former_key_files: tuple[Path, ...] = ()
    presets: frozenset[RedactionPreset] = frozenset(RedactionPreset)
    redact: tuple[RedactionRule, ...] = ()
    """Rules for the objects of every resource."""
    retention: Retention = msgspec.field(default_factory=Retention)
    encryption_key_files: tuple[Path, ...] = ()
    """Of the content in ``state``, the key of new content first. Empty for no encryption."""
    encrypt_new: bool = True
    restart_on_cluster_change: bool = False
    grace_seconds: float = 20.0
    file: str = ""
    """The path of the configuration file, in the real path of its folder; empty without a file."""
    listen: tuple[str, int] | None = None
    """Host and port of /metrics, /healthz and /readyz."""
    details_token_file: Path | None = None
    """A file with the token for the details of /readyz."""
    tracing: TracingSettings | None = None
    """With an endpoint; None without traces."""
    page: PagePlan | None = None
    """None without a page."""
    election: ElectionPlan | None = None
    """None for a single replica, which always delivers."""


# ── The present resources ────────────────────────────────────────────────────


class CurrentResources:
    """Returns the watched resources when called; None before the first discovery."""

    def __init__(self, wanted: Sequence[Wanted] = ()) -> None:
        self.wanted = wanted
        self.catalogue = Catalogue()
        self._watched: tuple[Resource, ...] | None = None

    def __call__(self) -> Sequence[Resource] | None:
        return self._watched

    def replace(self, watched: Sequence[Resource]) -> None:
        self._watched = tuple(watched)
