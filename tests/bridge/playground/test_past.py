"""The server of another time: what it serves, and that nobody changes it."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from bridge.http.certificates import self_signed
from bridge.http.listener import Bounds
from bridge.model.formats.object_paths import ObjectName
from bridge.playground import PastCluster, PastObject, columns_of, manifests, past_kind, server
from bridge.playground.objects.catalogue import Kind
from tests.bridge.playground.conftest import watching
from tests.kit.deadlines import BUSY
from tests.kit.objects import BEYOND_ANY_STACK

TOKEN = "token-of-the-past"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
KINDS = [
    past_kind("", "pods", "Pod", "v1", namespaced=True, definition=None),
    past_kind("", "configmaps", "ConfigMap", "v1", namespaced=True, definition=None),
    past_kind("apps", "deployments", "Deployment", "v1", namespaced=True, definition=None),
    past_kind("example.com", "widgets", "Widget", "v1", namespaced=True, definition=None),
]


def _name(resource: str, name: str) -> ObjectName:
    plural, _, group = resource.partition(".")
    return ObjectName("prod", group, plural, "shop", name)


def _object(manifest: dict[str, Any], version: str, resource: str) -> PastObject:
    metadata = manifest["metadata"]
    metadata |= {"uid": f"uid-{metadata['name']}", "resourceVersion": version}
    metadata |= {"creationTimestamp": "2026-01-05T11:00:00Z"}
    return PastObject(_name(resource, metadata["name"]), version, json.dumps(manifest).encode())


def _pod(name: str, version: str, phase: str = "Running") -> PastObject:
    return _object(manifests.pod(name, namespace="shop", node="a", phase=phase), version, "pods")


def _map(name: str, version: str, value: str = "1") -> PastObject:
    return _object(manifests.config_map(name, {"k": value}, namespace="shop"), version, "configmaps")


@asynccontextmanager
async def _serving(
    *objects: PastObject, kinds: Sequence[Kind] = KINDS
) -> AsyncIterator[tuple[PastCluster, httpx.AsyncClient]]:
    context, certificate = self_signed("the past", None, ["127.0.0.1"])
    past = PastCluster(kinds, token=TOKEN, tls=context, now=lambda: NOW)
    past.load(objects)
    trusted = ssl.create_default_context(cadata=certificate.decode())
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with (
        past,
        httpx.AsyncClient(
            base_url=past.url, verify=trusted, headers=headers, timeout=10 * BUSY, trust_env=False
        ) as http,
    ):
        yield past, http


async def test_objects_have_their_own_uids_and_versions() -> None:
    async with _serving(_pod("b", "70"), _pod("a", "90"), _map("m", "95")) as (_, http):
        found = (await http.get("/api/v1/pods")).json()
        assert found["metadata"]["resourceVersion"] == "90"
        assert [(each["metadata"]["uid"], each["metadata"]["resourceVersion"]) for each in found["items"]] == [
            ("uid-a", "90"),
            ("uid-b", "70"),
        ]
        one = (await http.get("/api/v1/namespaces/shop/configmaps/m")).json()
        assert (one["data"], one["metadata"]["resourceVersion"]) == ({"k": "1"}, "95")


async def test_a_table_shows_the_ages_of_that_time() -> None:
    async with _serving(_pod("a", "90")) as (_, http):
        table = (await http.get("/api/v1/pods", headers={"Accept": TABLE})).json()
        assert table["rows"][0]["cells"][:5] == ["a", "1/1", "Running", "0", "60m"]


async def test_only_what_the_history_has_is_discovered() -> None:
    async with _serving() as (_, http):
        core = (await http.get("/api/v1")).json()["resources"]
        assert [(each["name"], each["verbs"]) for each in core] == [
            (name, ["get", "list", "watch"]) for name in ("configmaps", "pods")
        ]
        groups = [each["name"] for each in (await http.get("/apis")).json()["groups"]]
        assert groups == ["apps", "example.com", "authorization.k8s.io"]
        assert (await http.get("/apis/apps/v1/statefulsets")).status_code == 404
        assert (await http.get("/apis/example.com/v1/widgets")).json()["items"] == []


async def test_nothing_is_written() -> None:
    async with _serving(_map("m", "95")) as (_, http):
        maps = "/api/v1/namespaces/shop/configmaps"
        for method, path in (
            ("POST", maps),
            ("PUT", f"{maps}/m"),
            ("PATCH", f"{maps}/m"),
            ("DELETE", f"{maps}/m"),
            ("DELETE", maps),
        ):
            refused = await http.request(method, path, json={})
            assert (refused.status_code, refused.json()["reason"]) == (405, "MethodNotAllowed")
        assert (await http.get(f"{maps}/m")).status_code == 200


async def test_a_client_that_asks_first_may_read_and_no_more() -> None:
    async with _serving() as (_, http):
        reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        allowed = {}
        for verb in ("get", "list", "watch", "create", "delete"):
            asked = {"spec": {"resourceAttributes": {"verb": verb, "resource": "pods"}}}
            allowed[verb] = (await http.post(reviews, json=asked)).json()["status"]["allowed"]
        assert allowed == {"get": True, "list": True, "watch": True, "create": False, "delete": False}


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2, len(content)]) + content


async def test_a_client_with_types_asks_in_protocol_buffers() -> None:
    """As client-go writes it: a runtime.Unknown with the review in it."""
    headers = {
        "Content-Type": "application/vnd.kubernetes.protobuf",
        "Accept": "application/vnd.kubernetes.protobuf,application/json",
    }
    typed = _field(1, _field(1, b"authorization.k8s.io/v1") + _field(2, b"SelfSubjectAccessReview"))
    async with _serving() as (_, http):
        reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        allowed = {}
        for verb in ("list", "delete"):
            attributes = _field(1, b"shop") + _field(2, verb.encode()) + _field(4, b"v1") + _field(5, b"pods")
            review = _field(1, b"") + _field(2, _field(1, attributes)) + _field(3, b"\x08\x00")
            asked = b"k8s\0" + typed + _field(2, review) + _field(3, b"") + _field(4, b"")
            answer = (await http.post(reviews, content=asked, headers=headers)).json()
            assert answer["spec"]["resourceAttributes"]["resource"] == "pods"
            allowed[verb] = answer["status"]["allowed"]
        assert allowed == {"list": True, "delete": False}
        for broken in (b"k8s\0\xff", b"k8s\0\x12\x7f", b"k8s\0" + _field(2, _field(2, _field(1, _field(2, b"\xff"))))):
            assert (await http.post(reviews, content=broken, headers=headers)).status_code == 400


@pytest.mark.parametrize("group", ["", "events.k8s.io"])
async def test_an_event_is_served_in_both_groups_whichever_was_watched(group: str) -> None:
    """kubectl asks the one for what it describes, k9s the other."""
    kind = past_kind(group, "events", "Event", "v1", namespaced=True, definition=None)
    about, said = ("regarding", "note") if group else ("involvedObject", "message")
    event = {"metadata": {"name": "e", "namespace": "shop"}, about: {"kind": "Pod", "name": "a"}, said: "began"}
    async with _serving(_object(event, "90", kind.name), kinds=[kind]) as (past, http):
        core, grouped = "/api/v1/namespaces/shop/events", "/apis/events.k8s.io/v1/namespaces/shop/events"
        (item,) = (await http.get(f"{core}?fieldSelector=involvedObject.name=a,involvedObject.kind=Pod")).json()[
            "items"
        ]
        assert (item["involvedObject"]["name"], item["message"]) == ("a", "began")
        assert (await http.get(f"{core}?fieldSelector=involvedObject.name=b")).json()["items"] == []
        (item,) = (await http.get(f"{grouped}?fieldSelector=regarding.name=a")).json()["items"]
        assert (item["regarding"]["name"], item["note"]) == ("a", "began")
        tables = [(await http.get(path, headers={"Accept": TABLE})).json() for path in (core, grouped)]
        assert [table["rows"][0]["cells"][3:7:3] for table in tables] == [["pod/a", "began"]] * 2
        past.change(_object({**event, said: "ended"}, "95", kind.name))
        async with watching(http, grouped, resourceVersion="90") as stream:
            assert (await stream.event())[1]["note"] == "ended"


async def test_pods_are_selected_by_their_node_and_phase() -> None:
    """As ``kubectl describe node`` asks."""
    async with _serving(_pod("a", "90"), _pod("b", "91", "Failed")) as (_, http):
        asked = "spec.nodeName=a,status.phase!=Succeeded,status.phase!=Failed"
        listed = (await http.get("/api/v1/pods", params={"fieldSelector": asked})).json()["items"]
        assert [each["metadata"]["name"] for each in listed] == ["a"]
        refused = await http.get("/api/v1/pods", params={"fieldSelector": "spec.hostname=a"})
        assert (refused.status_code, refused.json()["message"]) == (400, "field label not supported: spec.hostname")


async def test_a_watch_hears_what_happened_next_in_its_resource() -> None:
    """The order of versions of two resources is another than that in which the bridge saw them."""
    async with _serving(_pod("a", "90"), _map("m", "95")) as (past, http):
        listed = (await http.get("/api/v1/pods")).json()["metadata"]["resourceVersion"]
        past.change(_map("m", "120", "2"))
        past.change(_pod("a", "100", "Failed"))
        past.change(_pod("b", "101"))
        past.change(PastObject(_name("pods", "a"), "103", None))
        past.change(PastObject(_name("pods", "never-there"), "104", None))
        async with watching(http, "/api/v1/pods", resourceVersion=listed) as stream:
            seen = [await stream.event() for _ in range(3)]
        assert [(kind, each["metadata"]["name"], each["metadata"]["resourceVersion"]) for kind, each in seen] == [
            ("MODIFIED", "a", "100"),
            ("ADDED", "b", "101"),
            ("DELETED", "a", "103"),
        ]
        assert (await http.get("/api/v1/pods")).json()["metadata"]["resourceVersion"] == "103"


async def test_versions_of_a_resource_never_fall() -> None:
    """A restored cluster counts from an earlier version on; an aggregated server's versions may be no numbers."""
    async with _serving(
        _pod("a", "90"), _object(manifests.custom("w", namespace="shop"), "v-x", "widgets.example.com")
    ) as (
        past,
        http,
    ):
        past.change(_pod("a", "40"))
        past.change(_pod("a", "41"))
        past.change(_pod("a", "200"))
        async with watching(http, "/api/v1/pods", resourceVersion="90") as stream:
            versions = [(await stream.event())[1]["metadata"]["resourceVersion"] for _ in range(3)]
        assert versions == ["91", "92", "200"]
        assert (await http.get("/apis/example.com/v1/widgets")).json()["items"][0]["metadata"]["name"] == "w"


