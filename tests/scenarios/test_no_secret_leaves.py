"""Objects full of secrets, through a whole bridge: no secret is in a record, a dead letter, the state (plain or
encrypted), a log line, a metric or the output of a command."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import apsw
import httpx
import pytest

from bridge.model.primitives.packing import unpack
from tests.kit import planted
from tests.kit.bridge_process import BridgeProcess
from tests.kit.playground import Playground
from tests.kit.webhook_receiver import Answer, WebhookReceiver

ROUND = 200
"""Secrets for each state of the objects; not all of them are used."""
SECRETS = [f"hunter{number:03}" + "x" * 7 for number in range(3 * ROUND)]
TOKEN = "abcdef.0123456789abcdef"


def an_object(kind: str, secret: str, annotation: str, **members: Any) -> dict[str, Any]:
    annotations = {
        "kubectl.kubernetes.io/last-applied-configuration": json.dumps({"data": secret}),
        "objectset.rio.cattle.io/applied": secret,
        "example.com/auth-token": annotation,
    }
    return {"kind": kind, "metadata": {"name": "web", "namespace": "default", "annotations": annotations}, **members}


def objects(secrets: list[str]) -> dict[str, dict[str, Any]]:
    """A state of each object. The first ten secrets are for what has a place of its own."""
    more = iter(secrets[10:])
    shapes, members = list(planted.typed(lambda: next(more)).values()), planted.free(lambda: next(more))
    containers = [
        {
            "name": "web",
            "env": [
                {"name": "DB_PASSWORD", "value": secrets[0]},
                {"name": "URL", "value": f"redis://:{secrets[1]}@h"},
            ],
            "args": ["--token", secrets[2], f"--api-key={secrets[3]}"],
            "command": ["sh", "-c", f"run --password '{secrets[4]}'; PASSWORD={secrets[5]} go"],
        },
        *shapes,
    ]
    return {
        "pods": an_object("Pod", secrets[6], secrets[7], spec={"containers": containers, "joinToken": TOKEN}),
        "secrets": an_object(
            "Secret", secrets[6], secrets[7], type="Opaque", data={"a": base64.b64encode(secrets[8].encode()).decode()}
        ),
        "configmaps": an_object(
            "ConfigMap", secrets[6], secrets[7], data={"mine": secrets[9], "open": "seen"}, spec=members
        ),
    }


def found_in(text: bytes) -> list[str]:
    forms = {secret: (secret.encode(), base64.b64encode(secret.encode())) for secret in SECRETS}
    return [secret for secret, hidden in forms.items() if any(form in text for form in hidden)]


def state_of(bridge: BridgeProcess) -> bytes:
    """Everything in the database, with the bodies unpacked."""
    parts = []
    with apsw.Connection(str(bridge.state / "outbox.db"), flags=apsw.SQLITE_OPEN_READONLY) as state:
        tables = [name for (name,) in state.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        for table in tables:
            for row in state.execute(f"SELECT * FROM {table}"):
                for value in row:
                    packed = isinstance(value, bytes) and value[:4] == b"\x28\xb5\x2f\xfd"
                    parts.append(unpack(value) if packed else str(value).encode())
    return b"\n".join(parts)


def everything_in(directory: Path) -> bytes:
    return b"\n".join(each.read_bytes() for each in directory.rglob("*") if each.is_file())


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain state", "encrypted state"])
async def test_no_secret_is_found_anywhere(tmp_path: Path, encrypted: bool) -> None:
    key = tmp_path / "state.key"
    key.write_text("k" * 32)
    receiver = await WebhookReceiver().start()
    receiver.answer = lambda posted: Answer(413, body=posted.body)  # rejects, and says what it got
    async with Playground() as cluster:
        envelope: dict[str, Any] = {"format": "envelope", "include": ["before", "patch", "json_patch", "changed"]}
        files: dict[str, dict[str, Any]] = {"events": {"format": "cloudevents"}, "changes": envelope}
        sinks: dict[str, Any] = {
            name: {"type": "file", "path": str(tmp_path / f"{name}.jsonl"), **options}
            for name, options in files.items()
        }
        sinks["hook"] = {"type": "webhook", "url": receiver.url, "redact": ["data.open"], **envelope}
        rules = {"rules": ["spec.joinToken"]}
        config = {
            "cluster": {"name": "test", "server": cluster.url},
            "resources": ["pods", "secrets", {"resource": "configmaps", "redact": ["data.mine"]}],
            "sinks": sinks,
            "redaction": rules,
            "telemetry": {"log_level": "debug"},
        }
        if encrypted:
            config["state"] = {"encryption": {"key_files": [str(key)]}}
        bridge = BridgeProcess(tmp_path / "bridge", config)
        async with bridge.started():
            for resource, thing in objects(SECRETS[:ROUND]).items():
                cluster.create(resource, thing)
            await bridge.until_delivered()
            for renewed in (SECRETS[ROUND : 2 * ROUND], SECRETS[2 * ROUND :]):
                for resource, thing in objects(renewed).items():
                    cluster.patch(resource, "web", thing)
            cluster.delete("configmaps", "web")
            await bridge.until(
                "ten changes are dead letters",
                lambda metrics: metrics.value("sink_dead_letters", sink="hook") >= 10,
            )
            await bridge.until_delivered()
            async with httpx.AsyncClient(trust_env=False, verify=False) as http:
                asked = [
                    (await http.get(f"http://{bridge.address}/{path}")).content
                    for path in ("metrics", "readyz?verbose")
                ]
        told = [await bridge.kubedelta("dead-letters", "list", "--json")]
        told += [await bridge.kubedelta("dead-letters", "show", number, "--json") for number in "123"]
        letters, *shown = [(each.out + each.err).encode() for each in told]
    await receiver.stop()

    events = (tmp_path / "events.jsonl").read_bytes()
    changes = (tmp_path / "changes.jsonl").read_bytes()
    posted = b"\n".join(each.body for each in receiver.asked)
    state = everything_in(bridge.state) if encrypted else state_of(bridge)
    for each in (events, changes, posted, shown[0], *[state] * (not encrypted)):
        assert b"hmac-sha256:" in each
    assert events.count(b'"open":"seen"') >= 3
    for each in (posted, letters, *shown):
        assert b'"seen"' not in each
    for each in (events, changes, posted, state, bridge.log.read_bytes(), letters, *shown, *asked):
        assert found_in(each) == []
        assert TOKEN.encode() not in each
