"""A bridge in this process, on a playground."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bridge.app.bridge import Bridge
from bridge.informer import Timing
from bridge.kube import ClusterAccess
from bridge.model.status import ElectionState
from bridge.plan.plan import Plan, SinkPlan, Wanted
from bridge.telemetry.facts import Fact
from tests.kit.deadlines import until
from tests.kit.playground import Playground

QUICK = Timing(
    backoff_initial=0.01,
    backoff_maximum=0.05,
    refused=0.05,
    refusal_backoff_maximum=0.05,
    not_served=0.05,
    very_short=0.0,
)


def a_config_map(name: str, value: str = "1", namespace: str = "default", **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace, "labels": labels}, "data": {"value": value}}


def a_bridge(
    cluster: Playground,
    facts: list[Fact],
    state: Path,
    sinks: Sequence[SinkPlan],
    wanted: tuple[Wanted, ...] = (Wanted("configmaps"),),
    **plan: Any,
) -> Bridge:
    """Waits for nothing long. ``plan``: further fields of the Plan."""
    quick: dict[str, Any] = {"timing": QUICK, "discovery_seconds": 0.05, "grace_seconds": 5.0}
    access = ClusterAccess(server=cluster.url)
    whole = Plan(cluster="test", access=access, wanted=wanted, sinks=tuple(sinks), state=state, **(quick | plan))
    return Bridge(whole, facts.append)


class World:
    """A playground, and a bridge on it that can be asked how it stands."""

    def __init__(self, cluster: Playground, bridge: Bridge, facts: list[Fact]) -> None:
        self.cluster = cluster
        self.bridge = bridge
        self.facts = facts
        self._task: asyncio.Task[None] | None = None

    @property
    def leads(self) -> bool:
        election = self.bridge.status().election
        return election is not None and election.state is ElectionState.LEADING

    async def until_ready(self) -> None:
        await until(lambda: self.bridge.status().ready)

    def watched(self) -> set[tuple[str, str]]:
        """Resources and scopes that have an informer."""
        return {(each.resource, each.scope) for each in self.bridge.status().informers if each.state != "unknown"}

    def reported(self, kind: type[Any]) -> list[Any]:
        return [fact for fact in self.facts if isinstance(fact, kind)]