async def test_a_state_that_is_no_object_hides_no_other() -> None:
    odd = [b"5", b"{}", b'{"metadata":5}', b'{"metadata":{"labels":["a"]}}', b'{"metadata":{"labels":{"a":{}}}}']
    objects = [PastObject(_name("configmaps", f"odd-{number}"), "90", state) for number, state in enumerate(odd)]
    async with _serving(*objects, _map("m", "95")) as (past, http):
        for each in objects:
            past.change(each)
        found = (await http.get("/api/v1/configmaps?labelSelector=a!=b")).json()
        assert [each["metadata"]["name"] for each in found["items"]] == ["m"]


async def test_no_text_of_an_object_stands_for_its_version() -> None:
    annotated = manifests.custom("w", namespace="shop", spec={})
    annotated["metadata"]["annotations"] = {"a": "~resourceVersion~kubedelta~", "b": "~apiVersion~kubedelta~"}
    async with _serving(_object(annotated, "90", "widgets.example.com")) as (_, http):
        one = (await http.get("/apis/example.com/v1/namespaces/shop/widgets/w")).json()
    assert one["metadata"]["resourceVersion"] == "90"
    assert one["metadata"]["annotations"] == annotated["metadata"]["annotations"]


def test_a_definition_of_which_only_the_name_is_known_is_none() -> None:
    bare = {"metadata": {"name": "widgets.example.com"}}
    kind = past_kind("example.com", "widgets", "Widget", "v1", namespaced=True, definition=bare)
    assert kind == past_kind("example.com", "widgets", "Widget", "v1", namespaced=True, definition=None)


