"""Lists and watches: bounds, bookmarks, and what happens later. What they send is compared in ``test_fidelity``."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from bridge.playground import manifests
from tests.bridge.playground.conftest import client_of, watching
from tests.kit.deadlines import until
from tests.kit.playground import Playground

MAPS = "/api/v1/namespaces/default/configmaps"
LISTED = {"resourceVersionMatch": "NotOlderThan", "sendInitialEvents": "true", "allowWatchBookmarks": "true"}


async def test_pages_of_all_namespaces_continue_where_the_last_one_ended(
    server: Playground, http: httpx.AsyncClient
) -> None:
    for number in range(25):
        server.create("configmaps", manifests.config_map(f"m{number:02}", namespace=f"n{number % 3}"))
    found, token = [], ""
    while True:
        page = (await http.get("/api/v1/configmaps", params={"limit": 10, "continue": token})).json()
        found += [(each["metadata"]["namespace"], each["metadata"]["name"]) for each in page["items"]]
        token = page["metadata"].get("continue", "")
        if not token:
            break
    assert len(found) == 25
    assert found == sorted(found)


async def test_a_version_that_comes_in_time_is_answered() -> None:
    async with Playground(version_wait=30) as server, client_of(server) as http:
        soon = int(server.version) + 1
        async with asyncio.TaskGroup() as group:
            asked = group.create_task(http.get(f"{MAPS}?resourceVersion={soon}"))
            await until(lambda: server.seen("list", "configmaps"))
            server.create("configmaps", manifests.config_map("a"))
        assert len(asked.result().json()["items"]) == 1


async def test_a_long_list_is_compressed_for_those_who_accept_it(server: Playground, http: httpx.AsyncClient) -> None:
    server.create("configmaps", manifests.config_map("a", {"k": "x" * 200_000}))
    zipped = await http.get(MAPS)
    plain = await http.get(MAPS, headers={"Accept-Encoding": "identity"})
    assert zipped.headers["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in plain.headers
    assert zipped.json() == plain.json()


async def test_a_watch_of_one_namespace_hears_nothing_of_others(server: Playground, http: httpx.AsyncClient) -> None:
    async with watching(http, MAPS, resourceVersion=server.version) as watch:
        server.create("configmaps", manifests.config_map("other", namespace="shop"))
        server.create("configmaps", manifests.config_map("mine"))
        assert await watch.sent() == ("ADDED", "mine")


async def test_history_is_bounded_and_410_is_beyond_it() -> None:
    async with Playground(history=3) as server, client_of(server) as http:
        versions = [
            server.create("configmaps", manifests.config_map(f"m{n}"))["metadata"]["resourceVersion"] for n in range(6)
        ]
        async with watching(http, MAPS, resourceVersion=versions[2]) as watch:
            assert [await watch.sent() for _ in range(3)] == [("ADDED", f"m{n}") for n in (3, 4, 5)]
        async with watching(http, MAPS, resourceVersion=versions[1]) as watch:
            assert watch.response.status_code == 200
            kind, status = await watch.event()
            assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
            assert await watch.rest() == []


async def test_a_watch_from_the_future_is_silent_until_then(server: Playground, http: httpx.AsyncClient) -> None:
    """Also of bookmarks: a client that is ahead of a restored store hears nothing of it."""
    async with Playground(bookmark_interval=0.01) as server, client_of(server) as http:
        soon = int(server.version) + 1
        async with watching(http, MAPS, resourceVersion=soon, allowWatchBookmarks="true") as watch:
            await server.until_watched("configmaps")
            server.create("configmaps", manifests.config_map("a"))
            with pytest.raises(TimeoutError):
                await watch.line(timeout=0.1)
            # The watch is broken by the timeout; another from the same version hears what comes next.
        async with watching(http, MAPS, resourceVersion=soon, allowWatchBookmarks="true") as watch:
            server.create("configmaps", manifests.config_map("b"))
            assert await watch.sent() == ("ADDED", "b")


async def test_bookmarks_have_the_version_of_the_store() -> None:
    async with (
        Playground(bookmark_interval=0.02) as server,
        client_of(server) as http,
        watching(http, MAPS, resourceVersion=server.version, allowWatchBookmarks="1") as watch,
    ):
        await server.until_watched("configmaps")
        server.create("nodes", {"metadata": {"name": "n"}})
        kind, mark = await watch.event()
        assert (kind, mark["kind"], mark["apiVersion"]) == ("BOOKMARK", "ConfigMap", "v1")
        assert mark["metadata"] == {"resourceVersion": server.version}
        assert (await watch.event())[0] == "BOOKMARK"


async def test_no_bookmarks_come_unasked() -> None:
    async with (
        Playground(bookmark_interval=0.01) as server,
        client_of(server) as http,
        watching(http, MAPS, resourceVersion=server.version, timeoutSeconds=1) as watch,
    ):
        server.create("nodes", {"metadata": {"name": "n"}})
        assert await watch.rest() == []


async def test_a_watch_gets_a_bookmark_before_its_time_is_over(server: Playground, http: httpx.AsyncClient) -> None:
    async with watching(http, MAPS, resourceVersion=1, allowWatchBookmarks="true", timeoutSeconds=3) as watch:
        lines = await watch.rest()
    assert len(lines) == 1
    assert b'"type":"BOOKMARK"' in lines[0]


async def test_a_server_without_watch_lists_says_422() -> None:
    async with Playground(watch_list=False) as server, client_of(server) as http:
        answer = await http.get(MAPS, params={"watch": "1", **LISTED})
    assert answer.status_code == 422
    assert "WatchList feature gate" in answer.json()["message"]


async def test_a_watch_list_may_be_compressed_in_a_member_per_flush() -> None:
    """As Kubernetes 1.37 does it: a decoder that stops at the first member loses what comes later."""
    async with Playground(compress_watch_lists=True) as server, client_of(server) as http:
        async with watching(http, MAPS, **LISTED) as watch:
            assert watch.response.headers["Content-Encoding"] == "gzip"
            await server.until_watched("configmaps")
            server.create("configmaps", manifests.config_map("a"))
            members = b""
            chunks = watch.response.aiter_raw()
            while members.count(b"\x1f\x8b\x08") < 2:
                members += await anext(chunks)
        async with http.stream(
            "GET", MAPS, params={"watch": "1", **LISTED}, headers={"Accept-Encoding": "identity"}
        ) as plain:
            assert "Content-Encoding" not in plain.headers


async def test_thousands_of_events_reach_many_watchers(server: Playground, http: httpx.AsyncClient) -> None:
    async def follow() -> list[int]:
        async with watching(http, "/api/v1/pods", resourceVersion=version) as watch:
            return [int((await watch.event())[1]["metadata"]["resourceVersion"]) for _ in range(1000)]

    version = server.version
    async with asyncio.TaskGroup() as group:
        watchers = [group.create_task(follow()) for _ in range(5)]
        await until(lambda: server.open_watches("pods") == 5)
        for number in range(1000):
            server.create("pods", manifests.pod(f"p{number}"))
    expected = [int(version) + number for number in range(1, 1001)]
    # The namespace was there, so that nothing else took a version.
    assert all(reflector.result() == expected for reflector in watchers)


async def test_a_watch_that_does_not_keep_up_is_ended_without_a_word() -> None:
    async with (
        Playground(history=3) as server,
        client_of(server) as http,
        watching(http, MAPS, resourceVersion=server.version) as watch,
    ):
        await server.until_watched("configmaps")
        with server.misbehave.go_silent("configmaps"):
            for number in range(6):
                server.create("configmaps", manifests.config_map(f"m{number}"))
        assert await watch.rest() == []


async def test_no_bookmark_says_what_the_events_said_already() -> None:
    async with Playground(bookmark_interval=0.01) as server, client_of(server) as http:
        version = server.version
        server.create("configmaps", manifests.config_map("a"))
        async with watching(http, MAPS, resourceVersion=version, allowWatchBookmarks="true") as watch:
            assert await watch.sent() == ("ADDED", "a")
            with pytest.raises(TimeoutError):
                await watch.line(timeout=0.1)
        async with watching(http, MAPS, resourceVersion=version, allowWatchBookmarks="true") as watch:
            assert await watch.sent() == ("ADDED", "a")
            server.create("nodes", {"metadata": {"name": "n"}})
            assert (await watch.event())[0] == "BOOKMARK"


async def test_a_bookmark_never_runs_ahead_of_the_events() -> None:
    """A client that does not read holds up the sending, and changes come meanwhile."""
    async with (
        Playground(bookmark_interval=0.001) as server,
        client_of(server) as http,
        watching(http, MAPS, resourceVersion=server.version, allowWatchBookmarks="true") as watch,
    ):
        await server.until_watched("configmaps")
        for first, last in ((0, 300), (300, 320)):
            for number in range(first, last):
                server.create("configmaps", manifests.config_map(f"m{number}", {"k": "x" * 50_000}))
            # Until the answer is there, the watch has sent what the connection takes.
            assert (await http.get("/readyz")).text == "ok"
        sent, marked = int(server.version) - 320, 0
        while sent < int(server.version) or not marked:
            kind, thing = await watch.event()
            version = int(thing["metadata"]["resourceVersion"])
            if kind == "BOOKMARK":
                assert version == sent, "a bookmark is ahead of the sent events"
                marked += 1
            sent = version
