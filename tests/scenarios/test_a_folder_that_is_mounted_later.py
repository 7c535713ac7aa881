"""A sink whose folder is missing when the bridge starts, beside one that can be written to."""

from __future__ import annotations

from pathlib import Path

from bridge.playground import Playground
from bridge.playground.manifests import pod
from tests.kit.bridge_process import BridgeProcess
from tests.kit.received import from_file


async def test_the_other_sinks_do_not_wait_for_a_volume(tmp_path: Path) -> None:
    here, later = tmp_path / "here.ndjson", tmp_path / "volume" / "later.ndjson"
    config = {
        "cluster": {"name": "playground"},
        "resources": ["pods"],
        "sinks": {
            "here": {"type": "file", "path": str(here)},
            "later": {"type": "file", "path": str(later), "rotation": {}},
        },
    }
    async with Playground() as cluster:
        environ = {"KUBEDELTA__CLUSTER__SERVER": cluster.url}
        async with BridgeProcess(tmp_path / "bridge", config, environ=environ).started() as bridge:
            cluster.create("pods", pod("web"))
            await bridge.until_delivered("here")
            assert await bridge.ready()
            later.parent.mkdir()
            await bridge.until_delivered("later")

    assert from_file(later) == from_file(here)
    assert bridge.logged("later", "No such file or directory")
