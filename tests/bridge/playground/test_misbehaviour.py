"""Every wrong that the playground can be asked for is done: to whom it is meant for, and for as long."""

from __future__ import annotations

import httpx
import pytest

from bridge.playground import StatusError, manifests
from bridge.playground.manifests import config_map
from tests.bridge.playground.conftest import client_of, watching
from tests.kit.deadlines import until
from tests.kit.playground import Playground

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/pods"
BUSY = StatusError(429, "TooManyRequests", "later", retry_after=7)


# ── Answers ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", [PODS, f"{PODS}?watch=1"])
async def test_a_resource_answers_with_an_error_until_that_is_stopped(
    server: Playground, http: httpx.AsyncClient, path: str
) -> None:
    with server.misbehave.fail(BUSY, "pods"):
        for _ in range(2):
            answer = await http.get(path)
            assert (answer.status_code, answer.json()["reason"], answer.json()["code"]) == (429, "TooManyRequests", 429)
            assert answer.headers["Retry-After"] == "7"
        assert (await http.get(MAPS)).status_code == 200
    assert (await http.get(PODS)).status_code == 200


async def test_a_fault_may_be_for_one_request_for_some_verbs_or_for_all(
    server: Playground, http: httpx.AsyncClient
) -> None:
    server.misbehave.fail(BUSY, "pods", times=1)
    assert [(await http.get(PODS)).status_code for _ in range(2)] == [429, 200]
    server.misbehave.reply(b"<html>", "configmaps", status=502, content_type="text/html", verbs=("create", "watch"))
    assert (await http.get(MAPS)).status_code == 200
    for answer in (await http.get(f"{MAPS}?watch=1"), await http.post(MAPS, json=config_map("a"))):
        assert (answer.status_code, answer.headers["Content-Type"], answer.content) == (502, "text/html", b"<html>")
    server.misbehave.fail(BUSY)
    assert [(await http.get(path)).status_code for path in (PODS, MAPS, "/apis", "/api")] == [429] * 4


