"""An aggregated API server gives its resources names that lead out of its own path. The bridge watches everything, and
may read Secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bridge.kube.discovery_documents import Described, World, serve_aggregated
from tests.kit.bridge_process import BridgeProcess
from tests.kit.received import from_file, received_lists
from tests.kit.scripted_server import Exchange, Handler, ScriptedServer

SENSITIVE = "hunter2-hunter2"
PLURALS = [
    "../../../../api/v1/secrets",
    "%2e%2e%2f%2e%2e%2f%2e%2e%2f%2e%2e%2fapi%2fv1%2fsecrets",
    "..%2f..%2f..%2f..%2fapi%2fv1%2fsecrets?",
    "a\x00b",
    "http://127.0.0.1:1/",
]
WORLD: World = {
    ("", "v1"): [Described("configmaps", "ConfigMap", ("cm",))],
    ("evil.example.com", "v1"): [
        *(Described(plural, "Thing", ("cm", "configmaps")) for plural in PLURALS),
        Described("secrets", "Thing"),
    ],
}


def serving(list_of: str, name: str, **members: object) -> Handler:
    metadata = {"name": name, "namespace": "shop", "uid": f"uid-{name}", "resourceVersion": "7"}
    page = {"kind": f"{list_of}List", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}}

    async def serve(exchange: Exchange) -> None:
        if exchange.request.query.get("watch"):
            await exchange.begin()
            await exchange.hung_up()
        else:
            await exchange.answer({**page, "items": [{"metadata": metadata, **members}]})

    return serve


@pytest.mark.parametrize("resources", [["*"], ["cm", "*.evil.example.com"]], ids=["everything", "a short name"])
async def test_no_secret_is_requested_and_named_resources_are_exported(resources: list[str], tmp_path: Path) -> None:
    deltas = tmp_path / "deltas.ndjson"
    config = {
        "resources": resources,
        "watch": {"watch_list": "never"},
        "sinks": {"copy": {"type": "file", "path": str(deltas)}},
    }
    async with ScriptedServer() as server:
        serve_aggregated(server, WORLD)
        server.on("/api/v1/configmaps", serving("ConfigMap", "map"))
        server.on("/api/v1/secrets", serving("Secret", "password", data={"password": SENSITIVE}))
        # What proxies whole Secrets under a name of its own cannot hide that they are such.
        stolen = serving("Thing", "stolen", kind="Secret", apiVersion="v1", data={"password": SENSITIVE})
        server.on("/apis/evil.example.com/v1/secrets", stolen)
        bridge = BridgeProcess(tmp_path, {"cluster": {"name": "testbed", "server": server.url}, **config})
        async with bridge.started():
            await bridge.until("both are exported", lambda _: len(from_file(deltas)) == 2)
            log = bridge.log_tail(1000)
        assert not server.asked("/api/v1/secrets")

    assert {each.subject for each in received_lists(from_file(deltas))} == {
        "/api/v1/namespaces/shop/configmaps/map",
        "/apis/evil.example.com/v1/namespaces/shop/secrets/stolen",
    }
    assert SENSITIVE not in deltas.read_text() + log
    assert sum("an entry with an invalid name" in line for line in log.splitlines()) == len(PLURALS)
