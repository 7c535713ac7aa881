"""What the bridge is to do, in the types of its rooms. ``cli`` makes it from a configuration file; ``demo`` by hand."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

from bridge.informer import Timing
from bridge.kube import ClusterAccess
from bridge.model.policies import OnRejected, StartPolicy, WhenFull
from bridge.model.resource import Resource, Scope
from bridge.model.resource_name import ResourceName
from bridge.outbox import Bounds, Retention
from sinks.base import Claim, Lanes, Sink, WrongOption


class PlanRefused(Exception):
    """What is configured cannot be run on this cluster. The message names the configuration's path."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One entry of ``resources``."""

    name: str
    """As kubectl names it; may be a wildcard."""
    scopes: tuple[Scope, ...] = (Scope(),)
    """At least one."""

    @property
    def is_wildcard(self) -> bool:
        return ResourceName.parsed(self.name).is_wildcard

    def meets(self, other: Wanted, resource: Resource) -> bool:
        """Whether an object of this resource may be in both entries."""
        scopes = product(self.scopes_of(resource), other.scopes_of(resource))
        return any(ours.meets(theirs) for ours, theirs in scopes)

    def scopes_of(self, resource: Resource) -> tuple[Scope, ...]:
        """Namespaces fall away where the resource has none."""
        if resource.namespaced:
            return self.scopes
        return tuple({Scope(None, each.label_selector, each.field_selector): None for each in self.scopes})


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkPlan:
    name: str
    type: str
    make: Callable[[], Sink]
    """A new one for each attempt to open it."""
    max_batch: int
    window: int = 5000
    resync_seconds: float = 0.0
    lanes: Lanes | None = None
    start: StartPolicy = StartPolicy.SNAPSHOT
    bounds: Bounds = field(default_factory=Bounds)
    when_full: WhenFull = WhenFull.COMPACT
    on_rejected: OnRejected = OnRejected.PARK
    clear_text: str | None = None
    """Which of its credentials would cross a network unencrypted, in words for the operator."""
    examine: Callable[[], Sequence[WrongOption]] = tuple
    """What cannot work in its options, found without asking its destination. Blocks."""
    claims: Callable[[], Sequence[Claim]] = tuple
    """What it writes to. Blocks."""

    @property
    def most_in_flight(self) -> int:
        """Records that may be handed out and not settled. They count against ``max_backlog`` and nothing can shorten
        them any more: half of the bound is left for what waits."""
        return sys.maxsize if self.bounds.records is None else max(1, self.bounds.records // 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    cluster: str
    access: ClusterAccess
    wanted: tuple[Wanted, ...]
    sinks: tuple[SinkPlan, ...]
    timing: Timing = field(default_factory=Timing)
    watch_list: bool = True
    silence_seconds: float = 90.0
    discovery_seconds: float = 10.0
    """Between two looks at what the API server serves."""
    state: Path
    """The directory of what survives."""
    redaction_key_file: Path | None = None
    """None for a key in ``state``."""
    retention: Retention = field(default_factory=Retention)
    restart_on_cluster_change: bool = False
    grace_seconds: float = 20.0
    file: str = ""
    """The configuration's, by its real path; empty where there is none."""
    listen: tuple[str, int] | None = None
    """Host and port of /metrics, /healthz and /readyz."""
    details_token_file: Path | None = None
    """Whoever has its token may read the details there."""
