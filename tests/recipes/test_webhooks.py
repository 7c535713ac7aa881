"""``recipes/webhooks``, as it stands: after changes and kills each destination has every step, and a fresh list by the
newest of each object."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import yaml

from bridge.playground.manifests import deployment
from tests.cluster.servers.ports import reserve_port
from tests.cluster.servers.process import Server, listens, says_ok
from tests.documents.pages import read
from tests.kit.bridge_process import BridgeProcess
from tests.kit.churn import comes_or_goes
from tests.kit.playground import Playground
from tests.kit.webhook_receiver import Answer, Posted, WebhookReceiver

PAGE = [
    yaml.safe_load(each) for each in re.findall(r"```yaml\n(.*?)```", read("recipes/webhooks/README.md"), re.DOTALL)
]
[BASE] = [each for each in PAGE if "resources" in each]
[COLLECTOR] = [each for each in PAGE if "receivers" in each]
SINKS: dict[str, Any] = {name: options for each in PAGE for name, options in each.get("sinks", {}).items()}
KILLS = 4


class Step(NamedTuple):
    op: str
    name: str
    uid: str
    version: str


class VictoriaLogs(Server):
    def __init__(self, folder: Path, build: Path) -> None:
        super().__init__(folder)
        self._binary = build / "victoria-logs"
        self._address = f"127.0.0.1:{reserve_port()}"
        self.url = f"http://{self._address}"

    def command(self) -> Sequence[str | Path]:
        return [self._binary, f"-httpListenAddr={self._address}", f"-storageDataPath={self.folder / 'data'}"]

    def is_ready(self) -> bool:
        return says_ok(f"{self.url}/health")

    def entries(self, sink: str) -> list[dict[str, str]]:
        """What came from a sink, which names itself in a header."""
        httpx.get(f"{self.url}/internal/force_flush").raise_for_status()
        answer = httpx.get(f"{self.url}/select/logsql/query", params={"query": f"sink:={sink}", "limit": 100_000})
        answer.raise_for_status()
        return [json.loads(line) for line in answer.text.splitlines()]


class Collector(Server):
    def __init__(self, folder: Path, build: Path) -> None:
        super().__init__(folder)
        self._binary = build / "otelcol"
        self._port = reserve_port()
        self.url = f"http://127.0.0.1:{self._port}"
        # With metrics, it would listen on a second port.
        service = COLLECTOR["service"] | {"telemetry": {"metrics": {"level": "none"}}}
        text = yaml.safe_dump(COLLECTOR | {"service": service})
        (folder / "collector.yaml").write_text(text.replace("127.0.0.1:4318", f"127.0.0.1:{self._port}"))

    def command(self) -> Sequence[str | Path]:
        return [self._binary, "--config=file:collector.yaml"]

    def is_ready(self) -> bool:
        return listens(self._port)

    def entries(self) -> list[dict[str, str]]:
        """The attributes and the time of each record, and the attributes of its resource."""
        written = (self.folder / COLLECTOR["exporters"]["file"]["path"]).read_text()
        return [
            {
                each["key"]: each["value"]["stringValue"]
                for each in (*of["resource"]["attributes"], *found["attributes"])
            }
            | {"_time": datetime.fromtimestamp(int(found["timeUnixNano"]) / 1e9, UTC).isoformat()}
            for line in written.splitlines()
            for of in json.loads(line)["resourceLogs"]
            for scope in of["scopeLogs"]
            for found in scope["logRecords"]
        ]


def options_here(folder: Path, store: VictoriaLogs, collector: Collector, receiver: WebhookReceiver) -> dict[str, Any]:
    """The sinks of the page, and one more for bulks, with addresses and credentials of here."""
    (folder / "credential").write_text("hunter2\n")
    here = receiver.url.removesuffix("/hook")
    at = {"loki": f"{store.url}/insert", "splunk": store.url, "bulk": f"{store.url}/insert/elasticsearch"}
    at |= {"otlp": collector.url, "teams": here, "slack": here, "pairs": here}
    found = {}
    for name, options in (SINKS | {"pairs": SINKS["bulk"]}).items():
        files = {file: str(folder / "credential") for file in options if file.endswith("_file")}
        secret = {header: str(folder / "credential") for header in options.get("header_files", {})}
        path = options["url"].removeprefix("http://").partition("/")[2]
        found[name] = options | files | {"url": f"{at[name]}/{path}", "header_files": secret}
        if "rate" in options:
            found[name]["rate"] = {"requests": 10_000}
        if at[name].startswith(store.url):
            found[name]["headers"] = {"VL-Extra-Fields": f"sink={name}", "VL-Time-Field": "@timestamp,time"}
    return found


def change(cluster: Playground, chance: random.Random, number: int) -> Step:
    """One of a few Deployments comes, changes or goes."""
    name = f"web-{chance.randrange(6)}"
    made = comes_or_goes(cluster, chance, "deployments.apps", deployment(name, replicas=number))
    return Step(made.op, name, made.uid, made.resource_version)


def newest(steps: Iterable[Step]) -> set[tuple[str, str, str]]:
    """Name, uid and version of what exists by these steps."""
    last = {each.name: each for each in sorted(steps, key=lambda each: int(each.version))}
    return {(each.name, each.uid, each.version) for each in last.values() if each.op != "deleted"}


def read_steps(
    entries: Iterable[Mapping[str, str]], prefix: str = "", *, time: str = "_time", **names: str
) -> dict[Step, datetime]:
    """When each step was, by entries whose members have a prefix, or other names."""
    members = {"op": "op", "name": "name", "uid": "uid", "resource_version": "resource_version", **names}
    return {
        Step(*(each[f"{prefix}{member}"] for member in members.values())): datetime.fromisoformat(each[time])
        for each in entries
    }


def documents(posted: Sequence[Posted]) -> dict[str, dict[str, Any]]:
    """Bulks, read as strictly as Elasticsearch does: pairs of lines, each ended. Id → document."""
    found = {}
    for each in posted:
        assert (each.headers["content-type"], each.content[-1:]) == ("application/x-ndjson", b"\n")
        lines = [json.loads(line) for line in each.content[:-1].split(b"\n")]
        for action, document in zip(lines[::2], lines[1::2], strict=True):
            assert action.keys() == {"index"}
            assert action["index"].keys() == {"_index", "_id"}
            assert len(action["index"]["_id"]) <= 512
            found[action["index"]["_id"]] = document
    return found


def carded(message: dict[str, Any]) -> tuple[str, str]:
    """A message with an Adaptive Card, as a workflow of Teams takes it: what happened to which Deployment."""
    assert message.keys() == {"type", "attachments"}
    [attachment] = message["attachments"]
    assert (message["type"], attachment["contentType"]) == ("message", "application/vnd.microsoft.card.adaptive")
    card = attachment["content"]
    assert card.keys() == {"$schema", "type", "version", "body"}
    title, facts = card["body"]
    assert (card["type"], title["type"], facts["type"]) == ("AdaptiveCard", "TextBlock", "FactSet")
    assert all(each.keys() == {"title", "value"} for each in facts["facts"])
    said = {each["title"]: each["value"] for each in facts["facts"]}
    return title["text"].removeprefix("Deployment "), said["Name"]


def said(message: dict[str, Any]) -> tuple[str, str]:
    """The same of an incoming webhook of Slack."""
    assert message.keys() == {"text", "blocks"}
    [block] = message["blocks"]
    assert (block["type"], block["text"]["type"]) == ("section", "mrkdwn")
    assert 0 < len(block["text"]["text"]) <= 3000
    _, name, op = message["text"].split()
    return op, name


async def test_after_changes_and_kills_each_destination_has_every_step(
    victoria_logs_build: Path, otel_collector_build: Path, tmp_path: Path
) -> None:
    chance, steps = random.Random(5), set[Step]()
    async with Playground() as cluster, WebhookReceiver(any_path=True) as receiver:
        receiver.answer = lambda posted: Answer(200, body=b'{"took":1,"errors":false,"items":[]}')
        with (
            VictoriaLogs(tmp_path / "store", victoria_logs_build) as store,
            Collector(tmp_path / "collector", otel_collector_build) as collector,
        ):
            here = {"cluster": BASE["cluster"] | {"server": cluster.url}}
            sinks = options_here(tmp_path, store, collector, receiver)
            bridge = BridgeProcess(tmp_path / "bridge", BASE | here | {"sinks": sinks})
            for kill in range(KILLS):
                await asyncio.to_thread(bridge.start)
                await bridge.until_live("deployments.apps")
                for number in range(25):
                    steps.add(change(cluster, chance, 100 * kill + number))
                    await asyncio.sleep(0)
                if kill % 2:
                    await bridge.until_delivered()
                bridge.kill9()
                steps.add(change(cluster, chance, 100 * kill + 99))
            async with bridge.started():
                await bridge.until_live("deployments.apps")
                await bridge.until_delivered()
            posted = {
                path: [each for each in receiver.accepted if each.target == path]
                for path in ("/_bulk", "/workflow", "/services/room")
            }
            found = {
                "loki": read_steps(store.entries("loki")),
                "splunk": read_steps(store.entries("splunk"), "event."),
                "bulk": read_steps(store.entries("bulk")),
                "pairs": read_steps(documents(posted["/_bulk"]).values(), time="@timestamp"),
            }
        # The collector has written everything when it has ended.
        found["otlp"] = read_steps(collector.entries(), name="k8s.deployment.name", uid="k8s.deployment.uid")
        fresh = {
            (each["metadata"]["name"], each["metadata"]["uid"], each["metadata"]["resourceVersion"])
            for each in cluster.list("deployments.apps")
        }

    assert len(steps) == KILLS * 26
    for name, times in found.items():
        assert times.keys() == steps, name
        assert newest(times.keys()) == fresh, name
        assert all(abs(when - found["pairs"][step]) < timedelta(milliseconds=1) for step, when in times.items()), name
    came_and_went = {(each.op, each.name) for each in steps if each.op != "updated"}
    assert {carded(message) for each in posted["/workflow"] for message in each.events} == came_and_went
    assert {said(message) for each in posted["/services/room"] for message in each.events} == came_and_went
