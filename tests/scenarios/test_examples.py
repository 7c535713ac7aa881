"""Every file in config/examples, really run: what the environment changes of it are addresses and paths."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import nats
import pytest
import yaml
from standardwebhooks import Webhook

from bridge.playground import Playground
from tests.cluster.fixtures import fresh_name
from tests.cluster.kube_client import Manifest
from tests.cluster.servers import Kafka, Nats
from tests.kit.bridge_process import BridgeProcess
from tests.kit.commands import in_a_process
from tests.kit.received import Stream, from_events, from_file, from_kafka, from_nats, received_lists
from tests.kit.token_server import TokenServer
from tests.kit.webhook_receiver import Answer, WebhookReceiver

EXAMPLES = sorted((Path(__file__).parents[2] / "config" / "examples").glob("*.yaml"))
OF_EVENTS = [each for each in EXAMPLES if "\n    data:" not in each.read_text()]
"""``test_examples_of_data`` runs the others, whose destinations take no events."""


def _read(example: Path) -> Manifest:
    document: Manifest = yaml.safe_load(example.read_text())
    return document


def _types(example: Path) -> set[str]:
    return {sink["type"] for sink in _read(example)["sinks"].values()}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_passes_the_offline_check(example: Path) -> None:
    checked = in_a_process("check", "--offline", "-c", str(example))

    assert (checked.code, checked.err) == (0, "")


@pytest.mark.parametrize(
    "example",
    [pytest.param(each, marks=[pytest.mark.java] * ("kafka" in _types(each))) for each in OF_EVENTS],
    ids=lambda path: path.stem,
)
async def test_an_example_brings_a_change_to_each_of_its_sinks(
    example: Path, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    document, name = _read(example), fresh_name("marker")
    async with AsyncExitStack() as stack, Playground() as cluster:
        make = {"kafka": _kafka, "nats": _nats, "webhook": _webhook, "file": _file}
        sinks = document["sinks"]
        destinations = {
            sink: await make[options["type"]](options, request, stack, tmp_path) for sink, options in sinks.items()
        }
        environ = {"KUBEDELTA__CLUSTER__SERVER": cluster.url}
        for sink, destination in destinations.items():
            environ |= {f"KUBEDELTA__SINKS__{sink}__{field}".upper(): it for field, it in destination.options.items()}
        async with BridgeProcess(tmp_path / "bridge", example, environ=environ).started() as bridge:
            made = [_create(cluster, entry, name) for entry in document["resources"]]
            await bridge.until("all is read", lambda now: now.value("records_committed_total") >= len(made))
            await bridge.until_delivered()
            received = {
                sink: received_lists(await destination.delivered(bridge)) for sink, destination in destinations.items()
            }

    want = sorted(thing["metadata"]["uid"] for thing in made)
    for sink, stream in received.items():
        uids = sorted(each.uid for each in stream if each.data["metadata"]["name"] == name)
        selects = "select" in sinks[sink]
        assert (uids and set(uids) < set(want)) if selects else uids == want, sink
    print(f"{example.name}: {len(want)} changes in {', '.join(received)}")


# ── What the environment says of each kind of sink, and how it is read afterwards ────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Destination:
    options: Mapping[str, str]
    """What the environment sets."""
    delivered: Callable[[BridgeProcess], Awaitable[Stream]]


async def _kafka(options: Manifest, request: pytest.FixtureRequest, stack: AsyncExitStack, _: Path) -> Destination:
    kafka: Kafka = request.getfixturevalue("kafka")
    topics = [options["topic"].format(resource=resource) for resource in ("pods", "deployments")]
    for topic in topics:
        kafka.create_topic(topic)
        stack.callback(kafka.delete_topic, topic)

    async def delivered(_: BridgeProcess) -> Stream:
        return from_kafka(record for topic in topics for record in kafka.read_all(topic))

    return Destination({"bootstrap_servers": kafka.bootstrap}, delivered)


async def _nats(options: Manifest, request: pytest.FixtureRequest, stack: AsyncExitStack, _: Path) -> Destination:
    server: Nats = request.getfixturevalue("nats_server")
    stream = options["stream"]
    connection = await stack.enter_async_context(await nats.connect(server.url))
    await connection.jetstream().add_stream(name=stream, subjects=[f"{options['subject'].partition('.')[0]}.>"])
    stack.push_async_callback(connection.jetstream().delete_stream, stream)

    async def delivered(_: BridgeProcess) -> Stream:
        return from_nats(await server.read_all(stream))

    return Destination({"servers": f"[{server.url}]"}, delivered)


async def _webhook(options: Manifest, _: pytest.FixtureRequest, stack: AsyncExitStack, folder: Path) -> Destination:
    receiver = await stack.enter_async_context(WebhookReceiver())
    secret = f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}"
    file = folder / "secret"
    file.write_text(f"{secret}\n")

    async def delivered(_: BridgeProcess) -> Stream:
        for posted in receiver.accepted if "secret_file" in options else ():
            Webhook(secret).verify(posted.body, posted.headers)
        return from_events(receiver.events)

    chosen = {"secret_file": str(file)} if "secret_file" in options else {}
    if "allow_networks" in options:
        chosen["allow_networks"] = "[127.0.0.0/8]"
    if "request_origin" in options:
        receiver.permission = lambda _: Answer(200, {"WebHook-Allowed-Origin": options["request_origin"]})
    if "oauth2" in options:
        tokens = await stack.enter_async_context(TokenServer(options["oauth2"]["client_id"]))
        client = folder / "client"
        client.write_text(tokens.secret)
        receiver.answer = lambda posted: Answer(204 if tokens.accepts(posted.headers["authorization"]) else 401)
        chosen |= {"oauth2__token_url": tokens.url, "oauth2__client_secret_file": str(client)}
    return Destination({"url": receiver.url, **chosen}, delivered)


async def _file(options: Manifest, _: pytest.FixtureRequest, __: AsyncExitStack, folder: Path) -> Destination:
    async def delivered(bridge: BridgeProcess) -> Stream:
        if options["path"] != "-":
            return from_file(folder / "deltas.ndjson")
        printed = bridge.log.read_text().splitlines()  # Standard output and error, in one file.
        return from_events(json.loads(line) for line in printed if line.startswith('{"specversion"'))

    return Destination({} if options["path"] == "-" else {"path": str(folder / "deltas.ndjson")}, delivered)


def _create(cluster: Playground, entry: str | Manifest, name: str) -> Manifest:
    """An object that the entry covers."""
    entry = {"resource": entry} if isinstance(entry, str) else entry
    namespace = entry.get("namespaces", ["shop"])[0]
    labels = dict(term.split("=") for term in entry.get("label_selector", "app=web").split(","))
    return cluster.create(entry["resource"], {"metadata": {"name": name, "namespace": namespace, "labels": labels}})
