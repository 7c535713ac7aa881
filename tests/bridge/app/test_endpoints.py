from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from msgspec.structs import replace

from bridge.app.endpoints import WebServer
from bridge.http.access import TokenFile
from bridge.model.primitives.shard import Shard
from bridge.model.status import BridgeStatus, CircuitState, InformerState, InformerStatus, SinkState, SinkStatus
from tests.cluster.servers.ports import reserve_port
from tests.kit.deadlines import BUSY

PODS = InformerStatus(
    resource="pods", scope="all", state=InformerState.LIVE, synced=True, live=True, objects=3, last_contact=1.25
)
AUDIT = SinkStatus(name="audit", type="kafka", state=SinkState.IDLE)
LIVE = BridgeStatus(informers=(PODS,), sinks=(AUDIT,))
WAITING = replace(AUDIT, state=SinkState.WAITING, last_error="no broker")


def not_live(resource: str, scope: str, state: InformerState, reason: str = "") -> InformerStatus:
    return InformerStatus(resource=resource, scope=scope, state=state, synced=False, live=False, reason=reason)


class ABridge:
    """Has the status that a test sets, and renders it."""

    def __init__(self) -> None:
        self.now = LIVE
        self.is_alive = True

    def status(self) -> BridgeStatus:
        return self.now

    def alive(self) -> bool:
        return self.is_alive

    def render(self, snapshot: BridgeStatus, accept: str) -> tuple[bytes, str]:
        return f"informers {len(snapshot.informers)}, asked for {accept}".encode(), "text/plain; version=0.0.4"

    def server(self, host: str = "127.0.0.1", port: int = 0, token: TokenFile | None = None) -> WebServer:
        return WebServer(host, port, status=self.status, alive=self.alive, metrics=self.render, token=token)


@pytest.fixture
def bridge() -> ABridge:
    return ABridge()


@pytest.fixture
async def port(bridge: ABridge) -> AsyncIterator[int]:
    async with bridge.server() as server:
        yield server.port


@pytest.fixture
async def web(port: int) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False, verify=False) as client:
        yield client


