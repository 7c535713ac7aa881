from __future__ import annotations

import asyncio
import gzip
import json
import os
import sys
import tracemalloc
import zlib
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from bridge.kube import ApiListerWatcher, ClusterAccess, KubeClient, connect, find_connection
from bridge.kube.auth.connection import RenewedConnection
from bridge.kube.transport import http_client
from bridge.model.answers import (
    Announced,
    Bookmark,
    Busy,
    Expired,
    Failed,
    HungUp,
    ListAnswer,
    ListRequest,
    Match,
    Opened,
    Oversized,
    Page,
    Part,
    Refused,
    Silent,
    TooLarge,
    Unsupported,
    WatchAnswer,
    WatchRequest,
)
from bridge.model.resource import Resource, Scope
from tests.bridge.kube.written import bookmark, line, pod, status
from tests.cluster.servers.ports import reserve_port
from tests.kit.deadlines import BUSY
from tests.kit.records import NODES, PODS
from tests.kit.scripted_server import Exchange, Handler, ScriptedServer, answering, streaming

PATH = "/api/v1/pods"
FIRST = ListRequest(version="0", limit=500)
WATCH = WatchRequest(version="7", timeout=300)
WATCH_LIST = WatchRequest(version="", timeout=300, initial_events=True)

SOON = 10.0 * BUSY
"""Seconds after which a test gives up waiting."""
SILENCE = 0.8
"""Seconds: an idle timeout that a test waits for, and that a pause of the machine does not reach."""


def pods(*items: dict[str, Any], version: str = "41") -> dict[str, Any]:
    return {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": version}, "items": items}


async def list_once(client: KubeClient, request: ListRequest = FIRST, scope: Scope = Scope()) -> ListAnswer:  # noqa: B008
    return await client.lister_watcher(PODS, scope).list(request)


async def watch_whole(client: KubeClient, request: WatchRequest = WATCH, scope: Scope = Scope()) -> list[WatchAnswer]:  # noqa: B008
    async with asyncio.timeout(SOON), client.lister_watcher(PODS, scope).watch(request) as answers:
        return [answer async for answer in answers]


def names(answer: WatchAnswer | ListAnswer) -> list[str]:
    if isinstance(answer, Announced):
        return [thing.name for _, thing in answer.events]
    assert isinstance(answer, Page)
    return [thing.name for thing in answer.objects]


# ── What is asked ────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("request_", "query"),
    [
        (ListRequest(version="0", limit=500), {"limit": "500", "resourceVersion": "0"}),
        (ListRequest(version="", limit=500), {"limit": "500"}),
        (ListRequest(version="", limit=0), {}),
        (
            ListRequest(version="41", limit=500),
            {"limit": "500", "resourceVersion": "41", "resourceVersionMatch": "NotOlderThan"},
        ),
        (ListRequest(version="41", limit=500, next_page="a+b/c="), {"limit": "500", "continue": "a+b/c="}),
    ],
)
async def test_a_list_asks_for_the_version_and_page_it_was_given(
    server: ScriptedServer, client: KubeClient, request_: ListRequest, query: dict[str, str]
) -> None:
    server.on(PATH, answering(pods()))
    assert isinstance(await list_once(client, request_), Page)
    assert server.requests[0].query == query