async def test_what_is_forbidden_is_denied_in_access_reviews(server: Playground, http: httpx.AsyncClient) -> None:
    async def allowed(**attributes: str) -> bool:
        answer = await http.post(
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            json={"spec": {"resourceAttributes": attributes}},
        )
        assert answer.status_code == 201
        verdict: bool = answer.json()["status"]["allowed"]
        return verdict

    server.misbehave.forbid("deployments.apps", times=1)
    assert not await allowed(verb="watch", group="apps", resource="deployments")
    assert await allowed(verb="watch", group="", resource="pods")
    answers = [await http.get("/apis/apps/v1/deployments") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [403, 200]


@pytest.mark.parametrize("path", [PODS, f"{PODS}?watch=1&timeoutSeconds=1&allowWatchBookmarks=true"])
async def test_the_content_type_may_be_wrong_and_the_body_right(
    server: Playground, http: httpx.AsyncClient, path: str
) -> None:
    async with http.stream("GET", path) as right:
        server.misbehave.wrong_content_type("pods", times=1)
        async with http.stream("GET", path) as wrong, http.stream("GET", path) as again:
            types = [each.headers["Content-Type"] for each in (right, wrong, again)]
            assert types == ["application/json", "text/plain", "application/json"]
            assert await wrong.aread() == await right.aread()


# ── Watches ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_line_may_break_off_in_its_middle(server: Playground, http: httpx.AsyncClient) -> None:
    async with watching(http, MAPS, resourceVersion=server.version) as watch:
        server.create("configmaps", config_map("a"))
        assert await watch.sent() == ("ADDED", "a")
        whole = len(watch.heard)
        server.misbehave.cut_line("configmaps")
        server.create("configmaps", config_map("b"))
        with pytest.raises(httpx.RemoteProtocolError):
            await watch.line()
    half = watch.heard[whole:]
    assert half.startswith(b'{"type":"ADDED"')
    assert b"\n" not in half
    server.misbehave.cut_line("configmaps")
    async with watching(http, MAPS, resourceVersion=0) as watch:
        with pytest.raises(httpx.RemoteProtocolError):
            await watch.line()
    assert watch.heard
    async with watching(http, MAPS, resourceVersion=0) as watch:
        assert [await watch.sent(), await watch.sent()] == [("ADDED", "a"), ("ADDED", "b")]


async def test_watches_may_go_silent_and_stay_open() -> None:
    async with (
        Playground(bookmark_interval=0.02) as server,
        client_of(server) as http,
        watching(http, MAPS, resourceVersion=1, allowWatchBookmarks="true", timeoutSeconds=1) as watch,
    ):
        assert (await watch.event())[0] == "BOOKMARK"
        silence = server.misbehave.go_silent("configmaps")
        server.create("configmaps", config_map("a"))
        # Longer than its timeout: its end is held back too.
        with pytest.raises(TimeoutError):
            await watch.line(timeout=1.3)
        assert server.open_watches("configmaps") == 1
        silence.stop()


async def test_open_and_new_watches_send_after_a_silence_what_was_held_back(
    server: Playground, http: httpx.AsyncClient
) -> None:
    async with watching(http, MAPS, resourceVersion=server.version) as watch:
        await server.until_watched("configmaps")
        with server.misbehave.go_silent("configmaps"):
            server.create("configmaps", config_map("a"))
            async with watching(http, MAPS, resourceVersion=0) as other:
                assert other.response.status_code == 200
                await until(lambda: server.open_watches("configmaps") == 2)
                with pytest.raises(TimeoutError):
                    await other.line(timeout=0.05)
        assert await watch.sent() == ("ADDED", "a")


async def test_open_watches_may_be_hung_up(server: Playground, http: httpx.AsyncClient) -> None:
    async with watching(http, MAPS, resourceVersion=server.version) as one, watching(http, PODS) as other:
        await server.until_watched("pods")
        server.create("configmaps", config_map("a"))
        assert server.misbehave.hang_up("configmaps") == 1
        assert len(await one.rest()) == 1
        assert server.open_watches() == 1
        assert server.misbehave.hang_up() == 1
        assert await other.rest() == []


async def test_open_watches_may_lose_their_connection(server: Playground, http: httpx.AsyncClient) -> None:
    async with watching(http, MAPS, resourceVersion=server.version) as watch:
        await server.until_watched("configmaps")
        assert server.misbehave.reset("configmaps") == 1
        with pytest.raises(httpx.TransportError):
            await watch.line()


async def test_any_bytes_may_be_put_into_a_watch_and_an_error_may_end_it(
    server: Playground, http: httpx.AsyncClient
) -> None:
    async with watching(http, MAPS, resourceVersion=server.version) as watch:
        await server.until_watched("configmaps")
        server.create("configmaps", config_map("a"))
        assert server.misbehave.inject(b'{"type":\n\xff\n', "configmaps") == 1
        assert await watch.sent() == ("ADDED", "a")
        assert [await watch.line(), await watch.line()] == [b'{"type":', b"\xff"]
        server.create("configmaps", config_map("b"))
        assert await watch.sent() == ("ADDED", "b")
        assert server.misbehave.break_watches(StatusError(500, "InternalError", "no leader"), "configmaps") == 1
        kind, status = await watch.event()
        assert (kind, status["code"]) == ("ERROR", 500)
        assert await watch.rest() == []


# ── The store ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_event_may_be_lost(server: Playground, http: httpx.AsyncClient) -> None:
    version = server.version
    async with watching(http, MAPS, resourceVersion=version) as watch:
        server.misbehave.lose_event("configmaps")
        server.create("configmaps", config_map("a"))
        server.create("configmaps", config_map("b"))
        assert await watch.sent() == ("ADDED", "b")
    async with watching(http, MAPS, resourceVersion=version) as watch:
        assert await watch.sent() == ("ADDED", "b")
    assert [each["metadata"]["name"] for each in (await http.get(MAPS)).json()["items"]] == ["a", "b"]


async def test_history_may_expire_while_watches_go_on(server: Playground, http: httpx.AsyncClient) -> None:
    version = server.version
    async with watching(http, MAPS, resourceVersion=version) as watch:
        server.create("configmaps", config_map("a"))
        assert await watch.sent() == ("ADDED", "a")
        server.misbehave.expire_history()
        server.create("configmaps", config_map("b"))
        assert await watch.sent() == ("ADDED", "b")
    async with watching(http, MAPS, resourceVersion=version) as watch:
        kind, status = await watch.event()
        assert (kind, status["code"]) == ("ERROR", 410)
        assert await watch.rest() == []


async def test_versions_run_backwards_when_a_snapshot_is_restored(server: Playground, http: httpx.AsyncClient) -> None:
    server.create("configmaps", config_map("kept", {"k": "1"}))
    snapshot = server.snapshot()
    server.patch("configmaps", "kept", {"data": {"k": "2"}})
    server.create("configmaps", config_map("lost"))
    before = int(server.version)
    async with watching(http, MAPS, resourceVersion=before) as watch:
        await server.until_watched("configmaps")
        server.restore(snapshot)
        with pytest.raises(httpx.TransportError):
            await watch.line()
    listed = (await http.get(MAPS)).json()
    assert [each["data"] for each in listed["items"]] == [{"k": "1"}]
    assert int(listed["metadata"]["resourceVersion"]) == before - 2
    too_large = await http.get(f"{MAPS}?resourceVersion={before}&resourceVersionMatch=NotOlderThan")
    assert too_large.json()["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    server.create("configmaps", config_map("new"))
    assert int(server.get("configmaps", "new")["metadata"]["resourceVersion"]) == before - 1


async def test_a_restore_undoes_new_definitions_and_returns_old_ones(server: Playground) -> None:
    crds = "customresourcedefinitions.apiextensions.k8s.io"
    server.create(crds, manifests.definition("olds", kind="Old"))
    server.create("olds.example.com", manifests.custom("o", kind="Old"))
    snapshot = server.snapshot()
    server.delete(crds, "olds.example.com")
    server.create(crds, manifests.definition("news", kind="New"))
    server.restore(snapshot)
    assert [each["metadata"]["name"] for each in server.list("olds.example.com")] == ["o"]
    with pytest.raises(LookupError):
        server.list("news.example.com")


# ── The server ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_connections_are_refused_and_come_back_on_the_same_port(
    server: Playground, http: httpx.AsyncClient
) -> None:
    server.create("configmaps", config_map("a"))
    url = server.url
    async with watching(http, MAPS, resourceVersion=server.version) as watch:
        await server.until_watched("configmaps")
        async with server.refusing_connections():
            with pytest.raises(httpx.TransportError):
                await watch.line()
            with pytest.raises(httpx.ConnectError):
                await http.get(MAPS)
            server.create("configmaps", config_map("b"))
    assert server.url == url
    assert len((await http.get(MAPS)).json()["items"]) == 2
