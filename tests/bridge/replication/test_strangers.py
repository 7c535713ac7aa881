"""Who has not the redaction key gets nothing and changes nothing, even with a forged Lease."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp
import msgspec
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from bridge.model.status import PauseCause
from bridge.replication import wire
from bridge.replication.following import Leader
from bridge.replication.identity import SharedSecret, new_identity
from tests.bridge.replication.pair import BRIDGE, KEY, Following, Leading, following, in_sync, leading
from tests.kit.copied_states import history_in, rows_of_all_tables
from tests.kit.deadlines import until

OTHER_KEY = b"o" * 32


async def failure(follower: Following) -> str:
    """The reason for which it does not follow."""
    await until(lambda: follower.failures)
    return follower.failures[0]


@asynccontextmanager
async def with_the_key(leader: Leading, token: str = "") -> AsyncGenerator[aiohttp.ClientWebSocketResponse]:
    """A connection of somebody who has the leader's key, or only this token."""
    secret = SharedSecret([KEY], BRIDGE, leader.identity.fingerprint)
    headers = {"Authorization": token or secret.authorization, wire.NONCE: "0" * 16}
    pin = aiohttp.Fingerprint(bytes.fromhex(leader.identity.fingerprint))
    url = f"wss://{leader.address.address}{wire.PATH}"
    async with aiohttp.ClientSession() as session, session.ws_connect(url, ssl=pin, headers=headers) as socket:
        yield socket


async def hears_the_end(socket: aiohttp.ClientWebSocketResponse) -> None:
    while (await socket.receive()).type is aiohttp.WSMsgType.BINARY:
        pass


async def test_a_follower_with_another_key_is_refused(tmp_path: Path) -> None:
    async with leading(tmp_path / "a", term=1) as leader:
        async with following(tmp_path / "b", leader.address, keys=[OTHER_KEY]) as follower:
            assert "401" in await failure(follower)
        assert leader.replicator.lags() == {}


@pytest.mark.parametrize(
    ("leaders", "followers"), [([KEY], [OTHER_KEY, KEY]), ([OTHER_KEY, KEY], [KEY]), ([OTHER_KEY, KEY], [OTHER_KEY])]
)
async def test_one_key_in_common_is_enough(tmp_path: Path, leaders: list[bytes], followers: list[bytes]) -> None:
    """While a key is renewed, replica by replica."""
    async with (
        leading(tmp_path / "a", term=1, keys=leaders) as leader,
        in_sync(tmp_path / "b", leader, keys=followers) as follower,
    ):
        assert follower.failures == []


@pytest.mark.parametrize(
    "authorization", ["", "Bearer ", "Bearer .", "Bearer " + ".".join(["0" * 64] * 100), "Basic x", "Bearer \udcff"]
)
def test_what_is_no_token_opens_nothing(authorization: str) -> None:
    secret = SharedSecret([KEY, OTHER_KEY], BRIDGE, "0")
    assert not secret.opens(authorization)
    assert not secret.opens(secret.authorization.removeprefix("Bearer "))
    assert not secret.proves("nonce", authorization)


async def test_a_header_of_other_bytes_is_refused_as_any_other(tmp_path: Path) -> None:
    async with leading(tmp_path / "a", term=1) as leader:
        trusting = ssl.create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        reader, writer = await asyncio.open_connection("127.0.0.1", leader.server.port, ssl=trusting)
        writer.write(b"GET /replication HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \xff\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 401 ")
        writer.close()


async def test_a_follower_speaks_to_no_server_with_another_certificate(tmp_path: Path) -> None:
    async with leading(tmp_path / "a", term=1) as leader:
        forged = Leader(leader.address.address, "00" * 32, 1)
        async with following(tmp_path / "b", forged) as follower:
            assert await failure(follower)
        assert leader.replicator.lags() == {}


@pytest.mark.parametrize("fingerprint", ["", "zz", "abc", "00"])
async def test_a_fingerprint_that_is_none_is_said(tmp_path: Path, fingerprint: str) -> None:
    async with following(tmp_path / "b", Leader("127.0.0.1:1", fingerprint, 1)) as follower:
        assert "fingerprint" in await failure(follower)


async def test_a_false_leader_changes_nothing_and_learns_no_token(tmp_path: Path) -> None:
    """Whoever writes the Lease puts the own address and fingerprint there, and gets the follower's token."""
    async with leading(tmp_path / "a", term=1) as leader, in_sync(tmp_path / "b", leader):
        pass
    before = rows_of_all_tables(tmp_path / "b")
    identity = await asyncio.to_thread(new_identity, tmp_path)
    tokens: list[str] = []

    async def pretend(request: web.Request) -> web.WebSocketResponse:
        tokens.append(request.headers["Authorization"])
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        proof = SharedSecret([OTHER_KEY], BRIDGE, identity.fingerprint).proof(request.headers[wire.NONCE])
        await socket.send_bytes(wire.encode(wire.Welcome(proof)))
        await socket.send_bytes(wire.encode(wire.BaseCopyBegins(1 << 20)))
        await socket.send_bytes(wire.encode(wire.NextPart(b"x" * 1000)))
        await socket.receive()
        return socket

    app = web.Application()
    app.router.add_get(wire.PATH, pretend)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=identity.context)
    await site.start()
    try:
        port = runner.addresses[0][1]
        async with following(tmp_path / "b", Leader(f"127.0.0.1:{port}", identity.fingerprint, 9)) as follower:
            assert "redaction key" in await failure(follower)
    finally:
        await runner.cleanup()
    assert rows_of_all_tables(tmp_path / "b") == before
    async with leading(tmp_path / "a", term=2) as leader:
        assert not SharedSecret([KEY], BRIDGE, leader.identity.fingerprint).opens(tokens[0])


