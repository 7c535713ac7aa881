"""Simulates a small cluster: deployments roll and scale, pods crash and come back, a CRD appears and is used."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from bridge.playground.server import Playground
from bridge.playground.simulation import manifests
from bridge.playground.simulation.stories import CERTIFICATES, LEASES, NODES, Stories, Story

_NODES = ("node-a", "node-b", "node-c")
_DEPLOYMENTS = {"shop": ("web", "cart", "search"), "payments": ("ledger", "gateway"), "monitoring": ("metrics",)}
_AT_ONCE = 4
"""Stories that run at the same time."""

_SHORTEST_NAP = 0.01
"""Seconds. Above a hundred changes a second, each wake-up makes several."""
_LONGEST_BURST = 0.01
"""Seconds of changes without a nap."""
_NAP_FOR_WORK = 1
"""The least length of a nap, as a multiple of the time of the work before."""


@dataclass(slots=True)
class _RunningStory:
    """A running story, and the deployment that it holds ("" for none)."""

    story: Story
    held: str


class ClusterSimulation:
    """Changes the objects of a server over time. The same seed makes the same changes, unless other clients change the
    server's objects."""

    def __init__(self, server: Playground, *, rate: float = 20.0, seed: int = 0, definition_after: float = 3.0) -> None:
        """``rate`` is in changes per second; ``definition_after`` is the time until the CRD appears, in seconds."""
        self._server = server
        self._rate = rate
        self._random = Random(seed)
        self._stories = Stories(server, self._random)
        self._definition_after = definition_after
        self._running: list[_RunningStory] = []

    def populate(self) -> None:
        """Creates the initial cluster: nodes, and every deployment with all its pods up."""
        for node in _NODES:
            self._server.create(NODES, manifests.node(node), manager="kubelet")
            self._server.create(LEASES, manifests.lease(node, namespace="kube-node-lease", holder=node, seconds=40))
        for namespace, names in _DEPLOYMENTS.items():
            self._server.create("configmaps", manifests.config_map("settings", namespace=namespace))
            self._server.create("secrets", manifests.secret("database", namespace=namespace))
            for name in names:
                for _ in self._stories.deploy(namespace, name, self._random.randint(2, 4)):
                    pass

    async def run(self) -> None:
        """Makes changes until it is cancelled. An empty cluster is populated first."""
        if not self._server.list(NODES):
            self.populate()
        clock = asyncio.get_running_loop().time
        began, made, defined = clock(), 0, False
        while True:
            lived = clock() - began
            if not defined and lived >= self._definition_after:
                self.define()
                defined = True
            due = int(lived * self._rate) - made
            # Changes missed by a slow machine, or during a pause of the process, are skipped: the watchers need the
            # event loop as well.
            began_steps = clock()
            while due > 0 and clock() - began_steps < _LONGEST_BURST:
                self.step()
                due -= 1
            made = int(lived * self._rate)
            busy = clock() - began_steps
            await asyncio.sleep(max(1 / self._rate, _SHORTEST_NAP, busy * _NAP_FOR_WORK))

    def define(self) -> None:
        """Creates the CRD, so that stories of its objects can begin."""
        for _ in self._stories.define_certificates():
            pass

    def step(self) -> None:
        """Makes exactly one change."""
        while True:
            while len(self._running) < _AT_ONCE:
                self._begin()
            running = self._random.choice(self._running)
            try:
                return next(running.story)
            except StopIteration:
                self._running.remove(running)

    def _begin(self) -> None:
        stories = self._stories
        namespace = self._random.choice(list(_DEPLOYMENTS))
        held = {each.held for each in self._running}
        free = [name for name in _DEPLOYMENTS[namespace] if f"{namespace}/{name}" not in held]
        plain: list[Callable[[], Story]] = [
            stories.heartbeat,
            lambda: stories.reconfigure(namespace, "settings"),
            lambda: stories.rotate(namespace, "database"),
            lambda: stories.job(namespace),
        ]
        if any(kind.name == CERTIFICATES for kind in self._server.catalogue):
            plain.append(lambda: stories.certify(namespace))
        if free and self._random.random() < 0.6:
            name = self._random.choice(free)
            begin = self._random.choice((stories.roll, stories.scale, stories.crash))
            self._running.append(_RunningStory(begin(namespace, name), f"{namespace}/{name}"))
        else:
            self._running.append(_RunningStory(self._random.choice(plain)(), ""))