@pytest.mark.parametrize("column", [{"jsonPath": {}}, {"jsonPath": f"[{'9' * 5000}]"}, {"name": 5}, {"priority": "x"}])
def test_a_column_of_another_shape_hides_no_object(column: dict[str, Any]) -> None:
    definition = manifests.definition()
    definition["spec"]["versions"][0]["additionalPrinterColumns"] = [{"name": "A", "type": "string"} | column]
    kind = past_kind("example.com", "widgets", "Widget", "v1", namespaced=True, definition=definition)
    assert columns_of(kind, "v1").cells({"metadata": {"name": "a"}}, NOW)[0] == "a"


async def test_without_the_token_nobody_learns_what_is_served_and_nothing_is_kept_of_requests() -> None:
    paths = ("/api", "/api/v1/configmaps", "/api/v1/configmaps?watch=1", "/apis/example.com/v1/widgets")
    async with _serving(_map("m", "95")) as (past, http):
        for wrong in ("", "Bearer nonsense", TOKEN):
            for path in (*paths, "/apis/unknown.io/v1/things", "/nowhere"):
                assert (await http.get(path, headers={"Authorization": wrong})).status_code == 401
        assert len(past.requests) == 0


async def test_numbers_beyond_64_bits_and_tokens_of_any_text_are_refused() -> None:
    async with _serving(_map("m", "95")) as (_, http):
        for query in ({"limit": "9" * 30}, {"limit": "9" * 5000}, {"resourceVersion": "9" * 5000}, {"continue": "é"}):
            assert (await http.get("/api/v1/configmaps", params=query)).status_code == 400
        reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        deep = b'{"a":' * BEYOND_ANY_STACK + b"1" + b"}" * BEYOND_ANY_STACK
        for text in (b'{"spec":{"resourceAttributes":[1]}}', deep):
            answer = await http.post(reviews, content=text, headers={"Content-Type": "application/json"})
            assert answer.status_code == 400


