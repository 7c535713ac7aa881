"""Foresees a change of the configuration, and carries it out in the running rooms.

The order is that of a start: cursors, pipelines, selections, informers. So the same code decides, exports deletes and
differences, and repairs a kill in the middle at the next start.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass

from bridge.app.watched_resources import WatchedResources
from bridge.delivery.backpressure import Backpressure
from bridge.delivery.selecting import Selecting
from bridge.delivery.sink_pipeline import RunningSinks
from bridge.kube import KubeClient
from bridge.model.resource import Resource
from bridge.outbox import Outbox, covering
from bridge.plan.cluster_view import ClusterRefuses, ClusterUnavailable, ClusterView, partition_of
from bridge.plan.difference import MOST_DELETES, SettingsDifference
from bridge.plan.entries import ResourceChange, mistakes_of
from bridge.plan.plan import CurrentResources, Plan, PlanRefused


class ChangeRefused(Exception):
    """A changed configuration does not take effect, for each of these reasons."""

    def __init__(
        self, problems: Sequence[str], *, deletes: Mapping[str, int] | None = None, is_final: bool = True
    ) -> None:
        """``deletes``: see Foreseen; those that need a confirmation. ``is_final``: False if a later attempt may succeed
        with the same file."""
        super().__init__(problems)
        self.problems = problems
        self.deletes = dict(deletes or {})
        self.is_final = is_final


@dataclass(frozen=True, slots=True)
class Foreseen:
    """The effect of another plan, before anything changes."""

    resources: ResourceChange
    deletes: Mapping[str, int]
    """Resource, or path of a selection → objects that would be exported as deleted."""


@dataclass(slots=True, kw_only=True)
class LiveChange:
    """The rooms of a running bridge, as far as a change concerns them."""

    plan: Plan
    """In effect."""
    client: KubeClient
    outbox: Outbox
    sinks: RunningSinks
    selecting: Selecting
    backlogs: Backpressure
    current: CurrentResources
    watched_resources: WatchedResources
    replacing: Callable[[], AbstractContextManager[None]]
    """Surrounds a change that ends informers and begins others."""

    async def foresee(self, plan: Plan, difference: SettingsDifference, allowed: int) -> Foreseen:
        """``allowed``: the deletes that the operator has confirmed. Raises ChangeRefused and Damaged."""
        change = await self.watched_resources.foresee(plan.wanted)
        catalogue = self.current.catalogue
        resolution = change.resolution
        mistakes = mistakes_of(resolution) + self.selecting.mistakes(plan.sinks, catalogue, resolution)
        if mistakes:
            raise ChangeRefused(mistakes)
        deletes = await self._departures(change) if difference.resources else {}
        known = {cursor.sink for cursor in self.outbox.sinks.all}
        selecting = [sink for sink in plan.sinks if sink.name in difference.selecting and sink.name in known]
        try:
            leaving = await self.selecting.count_leaving(selecting, catalogue, resolution)
        except PlanRefused as error:
            raise ChangeRefused([str(error)]) from error
        deletes |= {f"sinks.{sink}.select": count for sink, count in leaving.items() if count}
        total = sum(deletes.values())
        if total > max(MOST_DELETES, allowed):
            parts = ", ".join(f"{what}: {count}" for what, count in deletes.items())
            problem = (
                f"{total} objects would be exported as deleted ({parts}); more than {MOST_DELETES} need a confirmation:"
                f" if this is meant, run kubedelta reload --allow-deletes {total}"
            )
            raise ChangeRefused([problem], deletes=deletes)
        return Foreseen(change, deletes)

    async def _departures(self, change: ResourceChange) -> dict[str, int]:
        """Resource → number of objects that the change exports as deleted, for resources whose scopes change. Memory:
        the keys of one resource at a time."""
        found = {}
        for resource, scopes in change.scopes.items():
            if set(scopes) != set(change.former[resource]):
                keys = await self.outbox.ledger.keys(resource.name)
                found[resource.name] = await self._count(change, resource, keys)
        return {name: count for name, count in found.items() if count}

    async def _count(self, change: ResourceChange, resource: Resource, keys: Collection[str]) -> int:
        """The number of the objects with these keys in the ledger that no scope covers any more. Where a selector
        decides, the server is asked for the names that it chooses."""
        cluster = self.plan.cluster
        scopes = change.scopes[resource]
        whole = [scope for scope in scopes if not (scope.label_selector or scope.field_selector)]
        left = [key for key in keys if covering(whole, key) is None]
        chosen = [scope for scope in scopes if scope not in whole]
        served = {
            (name, scope): each
            for (name, scope), each in change.resolution.desired.items()
            if name == resource.name and scope in chosen
        }
        if not (left and served):
            # Without the resource on the server, its objects stay until further discoveries decide.
            return sum(covering(chosen, key) is None for key in left)
        try:
            live = await ClusterView(cluster, self.client, served).look()
        except (ClusterRefuses, ClusterUnavailable) as error:
            raise ChangeRefused([f"resources: {error}"], is_final=isinstance(error, ClusterRefuses)) from error
        return sum(partition_of(cluster, resource, key) not in live for key in left)

    async def apply(self, plan: Plan, difference: SettingsDifference, resources: ResourceChange) -> None:
        """Puts the plan into effect. Records in flight to sinks that change or go have ``grace_seconds``. Raises what a
        start raises; a cancelled change is completed by the next start."""
        async with self.sinks.lock:
            await self._apply(plan, difference, resources)

    @asynccontextmanager
    async def _restarting(self, resources: ResourceChange, released: Collection[str]) -> AsyncIterator[None]:
        # An informer whose batch waits for the backlog of a sink could not end.
        self.backlogs.release()
        try:
            with self.replacing():
                async with self.watched_resources.changing(resources, released=released):
                    yield
        finally:
            self.backlogs.hold()

    async def _apply(self, plan: Plan, difference: SettingsDifference, resources: ResourceChange) -> None:
        until = asyncio.get_running_loop().time() + plan.grace_seconds
        await self.sinks.end((*difference.removed, *difference.changed), by=until)
        if not (difference.resources or difference.selecting):
            await self._replace_sinks(plan, difference)
            return
        async with self._restarting(resources, self._released(difference, resources)):
            await self._replace_sinks(plan, difference)

    def _released(self, difference: SettingsDifference, resources: ResourceChange) -> Collection[str]:
        """The resources whose informers end before the change. While a difference of selections is exported, none may
        run: it moves objects that informers know."""
        if difference.selecting or self.outbox.selections.stored:
            return self.watched_resources.watched
        return resources.released

    async def _replace_sinks(self, plan: Plan, difference: SettingsDifference) -> None:
        for name in difference.removed:
            self.sinks.leave(name)
            self.outbox.sinks.end(name)
        begun = [sink for sink in plan.sinks if sink.name in (*difference.added, *difference.changed)]
        await self.outbox.sinks.begin(
            {sink.name: sink.start for sink in begun},
            [sink.name for sink in begun if sink.select is not None],
            before=plan.retention.before,
        )
        self.plan = plan
        self.sinks.begin(begun)
        self.backlogs.sinks_changed()
