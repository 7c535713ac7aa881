"""``recipes/khi``, as it stands: after changes and kills its lines, read by KHI's rules, lead to a fresh list.

KHI itself was run by hand: it can be had from no package registry.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from bridge.playground.manifests import deployment, pod, pod_status
from tests.cluster.kube_client import Manifest
from tests.documents.pages import read
from tests.kit.bridge_process import BridgeProcess
from tests.kit.playground import Playground

[CONFIG] = re.findall(r"```yaml\n(.*?)```", read("recipes/khi/README.md"), re.DOTALL)

Place = tuple[str, ...]
"""API group, version, resource, namespace and name."""
Objects = Mapping[Place, Any]


def change(cluster: Playground, chance: random.Random) -> None:
    """One of a few objects comes, changes or goes; what goes may come again at once."""
    name, phase = f"web-{chance.randrange(4)}", chance.choice(("Pending", "Running", "Failed"))
    resource, manifest, patch = chance.choice(
        [
            ("deployments.apps", deployment(name), {"spec": {"replicas": chance.randrange(9)}}),
            ("pods", pod(name, node="node-1", phase=phase), {"status": pod_status(phase)}),
        ]
    )
    if name not in {each["metadata"]["name"] for each in cluster.list(resource)}:
        cluster.create(resource, manifest)
    elif chance.random() < 0.6:
        cluster.patch(resource, name, patch)
    else:
        cluster.delete(resource, name)
        if chance.random() < 0.5:
            cluster.create(resource, manifest)


def event(name: str) -> Manifest:
    about = {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "web-1"}
    return {"metadata": {"name": name}, "involvedObject": about, "reason": "Killing"}


def timelines(file: Path) -> Mapping[Place, Sequence[Any]]:
    """The lines, as KHI takes them of an audit log of any cluster, and where it puts them."""
    found: defaultdict[Place, dict[str, Any]] = defaultdict(dict)
    for line in map(json.loads, file.read_text().splitlines()):
        assert (line["kind"], line["stage"], line["responseStatus"]["code"]) == ("Event", "ResponseComplete", 200)
        of = line["objectRef"]
        place = (of.get("apiGroup", "core"), of["apiVersion"], of["resource"], of.get("namespace", ""), of["name"])
        found[place].setdefault(line["auditID"], line)  # Behind a kill the last lines may come again.
    return {place: list(lines.values()) for place, lines in found.items()}


def states(objects: Objects) -> Objects:
    return {
        place: (each["metadata"]["uid"], each["metadata"]["resourceVersion"], each["spec"], each.get("status"))
        for place, each in objects.items()
    }


async def test_after_changes_and_kills_the_lines_lead_to_a_fresh_list(tmp_path: Path) -> None:
    config = yaml.safe_load(CONFIG)
    sink = config["sinks"]["timeline"]
    sink["path"] = str(tmp_path / sink["path"])
    chance = random.Random(7)
    async with Playground() as cluster:
        config["cluster"]["server"] = cluster.url
        bridge = BridgeProcess(tmp_path / "bridge", config)
        for kill in range(4):
            await asyncio.to_thread(bridge.start)
            for _ in range(25):
                change(cluster, chance)
                await asyncio.sleep(0)
            cluster.create("events", event(f"killing-{kill}"))
            if kill % 2:
                await bridge.until_delivered()
            bridge.kill9()
            for _ in range(10):
                change(cluster, chance)
            cluster.delete("events", f"killing-{kill}")
        cluster.create("events", event("last"))
        async with bridge.started():
            for resource in ("pods", "deployments.apps", "events"):
                await bridge.until_live(resource)
            await bridge.until_delivered()
        fresh: Objects = {
            (*place, each["metadata"]["namespace"], each["metadata"]["name"]): each
            for place in (("core", "v1", "pods"), ("apps", "v1", "deployments"))
            for each in cluster.list(place[-1] if place[0] == "core" else "deployments.apps")
        }
    found = timelines(tmp_path / "audit.ndjson")
    for lines in found.values():
        assert sorted({line["stageTimestamp"] for line in lines}) == [line["stageTimestamp"] for line in lines]
    events = [line["verb"] for place, lines in found.items() for line in lines if "events" in place]
    assert events
    assert "delete" not in events
    last = {
        place: lines[-1]["responseObject"]
        for place, lines in found.items()
        if lines[-1]["verb"] != "delete" and "events" not in place
    }
    assert states(last) == states(fresh)