async def test_who_breaks_the_protocol_with_the_key_ends_alone(tmp_path: Path) -> None:
    async with leading(tmp_path / "a", term=1) as leader, in_sync(tmp_path / "b", leader):
        point = leader.replicator.in_sync.newest
        mark = history_in(tmp_path / "a").terms[-1].mark
        hello = wire.FollowerHello("c-1", "c", "prod", "", 10**6, 10**6, 1, mark, point)
        for says in (
            [b""],
            [b"\xc1"],
            [wire.encode(wire.CommitAcknowledged(1))],
            [wire.encode(hello), wire.encode(hello)],
            [wire.encode(hello), wire.encode(wire.CommitAcknowledged(point + 1000))],
            [wire.encode(msgspec.structs.replace(hello, run=""))],
        ):
            async with with_the_key(leader) as socket:
                for each in says:
                    await socket.send_bytes(each)
                await hears_the_end(socket)
        await leader.lease.until({"follower-1"})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"cluster": "test"}, "this is a bridge of the cluster 'prod', and not of 'test'"),
        ({"shard": "1-of-2"}, "this is the shard of all objects, and not 1-of-2"),
        ({"newest_format": 1}, "run the leader's version"),
    ],
)
async def test_a_replica_that_cannot_follow_gets_the_reason(
    tmp_path: Path, change: dict[str, str | int], reason: str
) -> None:
    async with leading(tmp_path / "a", term=1) as leader:
        hello = msgspec.structs.replace(wire.FollowerHello("c-1", "c", "prod", "", 0, 10**6), **change)
        async with with_the_key(leader) as socket:
            assert isinstance(await wire.heard(socket), wire.Welcome)
            await socket.send_bytes(wire.encode(hello))
            refused = await wire.heard(socket)
    assert isinstance(refused, wire.FollowerRefused)
    assert reason in refused.reason


async def test_a_token_of_an_earlier_term_opens_nothing(tmp_path: Path) -> None:
    async with leading(tmp_path / "a", term=1) as leader:
        token = SharedSecret([KEY], BRIDGE, leader.identity.fingerprint).authorization
    async with leading(tmp_path / "a", term=2) as leader:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            async with with_the_key(leader, token):
                pass
        assert refused.value.status == 401
        assert leader.replicator.lags() == {}


@pytest.mark.parametrize("says", [b"", b"\x16\x03\x01\x02\x00\x01", b"GET /replication HTTP/1.1\r\n", b"x" * 100_000])
async def test_connections_that_say_half_of_something_hold_up_nobody(tmp_path: Path, says: bytes) -> None:
    async with leading(tmp_path / "a", term=1) as leader, in_sync(tmp_path / "b", leader) as follower:
        writers = []
        for _ in range(60):
            _, writer = await asyncio.open_connection("127.0.0.1", leader.server.port)
            writer.write(says)
            writers.append(writer)
        await leader.outbox.sinks.pause("audit", PauseCause.OPERATOR)
        await follower.until(leader.replicator.in_sync.newest)
        assert follower.failures == []
        assert leader.lease.runs == {"follower-1"}
        for writer in writers:
            writer.close()


@pytest.mark.parametrize("size", [wire.MOST + 1, 8 * wire.MOST])
async def test_a_message_that_is_too_large_ends_its_connection_alone(tmp_path: Path, size: int) -> None:
    """Of a replica that has the key."""
    async with leading(tmp_path / "a", term=1) as leader, in_sync(tmp_path / "b", leader) as follower:
        async with with_the_key(leader) as socket:
            with suppress(ConnectionError):
                await socket.send_bytes(b"\x00" * size)
            await hears_the_end(socket)
        assert list(leader.replicator.lags()) == ["follower-1"]
        assert follower.failures == []


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_none(message: bytes) -> None:
    with suppress(wire.ProtocolBroken):
        assert isinstance(wire.decode(message), msgspec.Struct)


def test_a_secret_belongs_to_a_bridge_and_a_leader() -> None:
    tokens = {
        SharedSecret([key], bridge, fingerprint).authorization
        for key in (KEY, OTHER_KEY)
        for bridge in ("a", "b")
        for fingerprint in ("0", "1")
    }
    assert len(tokens) == 8
