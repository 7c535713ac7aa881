"""Objects exported as deleted while they existed, and exported again: consumers drop a record with the id of something
reported."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from bridge.model.formats.cloudevent import CloudEvents
from bridge.model.record import Delta
from bridge.model.resource import Scope
from bridge.plan.plan import Wanted
from bridge.telemetry.facts.informer import InformerStopped
from tests.bridge.app.test_bridge import DEFINITIONS, a_definition
from tests.bridge.app.test_restart import Run, life
from tests.kit.bridges import a_config_map
from tests.kit.deadlines import until
from tests.kit.playground import Playground

DEFAULT, PUBLIC = Scope("default"), Scope("kube-public")
BOTH = (Wanted("configmaps", (DEFAULT, PUBLIC)),)
ONE = (Wanted("configmaps", (DEFAULT,)),)
SECRETS = (Wanted("secrets", (DEFAULT,)),)
WIDGETS = (Wanted("widgets.example.test", (DEFAULT,)),)


class Consumer:
    """Knows a repetition by source and id, as CloudEvents say, and drops it."""

    def __init__(self) -> None:
        self.state: dict[str, bytes] = {}
        self.dropped: list[str] = []
        self._events = CloudEvents("test")
        self._seen: set[tuple[str, str]] = set()

    def hear(self, deltas: Iterable[Delta]) -> None:
        for delta in deltas:
            event = json.loads(self._events.structured(delta))
            if (identity := (event["source"], event["id"])) in self._seen:
                self.dropped.append(f"{delta.op} {delta.key}")
                continue
            self._seen.add(identity)
            if event["op"] == "deleted":
                del self.state[delta.key]
            else:
                self.state[delta.key] = delta.body


async def until_received(run: Run, deltas: int) -> None:
    await run.sink.until(lambda sink: len(sink.deltas) == deltas)


async def test_parts_and_resources_leave_the_configuration_and_return(tmp_path: Path) -> None:
    consumer = Consumer()
    async with Playground(bookmark_interval=0.2) as cluster:
        for namespace in ("default", "kube-public"):
            cluster.create("configmaps", a_config_map("a", namespace=namespace))
        for wanted, known in (
            (BOTH, {"default/a", "kube-public/a"}),
            (ONE, {"default/a"}),
            (BOTH, {"default/a", "kube-public/a"}),
            (SECRETS, set()),
            (BOTH, {"default/a", "kube-public/a"}),
            (ONE, {"default/a"}),
            (BOTH, {"default/a", "kube-public/a"}),
        ):
            async with life(tmp_path, cluster, wanted) as run:
                pass
            consumer.hear(run.sink.deltas)
            assert consumer.state.keys() == known

    assert consumer.dropped == []


async def test_a_resource_that_was_away_with_its_objects_is_back(tmp_path: Path) -> None:
    """As an aggregated API whose server was down: nothing happened to what it serves."""
    consumer = Consumer()
    async with Playground(bookmark_interval=0.2) as cluster:
        cluster.create(DEFINITIONS, a_definition())
        cluster.create("widgets.example.test", {"metadata": {"name": "a", "namespace": "default"}, "spec": {}})
        there = cluster.snapshot()
        async with life(tmp_path, cluster, WIDGETS) as run:
            for times in (1, 2):
                cluster.delete(DEFINITIONS, "widgets.example.test")
                await until_received(run, 2 * times)
                await until(lambda: len(run.reported(InformerStopped)) == times)  # noqa: B023
                cluster.restore(there)
                await until_received(run, 2 * times + 1)
    consumer.hear(run.sink.deltas)

    assert run.sink.delivered() == ["added default/a", *["deleted default/a", "added default/a"] * 2]
    assert len({(delta.uid, delta.resource_version) for delta in run.sink.deltas if delta.op == "added"}) == 1
    assert consumer.state.keys() == {"default/a"}
    assert consumer.dropped == []