async def test_a_malformed_request_writes_no_traceback(caplog: pytest.LogCaptureFixture) -> None:
    async with _serving() as (_, http):
        assert (await http.get("/api/v1/configmaps", params={"a": "b" * 9000})).status_code == 400
    assert caplog.records == []


async def test_silent_connections_keep_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_BOUNDS", Bounds(all=4, of_a_client=4))
    loop = asyncio.get_running_loop()
    async with _serving(_pod("a", "90")) as (past, http):
        with ExitStack() as opened:
            async with watching(http, "/api/v1/pods", resourceVersion="90") as stream:
                assert (await http.get("/api/v1/pods")).status_code == 200  # Its connection is kept, and silent.
                silent = [opened.enter_context(socket.socket()) for _ in range(20)]
                for each in silent:
                    each.setblocking(False)
                    await loop.sock_connect(each, ("127.0.0.1", int(past.url.rpartition(":")[2])))
                async with asyncio.timeout(20 * BUSY):
                    for each in silent[:17]:
                        with suppress(ConnectionResetError):
                            assert await loop.sock_recv(each, 1) == b""
                with pytest.raises(BlockingIOError):
                    silent[17].recv(1)
                past.change(_pod("b", "91"))
                assert await stream.sent() == ("ADDED", "b")
                assert (await http.get("/api/v1/pods")).status_code == 200