@pytest.mark.parametrize(
    ("request_", "more"),
    [
        (WATCH, {"resourceVersion": "7"}),
        (WATCH_LIST, {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}),
        (
            WatchRequest(version="7", timeout=300, initial_events=True),
            {"resourceVersion": "7", "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"},
        ),
    ],
)
async def test_a_watch_asks_for_bookmarks_and_its_timeout(
    server: ScriptedServer, client: KubeClient, request_: WatchRequest, more: dict[str, str]
) -> None:
    server.on(PATH, streaming())
    await watch_whole(client, request_)
    assert server.requests[0].query == {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": "300", **more}


async def test_selectors_reach_the_server_verbatim_on_every_page(server: ScriptedServer, client: KubeClient) -> None:
    scope = Scope(
        "shop",
        label_selector="tier=web,env in (a, b),!old,x!=1+1",
        field_selector="metadata.name=web-1,status.phase!=%",
    )
    server.on("/api/v1/namespaces/shop/pods", answering(pods()), answering(pods()), streaming())
    await list_once(client, FIRST, scope)
    await list_once(client, ListRequest(version="", limit=5, next_page="token"), scope)
    await watch_whole(client, WATCH, scope)
    for request in server.requests:
        assert request.path == "/api/v1/namespaces/shop/pods"
        assert request.query["labelSelector"] == scope.label_selector
        assert request.query["fieldSelector"] == scope.field_selector


async def test_a_cluster_scoped_resource_is_asked_without_namespace(server: ScriptedServer, client: KubeClient) -> None:
    server.on("/api/v1/nodes", answering(pods()))
    assert isinstance(await client.lister_watcher(NODES, Scope("shop")).list(FIRST), Page)


async def test_the_path_of_a_server_behind_a_path_is_kept(server: ScriptedServer) -> None:
    server.on("/k8s/clusters/c-1/api/v1/pods", answering(pods()))
    async with connect(ClusterAccess(server=f"{server.url}/k8s/clusters/c-1/")) as client:
        assert isinstance(await list_once(client), Page)


# ── Lists ────────────────────────────────────────────────────────────────────


async def test_a_list_may_come_compressed(server: ScriptedServer, client: KubeClient) -> None:
    body = gzip.compress(json.dumps(pods(pod("a"))).encode())
    server.on(PATH, answering(body, headers={"Content-Encoding": "gzip"}))
    assert names(await list_once(client)) == ["a"]
    assert server.requests[0].headers["accept-encoding"] == "gzip"


async def test_parts_of_a_page_are_passed_on_while_it_comes(server: ScriptedServer, client: KubeClient) -> None:
    whole = json.dumps(pods(*(pod(f"p{number}", spec="x" * 1000) for number in range(1000)))).encode()
    go_on = asyncio.Event()

    async def in_two(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.send(whole[:900_000])
        await go_on.wait()
        await exchange.send(whole[900_000:])
        await exchange.end()

    server.on(PATH, in_two)
    parts: list[Part] = []

    async def take(part: Part) -> None:
        parts.append(part)
        go_on.set()

    answer = await client.lister_watcher(PODS, Scope()).list(FIRST, take)

    assert isinstance(answer, Page)
    assert {part.version for part in parts} == {answer.version} == {"41"}
    found = [thing.name for thing in [*(thing for part in parts for thing in part.objects), *answer.objects]]
    assert found == [f"p{number}" for number in range(1000)]
    assert answer.size == len(whole)


async def test_a_list_with_its_version_last_is_held_within_a_bound(server: ScriptedServer, client: KubeClient) -> None:
    def written(items: int) -> bytes:
        things = [pod(f"p{number}", spec="x" * (1 << 20)) for number in range(items)]
        return json.dumps({"items": things, "kind": "PodList", "metadata": {"resourceVersion": "41"}}).encode()

    async def never(part: Part) -> None:
        raise AssertionError

    server.on(PATH, answering(written(4)), answering(written(20)))
    lister = client.lister_watcher(PODS, Scope())

    assert len(names(await lister.list(FIRST, never))) == 4
    assert await lister.list(FIRST, never) == Oversized("the list has its version at its end, behind more than 16 MiB")


async def test_a_list_that_inflates_to_much_more_takes_no_memory(server: ScriptedServer, client: KubeClient) -> None:
    deflate = zlib.compressobj(1, wbits=31)
    begin, end = json.dumps(pods()).encode().split(b"[]")
    item = json.dumps(pod("p", spec="x" * (1 << 20))).encode()
    bomb = deflate.compress(begin + b"[") + b"".join(deflate.compress(item + b",") for _ in range(40))
    bomb += deflate.compress(item + b"]" + end) + deflate.flush()
    server.on(PATH, answering(bomb, headers={"Content-Encoding": "gzip"}))
    found = 0

    async def take(part: Part) -> None:
        nonlocal found
        found += len(part.objects)

    tracemalloc.start()
    try:
        answer = await client.lister_watcher(PODS, Scope()).list(FIRST, take)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert isinstance(answer, Page)
    assert found + len(answer.objects) == 41
    assert peak < 16 << 20


@pytest.mark.parametrize("cut", [0, 10, 300, -1, -9])
async def test_a_damaged_or_cut_off_compressed_list_is_a_failure(
    server: ScriptedServer, client: KubeClient, cut: int
) -> None:
    body = gzip.compress(json.dumps(pods(*(pod(f"p{number}") for number in range(100)))).encode())
    damaged = body[:cut] if cut else b"\x00" + body
    server.on(PATH, answering(damaged, headers={"Content-Encoding": "gzip"}))
    assert isinstance(await list_once(client), Failed)


@pytest.mark.parametrize("sizes", [[10], [1 << 18], [(1 << 18) - 1, 1], [1 << 20, 5], [3 << 20, 1 << 18, 0, 7]])
async def test_what_is_inflated_in_pieces_is_what_was_compressed(
    server: ScriptedServer, client: KubeClient, sizes: list[int]
) -> None:
    """Also in several members, as some servers write them."""
    text = json.dumps(pods(*(pod(f"p{number}", spec="x" * size) for number, size in enumerate(sizes)))).encode()
    half = len(text) // 2
    server.on(
        PATH, answering(gzip.compress(text[:half]) + gzip.compress(text[half:]), headers={"Content-Encoding": "gzip"})
    )
    answer = await list_once(client)
    assert isinstance(answer, Page)
    assert [len(thing.manifest()["spec"]) for thing in answer.objects] == sizes


async def test_a_list_that_breaks_off_is_a_failure(server: ScriptedServer, client: KubeClient) -> None:
    async def half(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.send(json.dumps(pods(pod()))[:40].encode())
        exchange.cut()

    server.on(PATH, half)
    assert await list_once(client) == Failed(f"the answer of {server.url} broke off")


# ── Errors, in answer to a list and to a watch alike ────────────────────

HTML = b"<html><body><h1>Welcome to the corporate proxy</h1></body></html>"

ERRORS: list[tuple[Handler, WatchAnswer]] = [
    (answering(status(410, "Expired", "too old"), 410), Expired("410 Expired: too old")),
    (
        answering(status(504, "Timeout", "wait", causes=[{"reason": "ResourceVersionTooLarge"}]), 504),
        TooLarge("504 Timeout: wait"),
    ),
    (
        answering(status(504, "Timeout", "Too large resource version: 9, current: 7"), 504),
        TooLarge("504 Timeout: Too large resource version: 9, current: 7"),
    ),
    (answering(status(429, "TooManyRequests", retryAfterSeconds=2), 429), Busy("429 TooManyRequests", 2.0)),
    (
        answering(status(429, "TooManyRequests", retryAfterSeconds=2), 429, headers={"Retry-After": "7"}),
        Busy("429 TooManyRequests", 7.0),
    ),
    (
        answering(b"later", 429, "text/plain", {"Retry-After": "Thu, 01 Jan 1970 00:00:00 GMT"}),
        Busy("429 Too Many Requests: the body is text/plain, not a Status", 0.0),
    ),
    (
        answering(b"down", 503, "text/plain", {"Retry-After": "1"}),
        Busy("503 Service Unavailable: the body is text/plain, not a Status", 1.0),
    ),
    (
        answering(b"much later", 429, headers={"Retry-After": "9" * 400}),
        Busy("429 Too Many Requests: the body is application/json, not a Status", 600.0),
    ),
    (
        answering(b"no zone", 429, headers={"Retry-After": "Thu, 01 Jan 1970 00:00:00"}),
        Busy("429 Too Many Requests: the body is application/json, not a Status", 0.0),
    ),
    (
        answering(b"zone -0000", 429, headers={"Retry-After": "Thu, 01 Jan 1970 00:00:00 -0000"}),
        Busy("429 Too Many Requests: the body is application/json, not a Status", 0.0),
    ),
    (
        answering(b"some day", 503, headers={"Retry-After": "Thu, 99 Xyz 99999999999 00:00:00 GMT"}),
        Failed("503 Service Unavailable: the body is application/json, not a Status"),
    ),
    (answering(status(401, "Unauthorized", "who?"), 401), Refused(401, "401 Unauthorized: who?")),
    (answering(status(403, "Forbidden", "not you"), 403), Refused(403, "403 Forbidden: not you")),
    (
        answering(b"404 page not found\n", 404, "text/plain; charset=utf-8"),
        Refused(404, "404 Not Found: the body is text/plain, not a Status"),
    ),
    (answering(status(405, "MethodNotAllowed"), 405), Refused(405, "405 MethodNotAllowed")),
    (answering(status(500, "InternalError", "etcd"), 500), Failed("500 InternalError: etcd")),
    (answering(status(400, "BadRequest", "bad selector"), 400), Failed("400 BadRequest: bad selector")),
    (answering(HTML, 502, "text/html"), Failed("502 Bad Gateway: the body is text/html, not a Status")),
    (answering(b"{", 500), Failed("500 Internal Server Error: the body is application/json, not a Status")),
    (answering(HTML, 200, "text/html"), Failed("200 with text/html, not application/json: is this the API server?")),
    (
        answering(b"k8s\x00", 200, "application/vnd.kubernetes.protobuf"),
        Failed("200 with application/vnd.kubernetes.protobuf, not application/json: is this the API server?"),
    ),
    (
        answering(b"", 302, headers={"Location": "http://127.0.0.1:1/login"}),
        Failed("302 Found: the body is application/json, not a Status"),
    ),
]


@pytest.mark.parametrize(("handler", "error"), ERRORS, ids=lambda value: getattr(value, "reason", ""))
async def test_an_error_is_the_only_answer_to_a_list_and_to_a_watch(
    server: ScriptedServer, client: KubeClient, handler: Handler, error: WatchAnswer
) -> None:
    server.on(PATH, handler)
    assert await list_once(client) == error
    assert await watch_whole(client) == [error]


@pytest.mark.parametrize("code", [400, 422])
async def test_a_server_that_knows_no_watch_list_wants_a_list(
    server: ScriptedServer, client: KubeClient, code: int
) -> None:
    server.on(PATH, answering(status(code, "Invalid", "sendInitialEvents is forbidden"), code))
    assert await watch_whole(client, WATCH_LIST) == [Unsupported(f"{code} Invalid: sendInitialEvents is forbidden")]
    assert await watch_whole(client, WATCH) == [Failed(f"{code} Invalid: sendInitialEvents is forbidden")]


async def test_an_endless_error_page_is_not_read_to_its_end(server: ScriptedServer, client: KubeClient) -> None:
    hung_up = asyncio.Event()

    async def endless(exchange: Exchange) -> None:
        await exchange.begin(500)
        try:
            while True:
                await exchange.send(b"x" * 4096)
        finally:
            hung_up.set()

    server.on(PATH, endless)
    async with asyncio.timeout(SOON):
        assert isinstance(await list_once(client), Failed)
        await hung_up.wait()


async def test_nobody_listening_is_busy_and_names_the_server() -> None:
    gone = f"http://127.0.0.1:{reserve_port()}"
    async with connect(ClusterAccess(server=gone)) as client:
        answer = Busy(f"cannot connect to {gone}: Connection refused")
        assert await list_once(client) == answer
        assert await watch_whole(client) == [answer]


async def test_a_status_line_in_another_encoding_is_a_failure(server: ScriptedServer, client: KubeClient) -> None:
    async def latin_1(exchange: Exchange) -> None:
        exchange.closes = True
        await exchange.raw(b"HTTP/1.1 500 Erreur pr\xe9vue\r\nContent-Length: 0\r\n\r\n")

    server.on(PATH, latin_1)
    assert isinstance(await list_once(client), Failed)
    assert [type(answer) for answer in await watch_whole(client)] == [Failed]


async def test_a_cookie_is_not_kept(server: ScriptedServer, client: KubeClient) -> None:
    async def setting_a_cookie(exchange: Exchange) -> None:
        exchange.closes = True
        await exchange.raw(b"HTTP/1.1 500 No\r\nSet-Cookie: session=\xff\r\nContent-Length: 0\r\n\r\n")

    server.on(PATH, setting_a_cookie, answering(pods()))
    assert isinstance(await list_once(client), Failed)
    assert isinstance(await list_once(client), Page)
    assert "cookie" not in server.requests[-1].headers


async def test_a_connection_cut_before_the_answer_is_a_failure(server: ScriptedServer, client: KubeClient) -> None:
    async def cut(exchange: Exchange) -> None:
        exchange.cut()

    server.on(PATH, cut)
    for answer in [await list_once(client), *await watch_whole(client)]:
        assert isinstance(answer, Failed)
        assert server.url in answer.reason


async def test_a_list_or_a_watch_that_never_begins_is_given_up(server: ScriptedServer) -> None:
    server.on(PATH, Exchange.hung_up)
    async with asyncio.timeout(SOON), connect(ClusterAccess(server=server.url), answer_timeout=0.1) as client:
        assert await list_once(client) == Failed(f"{server.url} did not answer in time")
        assert await watch_whole(client) == [Failed(f"{server.url} did not answer in time")]


# ── Watches ──────────────────────────────────────────────────────────────────


async def test_a_watch_opens_delivers_events_and_says_how_it_ended(server: ScriptedServer, client: KubeClient) -> None:
    chunk = line("ADDED", pod("a")) + line("MODIFIED", pod("a", "9"))
    server.on(PATH, streaming(chunk, bookmark("12")))
    answers = await watch_whole(client)
    assert [type(answer) for answer in answers] == [Opened, Announced, Bookmark, HungUp]
    assert names(answers[1]) == ["a", "a"]
    assert answers[-1] == HungUp("the stream ended")


async def test_an_event_is_passed_on_as_soon_as_it_comes(server: ScriptedServer, client: KubeClient) -> None:
    found: asyncio.Queue[WatchAnswer] = asyncio.Queue()

    async def one_by_one(exchange: Exchange) -> None:
        await exchange.begin()
        for name in "abc":
            await exchange.send(line("ADDED", pod(name)))
            assert names(await found.get()) == [name]  # Only then comes the next.
        await exchange.end()

    server.on(PATH, one_by_one)
    async with asyncio.timeout(SOON), client.lister_watcher(PODS, Scope()).watch(WATCH) as answers:
        async for answer in answers:
            if isinstance(answer, Announced):
                found.put_nowait(answer)


async def test_a_line_cut_at_the_end_of_the_stream_is_left_out(server: ScriptedServer, client: KubeClient) -> None:
    server.on(PATH, streaming(line("ADDED", pod("a")), line("ADDED", pod("b"))[:30]))
    answers = await watch_whole(client)
    assert names(answers[1]) == ["a"]
    assert answers[2:] == [HungUp("the stream ended in the middle of a line", torn=True)]


async def test_a_status_in_the_middle_of_a_watch_ends_it(server: ScriptedServer, client: KubeClient) -> None:
    server.on(PATH, streaming(line("ADDED", pod("a")), line("ERROR", status(410, "Expired", "too old"))))
    answers = await watch_whole(client)
    assert [type(answer) for answer in answers] == [Opened, Announced, Expired]


async def test_a_broken_connection_is_a_hang_up_after_all_that_came(server: ScriptedServer, client: KubeClient) -> None:
    arrived = asyncio.Event()

    async def cut_off(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.send(line("ADDED", pod("a")))
        await arrived.wait()
        exchange.cut()

    server.on(PATH, cut_off)
    answers = []
    async with asyncio.timeout(SOON), client.lister_watcher(PODS, Scope()).watch(WATCH) as stream:
        async for answer in stream:
            answers.append(answer)
            if isinstance(answer, Announced):
                arrived.set()
    assert [type(answer) for answer in answers] == [Opened, Announced, HungUp]
    assert answers[-1] == HungUp("the connection broke: ClientPayloadError", torn=True)


async def test_silence_ends_a_watch(server: ScriptedServer) -> None:
    async def fall_silent(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.send(bookmark("12"))
        await exchange.hung_up()

    server.on(PATH, fall_silent)
    async with connect(ClusterAccess(server=server.url), idle_timeout=SILENCE) as client:
        assert await watch_whole(client) == [Opened(), Bookmark("12"), Silent(SILENCE)]


async def test_a_watch_with_rare_events_is_not_idle(server: ScriptedServer) -> None:
    async def trickle(exchange: Exchange) -> None:
        await exchange.begin()
        for number in range(8):
            await exchange.send(bookmark(str(number)))
            await asyncio.sleep(SILENCE / 5)  # Together longer than the idle timeout.
        await exchange.end()

    server.on(PATH, trickle)
    async with connect(ClusterAccess(server=server.url), idle_timeout=SILENCE) as client:
        answers = await watch_whole(client)
    assert answers == [Opened(), *(Bookmark(str(number)) for number in range(8)), HungUp("the stream ended")]


async def test_a_consumer_that_takes_its_time_is_not_taken_for_silence(server: ScriptedServer) -> None:
    server.on(PATH, streaming(line("ADDED", pod("a")), bookmark("12")))
    async with connect(ClusterAccess(server=server.url), idle_timeout=SILENCE) as client:
        found = []
        async with asyncio.timeout(SOON), client.lister_watcher(PODS, Scope()).watch(WATCH) as answers:
            async for answer in answers:
                found.append(type(answer))
                if isinstance(answer, Announced):
                    await asyncio.sleep(1.2 * SILENCE)  # As a full DeltaFIFO would.
    assert found in ([Opened, Announced, Bookmark, HungUp], [Opened, Announced, HungUp])
    assert Silent not in found


async def test_a_server_that_does_not_end_a_watch_in_time_is_left(server: ScriptedServer) -> None:
    async def for_ever(exchange: Exchange) -> None:
        await exchange.begin()
        while True:
            await exchange.send(bookmark("12"))
            await asyncio.sleep(0.05)

    server.on(PATH, for_ever)
    async with (
        http_client(RenewedConnection(lambda: find_connection(ClusterAccess(server=server.url)))) as http,
        asyncio.timeout(SOON),
    ):
        lister_watcher = ApiListerWatcher(http, PODS, Scope(), grace=0.3)
        async with lister_watcher.watch(WatchRequest(version="7", timeout=0)) as answers:
            last = [answer async for answer in answers][-1]
    assert last == HungUp("the server did not end the watch after 0 seconds, as requested")


async def test_leaving_the_watch_closes_the_connection_at_once(server: ScriptedServer, client: KubeClient) -> None:
    closed = asyncio.Event()

    async def until_hung_up(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.send(line("ADDED", pod("a")))
        await exchange.hung_up()
        closed.set()

    server.on(PATH, until_hung_up)
    async with asyncio.timeout(SOON):
        async with client.lister_watcher(PODS, Scope()).watch(WATCH) as answers:
            async for answer in answers:
                if isinstance(answer, Announced):
                    break
        await closed.wait()


async def test_a_cancelled_watch_closes_its_connection(server: ScriptedServer, client: KubeClient) -> None:
    opened, closed = asyncio.Event(), asyncio.Event()

    async def until_hung_up(exchange: Exchange) -> None:
        await exchange.begin()
        opened.set()
        await exchange.hung_up()
        closed.set()

    server.on(PATH, until_hung_up)
    async with asyncio.timeout(SOON):
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(watch_whole(client))
            await opened.wait()
            watching.cancel()
        assert watching.cancelled()
        await closed.wait()


async def test_each_watch_has_a_connection_of_its_own(server: ScriptedServer, client: KubeClient) -> None:
    """More than the hundred that clients allow by default: a bridge of many resources must not wait for itself."""
    everyone = asyncio.Barrier(120)

    async def together(exchange: Exchange) -> None:
        await exchange.begin()
        await everyone.wait()
        await exchange.end()

    server.on(PATH, together)
    async with asyncio.timeout(SOON):
        ends = await asyncio.gather(*(watch_whole(client) for _ in range(120)))
    assert ends == [[Opened(), HungUp("the stream ended")]] * 120


@pytest.mark.skipif(sys.platform != "linux", reason="reads the kernel's own table of connections")
async def test_the_system_too_looks_whether_the_other_side_is_there(server: ScriptedServer, client: KubeClient) -> None:
    server.on(PATH, Exchange.begin)
    async with asyncio.timeout(SOON), client.lister_watcher(PODS, Scope()).watch(WATCH) as answers:
        assert await anext(answers) == Opened()
        timer, expires = tcp_timer(server.requests[0].port, server.port)
    assert timer == "02"  # Keep-alive.
    assert 0 < expires <= 30


def tcp_timer(local: int, remote: int) -> tuple[str, float]:
    """The kind of the connection's timer, and the seconds until it expires: proc(5), /proc/net/tcp."""
    for row in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        columns = row.split()
        if columns[1].endswith(f":{local:04X}") and columns[2].endswith(f":{remote:04X}"):
            timer, _, ticks = columns[5].partition(":")
            return timer, int(ticks, 16) / os.sysconf("SC_CLK_TCK")
    raise AssertionError("no such connection")


async def test_a_watch_never_offers_to_take_compressed_bytes(server: ScriptedServer, client: KubeClient) -> None:
    """Kubernetes 1.37 writes a gzip member per flush where it may, and decoders drop all but the first."""

    server.on(PATH, streaming())
    for request in (WATCH, WATCH_LIST):
        await watch_whole(client, request)
    assert {request.headers["accept-encoding"] for request in server.requests} == {"identity"}


async def test_a_watch_that_comes_compressed_all_the_same_is_a_failure(
    server: ScriptedServer, client: KubeClient
) -> None:
    async def compress_anyway(exchange: Exchange) -> None:
        await exchange.begin(headers={"Content-Encoding": "gzip"})
        await exchange.hung_up()

    server.on(PATH, compress_anyway)
    assert await watch_whole(client) == [Failed("the watch is encoded as gzip, which was not requested")]


# ── Paths ────────────────────────────────────────────────────────────────────

OUTLANDISH = ["a/b", "../../../../api/v1/secrets", "%2e%2e%2f%2e%2e", "a?watch=true", "a#b", "a b", "ä", "a\nb", "\x00"]


@pytest.mark.parametrize("name", OUTLANDISH, ids=ascii)
async def test_any_resource_or_namespace_name_is_one_path_segment(
    server: ScriptedServer, client: KubeClient, name: str
) -> None:
    resource = Resource("example.com", "v1", name, "Widget", namespaced=True)

    await client.lister_watcher(resource, Scope(name)).list(ListRequest(version="0", limit=1))
    async with client.lister_watcher(resource, Scope(name)).watch(WatchRequest(version="1", timeout=1)) as answers:
        assert [each async for each in answers]

    for asked in server.requests:
        segments = [unquote(each) for each in asked.path.split("/")]
        assert segments == ["", "apis", "example.com", "v1", "namespaces", name, name]
        assert set(asked.query) <= {
            "limit", "resourceVersion", "resourceVersionMatch", "watch", "allowWatchBookmarks", "timeoutSeconds",
        }  # fmt: skip


@pytest.mark.parametrize("name", [".", ".."])
async def test_a_step_up_is_no_segment(client: KubeClient, name: str) -> None:
    with pytest.raises(ValueError, match="segment"):
        client.lister_watcher(Resource("example.com", "v1", name, "Widget", namespaced=True), Scope())


# ── One object ───────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("scope", "key", "path", "query"),
    [
        (Scope(), "shop/web", "/api/v1/namespaces/shop/pods", {"fieldSelector": "metadata.name=web"}),
        (Scope("shop"), "shop/web", "/api/v1/namespaces/shop/pods", {"fieldSelector": "metadata.name=web"}),
        (
            Scope("shop", "tier=web", "status.phase!=Failed"),
            "shop/web",
            "/api/v1/namespaces/shop/pods",
            {"labelSelector": "tier=web", "fieldSelector": "status.phase!=Failed,metadata.name=web"},
        ),
        (Scope(), "shop/a,b=c", "/api/v1/namespaces/shop/pods", {"fieldSelector": r"metadata.name=a\,b\=c"}),
        (Scope(), "../web", PATH, {"fieldSelector": "metadata.name=web,metadata.namespace=.."}),
    ],
    ids=["of all namespaces", "of one", "of selectors", "an odd name", "a namespace that no path can hold"],
)
async def test_one_object_is_asked_for_where_the_scope_may_be_listed(
    server: ScriptedServer, client: KubeClient, scope: Scope, key: str, path: str, query: dict[str, str]
) -> None:
    server.on(path, answering(pods()))
    request = ListRequest(version="41", limit=0, match=Match.EXACT, only=key)
    assert isinstance(await list_once(client, request, scope), Page)
    assert server.requests[0].query == {"resourceVersion": "41", "resourceVersionMatch": "Exact", **query}


@pytest.mark.parametrize("code", [400, 414, 422, 431])
async def test_a_server_that_cannot_list_one_object_says_so(
    server: ScriptedServer, client: KubeClient, code: int
) -> None:
    server.on("/api/v1/namespaces/shop/pods", answering(status(code, "Invalid"), status=code))
    request = ListRequest(version="", limit=0, only="shop/web")
    assert isinstance(await list_once(client, request), Unsupported)


async def test_an_object_whose_name_fits_no_url_cannot_be_requested(server: ScriptedServer, client: KubeClient) -> None:
    """Names of RBAC's objects have any length: a tenant's Role may be the newest object that is known."""
    request = ListRequest(version="", limit=0, only=f"shop/{'n' * 70_000}")
    answer = await list_once(client, request)
    assert isinstance(answer, Unsupported)
    assert "no URL can hold its name" in answer.reason
    assert server.requests == []


@pytest.mark.parametrize("status", [None, 414, 431])
async def test_a_continue_token_that_no_request_can_carry_expires(
    server: ScriptedServer, client: KubeClient, status: int | None
) -> None:
    """It has the name of the object at the end of the page, which a tenant may have chosen: one page without a token
    follows."""
    if status is not None:
        server.on(PATH, answering(b"", status, "text/plain"))
    request = ListRequest(version="", limit=500, next_page="t" * (70_000 if status is None else 9_000))
    answer = await client.lister_watcher(PODS, Scope()).list(request)
    assert isinstance(answer, Expired)
