"""A sink with a selection beside a sink with everything, as processes: churn, kills and changed selections. Its file
always leads to the cluster's objects, filtered."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bridge.playground import Playground
from tests.cluster.kube_client import Manifest
from tests.kit.bridge_process import BridgeProcess
from tests.kit.commands import in_a_process
from tests.kit.received import from_file, rebuilt, received_lists

NAMES = [f"object-{number}" for number in range(12)]
TIERS = ("web", "db")

SELECTIONS: tuple[tuple[Any, Callable[[Manifest], bool]], ...] = (
    ([{"resource": "cm", "label_selector": "tier=web"}], lambda thing: thing["metadata"]["labels"]["tier"] == "web"),
    ([{"resource": "configmaps", "where": "int(object.data.n) > 4"}], lambda thing: int(thing["data"]["n"]) > 4),
    (
        [
            {"resource": "configmaps", "where": "int(object.data.n) > 4"},
            {"resource": "configmaps", "label_selector": "tier=db"},
        ],
        lambda thing: int(thing["data"]["n"]) > 4 or thing["metadata"]["labels"]["tier"] == "db",
    ),
    (None, lambda _: True),
    ([{"resource": "secrets"}], lambda _: False),
)


def config(cluster: Playground, folder: Path, select: Any) -> Mapping[str, Any]:
    view = {"type": "file", "path": str(folder / "view.ndjson")}
    return {
        "cluster": {"name": "testbed", "server": cluster.url},
        "resources": [{"resource": "configmaps", "namespaces": ["default"]}, "secrets"],
        "sinks": {
            "whole": {"type": "file", "path": str(folder / "whole.ndjson")},
            "view": view if select is None else {**view, "select": select},
        },
    }


def churn(cluster: Playground, chance: random.Random, steps: int) -> None:
    for _ in range(steps):
        name, there = chance.choice(NAMES), {each["metadata"]["name"]: each for each in objects(cluster)}
        labels, data = {"tier": chance.choice(TIERS)}, {"n": str(chance.randrange(10))}
        if name not in there:
            metadata = {"name": name, "namespace": "default", "labels": labels}
            cluster.create("configmaps", {"metadata": metadata, "data": data})
        elif chance.random() < 0.2:
            cluster.delete("configmaps", name)
        else:
            cluster.patch("configmaps", name, {"metadata": {"labels": labels}, "data": data})


def objects(cluster: Playground) -> list[Manifest]:
    return [each for each in cluster.list("configmaps", namespace="default") if each["metadata"]["name"] in NAMES]


def versions(things: list[Manifest]) -> dict[str, str]:
    return {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in things}


def held(file: Path) -> dict[str, str]:
    """The state of a consumer that has read the file."""
    return versions([each for each in rebuilt(received_lists(from_file(file))).values() if _is_ours(each)])


def _is_ours(thing: Manifest) -> bool:
    return thing["metadata"]["name"] in NAMES


async def test_the_file_of_a_sink_leads_to_the_selected_objects(tmp_path: Path) -> None:
    chance = random.Random(7)
    async with Playground() as cluster:
        churn(cluster, chance, 20)
        for number, (select, matches) in enumerate((*SELECTIONS, *SELECTIONS[:2])):
            bridge = BridgeProcess(tmp_path / "bridge", config(cluster, tmp_path, select))
            async with bridge.started():
                churn(cluster, chance, 30)
                if number % 2:
                    await asyncio.to_thread(bridge.kill9)
                    churn(cluster, chance, 10)
                    await asyncio.to_thread(bridge.start)
                await reached(bridge, tmp_path / "whole.ndjson", lambda: versions(objects(cluster)))
                await bridge.until_delivered()
            selected = [each for each in objects(cluster) if matches(each)]
            assert held(tmp_path / "view.ndjson") == versions(selected), select
            assert await verified(bridge, "view") == 0, select
            churn(cluster, chance, 10)

        wider = [{"resource": "configmaps"}]
        bridge.configure(config(cluster, tmp_path, wider))
        assert await verified(bridge, "view") == 1, "the file has the objects of another selection"

    received = received_lists(from_file(tmp_path / "view.ndjson"))
    assert {"watched", "unselected"} <= {each.evidence for each in received}
    contents: dict[tuple[int, str], int] = {}
    for each in received:
        assert contents.setdefault(each.unique_id, each.sequence) == each.sequence, each


async def verified(bridge: BridgeProcess, sink: str) -> int:
    """The exit code of ``kubedelta verify``."""
    words = ("verify", sink, "-c", str(bridge.config), "--settle", "500ms")
    done = await asyncio.to_thread(in_a_process, *words, environ=bridge.environ())
    print(done.out, done.err)
    return done.code


async def reached(bridge: BridgeProcess, file: Path, expected: Callable[[], dict[str, str]]) -> None:
    await bridge.until("the sink with everything has the cluster's state", lambda _: held(file) == expected())