async def _raw(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    async with asyncio.timeout(10 * BUSY):
        writer.write(request)
        await writer.drain()
        answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


async def test_metrics_are_rendered_in_the_requested_format(web: httpx.AsyncClient) -> None:
    answer = await web.get("/metrics", headers={"Accept": "text/plain"})
    assert (answer.status_code, answer.text) == (200, "informers 1, asked for text/plain")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4"


async def test_health_means_that_the_event_loop_runs_and_no_more(web: httpx.AsyncClient, bridge: ABridge) -> None:
    bridge.now = replace(LIVE, informers=(), sinks=(WAITING,))
    assert (await web.get("/healthz")).status_code == 200


async def test_a_stuck_bridge_is_not_healthy(web: httpx.AsyncClient, bridge: ABridge) -> None:
    bridge.is_alive = False
    answer = await web.get("/healthz")
    assert answer.status_code == 503
    assert "only a new process can help" in answer.text


async def test_readiness_needs_every_resource_and_no_sink(web: httpx.AsyncClient, bridge: ABridge) -> None:
    bridge.now = replace(LIVE, sinks=(replace(WAITING, retry_in=3.0),))
    assert (await web.get("/readyz")).status_code == 200
    refused = not_live("widgets.example.com", "all", InformerState.REFUSED, "forbidden")
    bridge.now = replace(bridge.now, informers=(PODS, refused))
    assert (await web.get("/readyz")).status_code == 503


async def test_before_any_resource_is_known_the_bridge_is_not_ready(web: httpx.AsyncClient, bridge: ABridge) -> None:
    bridge.now = replace(LIVE, informers=())
    answer = await web.get("/readyz?verbose")
    assert answer.status_code == 503
    assert "[-] no resource is known yet" in answer.text


async def test_verbose_readiness_names_each_resource_and_each_sink(web: httpx.AsyncClient, bridge: ABridge) -> None:
    hook = SinkStatus(
        name="hook", type="webhook", state=SinkState.WAITING, backlog_records=12, backlog_seconds=61.25,
        dead_letters=3, parked=2, circuit=CircuitState.OPEN, last_error="503 from\nthe receiver", retry_in=2.5,
    )  # fmt: skip
    shy = SinkStatus(
        name="shy", type="webhook", state=SinkState.WAITING, backlog_records=1, backlog_seconds=1.0,
        last_error="503", retry_in=3600.0, asked=3600.0,
    )  # fmt: skip
    bridge.now = BridgeStatus(
        informers=(
            PODS,
            not_live("jobs.batch", "namespace shop", InformerState.REFUSED, "no\nrights"),
            not_live("widgets", "", InformerState.UNKNOWN),
        ),
        sinks=(AUDIT, hook, replace(AUDIT, name="new", backfill="snapshot", backfill_left=40), shy),
    )
    answer = await web.get("/readyz?verbose")
    assert answer.status_code == 503
    until = re.search(r" until=(\S+)", answer.text)
    assert until is not None
    assert 3500 < (datetime.fromisoformat(until[1]) - datetime.now(UTC)).total_seconds() <= 3600
    assert answer.text.replace(until[0], "").splitlines() == [
        "[+] pods (all) live objects=3 last_contact=1.2s",
        "[-] jobs.batch (namespace shop) refused objects=0 reason: no rights",
        "[-] widgets unknown objects=0",
        "[+] intake open",
        "[+] sink audit (kafka) idle backlog=0",
        (
            "[!] sink hook (webhook) waiting backlog=12 backlog_age=61.2s dead_letters=3 parked=2 circuit=open "
            "retry_in=2.5s reason: 503 from the receiver"
        ),
        "[+] sink new (kafka) idle backlog=0 snapshot_left=40",
        "[!] sink shy (webhook) waiting backlog=1 backlog_age=1.0s retry_in=3600.0s asked=3600s reason: 503",
        "readyz check failed",
    ]


async def test_verbose_readiness_names_the_shard(web: httpx.AsyncClient, bridge: ABridge) -> None:
    bridge.now = replace(LIVE, shard=Shard(4, 2))
    answer = await web.get("/readyz?verbose")
    assert "[+] shard 2 of 4 by uid" in answer.text.splitlines()


async def test_verbose_readiness_says_why_nothing_is_read(web: httpx.AsyncClient, bridge: ABridge) -> None:
    bridge.now = replace(LIVE, intake_blocked="sink hook is at\nits max_backlog")
    answer = await web.get("/readyz?verbose")
    assert answer.status_code == 503
    assert answer.text.splitlines() == [
        "[+] pods (all) live objects=3 last_contact=1.2s",
        "[-] intake blocked reason: sink hook is at its max_backlog",
        "[+] sink audit (kafka) idle backlog=0",
        "readyz check failed",
    ]


@pytest.mark.parametrize("path", ["/metrics", "/healthz", "/readyz"])
async def test_head_is_answered_without_a_body(web: httpx.AsyncClient, path: str) -> None:
    answer = await web.head(path)
    assert (answer.status_code, answer.content) == (200, b"")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_nothing_can_be_changed_here(web: httpx.AsyncClient, method: str) -> None:
    answer = await web.request(method, "/metrics")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET,HEAD"


@pytest.mark.parametrize("path", ["/", "/metrics/", "/../etc/passwd", "/debug"])
async def test_other_paths_do_not_exist(web: httpx.AsyncClient, path: str) -> None:
    assert (await web.get(path)).status_code == 404


async def test_answers_are_not_stored_and_not_sniffed(web: httpx.AsyncClient) -> None:
    for path in ("/metrics", "/readyz", "/nowhere"):
        answer = await web.get(path)
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:9", "[::1]:8080"])
async def test_on_loopback_a_local_name_is_answered(web: httpx.AsyncClient, host: str) -> None:
    assert (await web.get("/metrics", headers={"Host": host})).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "10.0.0.7:8080", "127.0.0.1.evil.example", "[", ""])
async def test_on_loopback_a_foreign_name_is_refused(web: httpx.AsyncClient, host: str) -> None:
    answer = await web.get("/metrics", headers={"Host": host})
    assert answer.status_code == 421
    assert "informers" not in answer.text


async def test_on_every_interface_a_kubelet_may_ask_by_pod_address(bridge: ABridge) -> None:
    async with (
        bridge.server("0.0.0.0") as server,
        httpx.AsyncClient(trust_env=False, verify=False) as client,
    ):
        probe = f"http://127.0.0.1:{server.port}/healthz"
        assert (await client.get(probe, headers={"Host": "10.1.2.3:8080"})).status_code == 200


