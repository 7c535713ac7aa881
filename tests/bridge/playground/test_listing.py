"""Lists and pages, where no real server is at hand to compare with."""

from __future__ import annotations

import asyncio

import httpx

from bridge.playground.simulation import manifests
from tests.bridge.playground.conftest import client_of
from tests.kit.playground import Playground

MAPS = "/api/v1/namespaces/default/configmaps"


async def _names(http: httpx.AsyncClient, path: str) -> list[str]:
    return [each["metadata"]["name"] for each in (await http.get(path)).json()["items"]]


async def test_pages_continue_where_the_last_one_ended(server: Playground, http: httpx.AsyncClient) -> None:
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


async def test_an_expired_token_is_410_and_offers_the_current_rest(server: Playground, http: httpx.AsyncClient) -> None:
    for name in "abc":
        server.create("configmaps", manifests.config_map(name))
    token = (await http.get(f"{MAPS}?limit=1")).json()["metadata"]["continue"]
    server.delete("configmaps", "b")
    server.misbehave.expire_history()
    answer = await http.get(f"{MAPS}?continue={token}")
    assert answer.status_code == 410
    assert answer.json()["reason"] == "Expired"
    assert await _names(http, f"{MAPS}?continue={answer.json()['metadata']['continue']}") == ["c"]


async def test_a_list_at_an_exact_version_shows_what_was_then(server: Playground, http: httpx.AsyncClient) -> None:
    then = server.create("configmaps", manifests.config_map("a"))["metadata"]["resourceVersion"]
    server.create("configmaps", manifests.config_map("b"))
    server.delete("configmaps", "a")
    exact = f"{MAPS}?resourceVersionMatch=Exact&resourceVersion={then}"
    assert await _names(http, exact) == ["a"]
    assert await _names(http, f"{MAPS}?resourceVersion={then}&limit=5") == ["a"]
    assert await _names(http, f"{MAPS}?resourceVersion={then}") == ["b"]
    assert await _names(http, f"{MAPS}?resourceVersion={then}&resourceVersionMatch=NotOlderThan") == ["b"]
    server.misbehave.expire_history()
    assert (await http.get(exact)).status_code == 410


async def test_a_version_that_comes_in_time_is_answered() -> None:
    async with Playground(version_wait=30) as server, client_of(server) as http:
        soon = int(server.version) + 1
        async with asyncio.TaskGroup() as group:
            asked = group.create_task(http.get(f"{MAPS}?resourceVersion={soon}"))
            await server.until(lambda: bool(server.seen("list", "configmaps")))
            server.create("configmaps", manifests.config_map("a"))
        assert len(asked.result().json()["items"]) == 1


async def test_a_long_list_is_compressed_for_those_who_accept_it(server: Playground, http: httpx.AsyncClient) -> None:
    server.create("configmaps", manifests.config_map("a", {"k": "x" * 200_000}))
    zipped = await http.get(MAPS)
    plain = await http.get(MAPS, headers={"Accept-Encoding": "identity"})
    assert zipped.headers["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in plain.headers
    assert zipped.json() == plain.json()
