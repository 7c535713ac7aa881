"""Sinks whose records an expression makes, as processes: a record that cannot be made waits as a dead letter until the
expression is right."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bridge.playground import Playground
from bridge.playground.manifests import config_map
from tests.kit.bridge_process import BridgeProcess
from tests.kit.webhook_receiver import WebhookReceiver


def config(cluster: Playground, receiver: WebhookReceiver, file: Path, data: str) -> Mapping[str, Any]:
    hook = {"url": f"{receiver.url}/{{object.metadata.name}}?by={{object.data.?by.orValue('')}}", "data": data}
    return {
        "cluster": {"name": "testbed", "server": cluster.url},
        "resources": [{"resource": "configmaps", "namespaces": ["default"]}],
        "sinks": {
            "hook": {"type": "webhook", "format": "raw", "redact": ["data.secret"], **hook},
            "copy": {"type": "file", "path": str(file), "format": "raw", "data": "object.data.n + ' ' + op"},
        },
    }


async def test_what_cannot_be_made_waits_for_the_right_expression(tmp_path: Path) -> None:
    async with Playground() as cluster, WebhookReceiver(any_path=True) as receiver:
        first = "{'n': object.data.n, 'was': oldObject == null ? '' : oldObject.data.n, 'secret': object.data.secret}"
        bridge = BridgeProcess(tmp_path / "bridge", config(cluster, receiver, tmp_path / "copy", first))
        async with bridge.started():
            cluster.create("configmaps", config_map("a", {"n": "1", "secret": "hunter2", "by": "x&y/z"}))
            cluster.create("configmaps", config_map("b", {"n": "1"}))
            cluster.patch("configmaps", "a", {"data": {"n": "2"}})
            cluster.patch("configmaps", "b", {"data": {"n": "2", "secret": "hunter2"}})
            await bridge.until("b waits", lambda now: now.value("sink_dead_letters", sink="hook") == 2)
            await bridge.until_delivered()
            await bridge.until("the file has all", lambda _: len((tmp_path / "copy").read_text().splitlines()) == 4)
        early = list(receiver.accepted)
        letters = (await bridge.kubedelta("dead-letters", "list")).out

        right = "{'n': object.data.n, 'was': oldObject == null ? '' : oldObject.data.n, 'op': op}"
        bridge.configure(config(cluster, receiver, tmp_path / "copy", right))
        async with bridge.started():
            assert "2" in (await bridge.kubedelta("dead-letters", "retry", "hook", "--all")).out
            await bridge.until("b is there", lambda _: len(receiver.accepted) == 4)
        late = receiver.accepted[2:]

    assert [each.target for each in early] == ["/hook/a?by=x%26y/z"] * 2
    assert [json.loads(each.body)["was"] for each in early] == ["", "1"]
    assert all(json.loads(each.body)["secret"].startswith("hmac-sha256:") for each in early)
    assert 'data: the member "secret" is missing' in letters
    assert [(each.target, json.loads(each.body)) for each in late] == [
        ("/hook/b?by=", {"n": "1", "was": "", "op": "added"}),
        ("/hook/b?by=", {"n": "2", "was": "1", "op": "updated"}),
    ]
    assert sorted((tmp_path / "copy").read_text().splitlines()) == ["1 added", "1 added", "2 updated", "2 updated"]
    assert "hunter2" not in bridge.log.read_text()