async def test_verbose_readiness_has_no_terminal_escapes(web: httpx.AsyncClient, bridge: ABridge) -> None:
    hostile = "\x1b[2J\x9b31m\u202egnp\u2028two\x7f"
    bridge.now = BridgeStatus(
        informers=(not_live(hostile, hostile, InformerState.REFUSED, hostile),),
        sinks=(replace(AUDIT, name=hostile, last_error=hostile),),
        intake_blocked=hostile,
    )
    answer = (await web.get("/readyz?verbose")).text
    assert {letter for letter in answer if not letter.isprintable()} == {"\n"}
    assert len(answer.splitlines()) == 4


# ── Details are not for everybody ────────────────────────────────────────────

DETAIL = "[+] pods"
SHORT = (
    "ok\ndetails need the token of telemetry.details_token_file, or, without that option, a request from the bridge's"
    " own machine\n"
)


@pytest.fixture
async def open_port(bridge: ABridge) -> AsyncIterator[int]:
    """A server on every interface, without a token."""
    async with bridge.server("0.0.0.0") as server:
        yield server.port


@pytest.fixture
async def guarded_port(bridge: ABridge, tmp_path: Path) -> AsyncIterator[int]:
    """A server on every interface, with a token."""
    (tmp_path / "token").write_text("s3cret-of-the-operator\n")
    async with bridge.server("0.0.0.0", token=TokenFile(tmp_path / "token")) as server:
        yield server.port


async def _verbose(port: int, **headers: str) -> str:
    async with httpx.AsyncClient(trust_env=False, verify=False) as client:
        answer = await client.get(f"http://127.0.0.1:{port}/readyz?verbose", headers=headers)
        assert answer.status_code == 200
        return answer.text


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "10.1.2.3:8080"},
        {"X-Forwarded-For": "10.1.2.3"},
        {"X-Forwarded-Proto": "http"},
        {"X-Request-Id": "1"},
        {"Forwarded": "for=10.1.2.3"},
        {"Via": "1.1 proxy"},
    ],
    ids=lambda headers: next(iter(headers)),
)
async def test_only_this_machine_sees_the_details_without_a_token(open_port: int, headers: dict[str, str]) -> None:
    """What a proxy here passes on is not of this machine."""
    assert DETAIL in await _verbose(open_port)
    assert await _verbose(open_port, **headers) == SHORT


async def test_with_a_token_its_holder_alone_sees_the_details(guarded_port: int, tmp_path: Path) -> None:
    assert await _verbose(guarded_port) == SHORT, "nobody is taken for local"
    foreign = {"Host": "10.1.2.3:8080"}
    assert DETAIL in await _verbose(guarded_port, **foreign, Authorization="Bearer s3cret-of-the-operator")
    for wrong in ("Bearer s3cret", "Bearer", "Basic s3cret-of-the-operator"):
        assert await _verbose(guarded_port, **foreign, Authorization=wrong) == SHORT
    (tmp_path / "token").write_text("rotated")
    assert await _verbose(guarded_port, **foreign, Authorization="Bearer s3cret-of-the-operator") == SHORT
    assert DETAIL in await _verbose(guarded_port, **foreign, Authorization="Bearer rotated")


@pytest.mark.parametrize("content", ["", " \n", "two words", "line\nline", "é", "x" * 5000])
def test_a_file_that_holds_no_token_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "token").write_text(content)
    with pytest.raises(ValueError, match="token"):
        TokenFile(tmp_path / "token").read()
    assert not TokenFile(tmp_path / "token").opens(f"Bearer {content}")


# ── What clients may send ────────────────────────────────────────────────────


async def test_a_body_is_not_waited_for(port: int) -> None:
    request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\nConnection: close\r\n\r\n{"
    assert b"200 OK" in await _raw(port, request)


async def test_an_address_in_use_is_an_os_error(bridge: ABridge, port: int) -> None:
    with pytest.raises(OSError, match="in use"):
        await bridge.server(port=port).start()


async def test_a_stopped_server_has_let_go_of_its_port(bridge: ABridge) -> None:
    port = reserve_port()
    async with bridge.server(port=port):
        pass
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
