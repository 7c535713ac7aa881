"""The NATS sink against a real server. What every sink must do is examined in tests/contracts."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import nats
import nkeys
import pytest
from msgspec.structs import replace as replace_fields
from nats.js.api import DiscardPolicy, RetentionPolicy, StreamConfig, StreamSource

from bridge.model.record import Delta, Record
from config.values import Duration
from sinks.base import ALL_STORED, Receipt, SinkContext, SinkUnavailable, WrongOption
from sinks.nats.encode import ROOM_FOR_SEQUENCE
from sinks.nats.options import NatsOptions
from sinks.nats.sink import NatsSink
from tests.cluster.fixtures import MakeStream, NatsStream, StartNats
from tests.cluster.servers import Nats
from tests.cluster.servers.ports import reserve_port
from tests.kit.certificates import Authority
from tests.kit.deadlines import BUSY, until
from tests.kit.records import a_delta, a_gap, changes, ids_of
from tests.kit.sinks import deliver_once, failure_of, opened_sink, until_stored

MADE = Receipt(created="stream K8S")
MADE_AGAIN = "stream K8S was deleted and created again"
K8S = NatsStream("K8S", "k8s")
"""Of a test's own server."""


def the_sink(server: Nats, stream: str, prefix: str, **options: Any) -> NatsSink:
    subject = f"{prefix}.{{resource}}.{{namespace}}.{{name}}"
    settings = {"servers": [server.url], "stream": stream, "subject": subject, **options}
    return NatsSink("live", NatsOptions.model_validate(settings), cluster="prod")


@asynccontextmanager
async def opened(server: Nats, stream: NatsStream, **options: Any) -> AsyncIterator[NatsSink]:
    sink = the_sink(server, stream.name, stream.prefix, **options)
    async with opened_sink(sink):
        yield sink


async def ids_in(server: Nats, stream: NatsStream, header: str = "Nats-Msg-Id") -> list[str]:
    return [record.headers[header] for record in await server.read_all(stream.name)]


async def test_one_byte_beyond_the_servers_maximum_is_rejected(start_nats: StartNats, tmp_path: Path) -> None:
    """Also for the new id of a record that the stream has lost: the server would close the connection, each time."""
    (tmp_path / "nats.conf").write_text("max_payload: 20000\n")
    server = start_nats("-c", str(tmp_path / "nats.conf"))
    async with opened(server, K8S, create_stream={}) as sink, await nats.connect(server.url) as operator:
        headers = sink._encoder.encode(a_delta(5)).size - len(a_delta(5).body)
        body = b'"' + b"x" * (20_000 - ROOM_FOR_SEQUENCE - headers - 2) + b'"'
        large, last = a_delta(5, body=body), a_delta(10, key="shop/web-3")
        assert await sink.deliver([large]) == MADE
        receipt = await sink.deliver(
            [a_delta(6), a_delta(7, body=body + b" "), a_delta(8, key="shop/web-2"), a_delta(9)]
        )
        await operator.jetstream().delete_msg("K8S", 1)
        again = await sink.deliver([large, last])

    assert list(receipt.rejected) == [1]
    assert receipt.rejected[1].endswith(", and 51 for the number of the message before it; the server takes 20000")
    assert (receipt.pending, receipt.failure) == ([3], None), "of the same object, and so not sent"
    assert (list(again.rejected), list(again.pending), again.failure) == ([0], [], None)
    assert again.rejected[0].endswith("the server takes 20000")
    assert await ids_in(server, K8S) == ids_of([a_delta(6), a_delta(8, key="shop/web-2"), last])


async def test_a_full_stream_fails_the_batch_and_nothing_overtakes(nats_server: Nats, nats_stream: MakeStream) -> None:
    stream = await nats_stream(max_msgs=10, discard=DiscardPolicy.NEW)
    batch = changes(30)
    async with opened(nats_server, stream) as sink:
        receipt = await sink.deliver(batch)

    assert list(receipt.pending) == list(range(10, 30))
    assert failure_of(receipt).endswith("(the stream is full)")
    assert await ids_in(nats_server, stream) == ids_of(batch[:10])


async def test_a_missing_stream_is_reported_or_made(nats_server: Nats) -> None:
    name = "made-by-the-sink"
    with pytest.raises(
        SinkUnavailable, match=rf"no stream {name}; create it for made\.\*\.\*\.\*, or set create_stream"
    ):
        await the_sink(nats_server, name, "made").open(SinkContext())
    with pytest.raises(SinkUnavailable, match="or set create_stream"):
        await the_sink(nats_server, name, "made").check()

    sink = the_sink(nats_server, name, "made", create_stream={"max_age": 3600, "duplicate_window": 120})
    async with opened_sink(sink):
        assert await sink.deliver(changes(5)) == Receipt(created=f"stream {name}")
        async with await nats.connect(nats_server.url) as connection:
            config = (await connection.jetstream().stream_info(name)).config
            assert (config.subjects, config.max_age, config.duplicate_window) == (["made.*.*.*"], 3600, 120)
            await connection.jetstream().delete_stream(name)


@pytest.mark.parametrize("sole_writer", [True, False])
async def test_a_stream_that_is_deleted_under_the_sink_is_made_again(start_nats: StartNats, sole_writer: bool) -> None:
    server = start_nats()
    create = {"create_stream": {"max_age": 3600}, "sole_writer": sole_writer}
    async with opened(server, K8S, **create) as sink, await nats.connect(server.url) as operator:
        assert await sink.deliver(changes(30)) == MADE
        await operator.jetstream().delete_stream("K8S")
        assert await sink.deliver(changes(30, first=31)) == replace(MADE, lost=MADE_AGAIN)
        assert await sink.deliver(changes(30, first=61)) == ALL_STORED
        assert (await operator.jetstream().stream_info("K8S")).config.max_age == 3600

    first, *rest = await ids_in(server, K8S)
    assert first == "gap/1/30"
    assert sorted(rest) == sorted(ids_of(changes(60, first=31)))


async def test_a_deleted_stream_that_may_not_be_made_is_reported(nats_server: Nats, nats_stream: MakeStream) -> None:
    stream = await nats_stream()
    async with opened(nats_server, stream) as sink, await nats.connect(nats_server.url) as operator:
        assert await sink.deliver(changes(5)) == ALL_STORED
        await operator.jetstream().delete_stream(stream.name)
        receipt = await sink.deliver(changes(5, first=6))
        assert list(receipt.pending) == [0, 1, 2, 3, 4]
        assert receipt.failure is not None
        assert receipt.failure.unavailable
        assert f"has no stream {stream.name}; create it for {stream.prefix}.*.*.*, or set" in failure_of(receipt)

        await operator.jetstream().add_stream(name=stream.name, subjects=[f"{stream.prefix}.>"])
        lost = Receipt(lost=f"stream {stream.name} was deleted and created again")
        assert await sink.deliver(changes(5, first=6)) == lost

    assert await ids_in(nats_server, stream) == ["gap/1/5", *ids_of(changes(5, first=6))]


@pytest.mark.parametrize("rounds", [8, pytest.param(100, marks=pytest.mark.soak)])
async def test_a_stream_that_vanishes_under_a_batch_loses_no_record(start_nats: StartNats, rounds: int) -> None:
    """The server answers nothing to messages that it had read before, so that the sink waits for its timeout."""
    server, made = start_nats(), 0

    async def deliver(sink: NatsSink, left: Sequence[Delta]) -> None:
        nonlocal made
        while left:
            receipt = await sink.deliver(left)
            made += receipt.created == "stream K8S"
            left = [left[place] for place in receipt.pending]

    create = {"create_stream": {}, "ack_timeout": 1.0}
    async with opened(server, K8S, **create) as sink, await nats.connect(server.url) as operator:
        await deliver(sink, changes(5))
        for first in range(1000, 1000 * (rounds + 1), 1000):
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(operator.jetstream().delete_stream("K8S"))
                await deliver(sink, changes(300, first=first))
            last = changes(1, first=first + 900)
            await deliver(sink, last)
            assert (await ids_in(server, K8S))[-1:] == ids_of(last)

    assert made == 1 + rounds, "each time"


# ── Duplicates that were not stored ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("sole_writer", [True, False])
async def test_false_duplicates_of_a_purged_stream_are_stored_in_order(
    nats_server: Nats, nats_stream: MakeStream, sole_writer: bool
) -> None:
    """As after a purge and a new state directory. A kill may come in between: each new sink knows nothing of it."""
    stream, batch = await nats_stream(), changes(60)
    async with await nats.connect(nats_server.url) as operator:
        for round_ in range(1, 4):
            for part in (batch, batch) if round_ == 1 else (batch[:25], batch, batch):
                async with opened(nats_server, stream, sole_writer=sole_writer) as sink:
                    assert await sink.deliver(part) == ALL_STORED
            stored = await nats_server.read_all(stream.name)
            assert len(stored) == 60, f"each once, in round {round_}"
            assert len({each.headers["Nats-Msg-Id"] for each in stored}) == 60
            for key in {record.key for record in batch}:
                expected = [record.id for record in batch if record.key == key]
                assert [
                    e.headers["ce-id"] for e in stored if e.headers["ce-subject"].endswith(f"/{key[5:]}")
                ] == expected
            await operator.jetstream().purge_stream(stream.name)


async def test_only_duplicates_deleted_by_an_operator_are_sent_again(
    nats_server: Nats, nats_stream: MakeStream
) -> None:
    stream = await nats_stream()
    batch = [a_delta(n, key=f"shop/web-{n}") for n in range(1, 31)]
    async with opened(nats_server, stream) as sink:
        assert await sink.deliver(batch) == ALL_STORED
        async with await nats.connect(nats_server.url) as operator:
            for sequence in (5, 6, 20):
                await operator.jetstream().delete_msg(stream.name, sequence)
        assert await sink.deliver(batch) == ALL_STORED

    stored = await ids_in(nats_server, stream)
    kept = [each for place, each in enumerate(ids_of(batch), 1) if place not in (5, 6, 20)]
    assert stored[:27] == kept
    assert stored[27:] == [f"{batch[n - 1].id}/again/{n}" for n in (5, 6, 20)]


@pytest.mark.parametrize("keep", [1, 2, 5])
async def test_after_a_partial_purge_each_object_ends_with_its_newest(
    nats_server: Nats, nats_stream: MakeStream, keep: int
) -> None:
    stream = await nats_stream()
    batch = changes(12, keys=2)
    async with opened(nats_server, stream) as sink:
        assert await sink.deliver(batch) == ALL_STORED
    async with await nats.connect(nats_server.url) as operator:
        await operator.jetstream().purge_stream(stream.name, keep=keep)
    async with opened(nats_server, stream) as sink:
        assert await sink.deliver(batch) == ALL_STORED

    last: dict[str, str] = {}
    for message in await nats_server.read_all(stream.name):
        last[message.subject] = message.headers["ce-id"]
    assert sorted(last.values()) == sorted(ids_of(batch[-2:]))
    assert {each.headers["ce-id"] for each in await nats_server.read_all(stream.name)} == set(ids_of(batch))


async def test_of_messages_that_a_stream_removes_only_purged_ones_are_sent_again(
    nats_server: Nats, nats_stream: MakeStream
) -> None:
    newest, queue = await nats_stream(max_msgs_per_subject=1), await nats_stream(retention=RetentionPolicy.WORK_QUEUE)
    batch = changes(20, keys=3)
    async with await nats.connect(nats_server.url) as other:
        for _ in range(2):
            for _ in range(2):
                async with opened(nats_server, newest) as sink:
                    assert await sink.deliver(batch) == ALL_STORED
            assert sorted(await ids_in(nats_server, newest, "ce-id")) == sorted(ids_of(batch[-3:]))
            await other.jetstream().purge_stream(newest.name)

        async with opened(nats_server, queue) as sink:
            assert await sink.deliver(batch) == ALL_STORED
            subscription = await other.jetstream().pull_subscribe(f"{queue.prefix}.>", "workers", stream=queue.name)
            for message in await subscription.fetch(20):
                await message.ack_sync()
            assert await sink.deliver(batch) == ALL_STORED
        assert (await other.jetstream().stream_info(queue.name)).state.messages == 0


async def test_a_replay_inside_the_duplicate_window_is_stored_once(nats_server: Nats, nats_stream: MakeStream) -> None:
    stream = await nats_stream()
    batch: list[Record] = [*changes(20)]
    replayed = [replace_fields(record, replay=7) for record in batch]
    async with opened(nats_server, stream) as sink:
        assert await sink.deliver(batch) == ALL_STORED
        assert await sink.deliver([replace_fields(a_gap(), replay=7)]) == ALL_STORED
        assert await sink.deliver(replayed[:12]) == ALL_STORED
    async with opened(nats_server, stream) as sink:
        assert await sink.deliver(replayed) == ALL_STORED

    stored = await nats_server.read_all(stream.name)
    assert [each.headers["Nats-Msg-Id"] for each in stored[:20]] == ids_of(batch)
    assert stored[20].headers["Nats-Msg-Id"] == f"{a_gap().id}/replay/7"
    assert [each.headers["Nats-Msg-Id"] for each in stored[21:]] == [f"{each}/replay/7" for each in ids_of(batch)]
    assert [each.headers["ce-id"] for each in stored[21:]] == ids_of(batch)
    assert {each.headers["ce-source"] for each in stored} == {"/clusters/prod"}


async def test_a_subject_of_another_stream_fails_the_batch(nats_server: Nats, nats_stream: MakeStream) -> None:
    ours, theirs = await nats_stream(), await nats_stream()
    async with opened(nats_server, NatsStream(ours.name, theirs.prefix)) as sink:
        receipt = await sink.deliver(changes(3))

    assert list(receipt.pending) == [0, 1, 2]
    assert "another stream takes this subject" in failure_of(receipt)


async def test_two_sinks_share_a_stream_if_configured_so(nats_server: Nats, nats_stream: MakeStream) -> None:
    stream = await nats_stream()
    mine, theirs = changes(300, keys=20), changes(300, keys=20, first=1001)
    async with (
        opened(nats_server, stream, sole_writer=False) as one,
        opened(nats_server, stream, sole_writer=False) as other,
    ):
        assert list(await asyncio.gather(one.deliver(mine), other.deliver(theirs))) == [ALL_STORED] * 2

    found = await ids_in(nats_server, stream)
    for batch in (mine, theirs):
        for key in {record.key for record in batch}:
            expected = [record.id for record in batch if record.key == key]
            assert [each for each in found if each in set(expected)] == expected


async def test_a_second_writer_that_was_not_announced_is_found_out(nats_server: Nats, nats_stream: MakeStream) -> None:
    stream = await nats_stream()
    batch = changes(500)
    received = set()
    async with opened(nats_server, stream) as sink, await nats.connect(nats_server.url) as intruder:
        left: list[Delta] = batch
        for _ in range(100):
            for _ in range(50):
                await intruder.publish(f"{stream.prefix}.intruder", b"")
            _, receipt = await asyncio.gather(intruder.flush(), sink.deliver(left))
            left = [left[place] for place in receipt.pending]
            if not left:
                break
            received.add(failure_of(receipt))

    assert not left
    assert all("another publisher writes into the stream" in reason for reason in received)
    ours = [each for each in await nats_server.read_all(stream.name) if each.headers]
    assert {each.headers["ce-id"] for each in ours} == set(ids_of(batch))
    newest = {each.subject: each.headers["ce-id"] for each in ours}
    assert sorted(newest.values()) == sorted(ids_of(batch[-7:])), "each object ends with its newest record"


async def test_what_another_writer_moved_comes_behind_the_missing(nats_server: Nats, nats_stream: MakeStream) -> None:
    """The stream refuses the first message in flight, and reaches the numbers of the others."""
    stream, batch = await nats_stream(), changes(40)
    async with opened(nats_server, stream) as sink, await nats.connect(nats_server.url) as intruder:
        assert await sink.deliver(batch[:7]) == ALL_STORED
        await intruder.jetstream().publish(f"{stream.prefix}.intruder", b"")
        refused = await sink.deliver(batch[7:])
        assert list(refused.pending) == [*range(33)]
        assert "another publisher writes into the stream" in failure_of(refused)
        assert await sink.deliver(batch[7:]) == ALL_STORED

    ours = [each for each in await nats_server.read_all(stream.name) if each.headers]
    newest = {each.subject: each.headers["ce-id"] for each in ours}
    assert sorted(newest.values()) == sorted(ids_of(batch[-7:])), "each object ends with its newest record"
    again = [each for each in ours if "/again/" in each.headers["Nats-Msg-Id"]]
    moved = [record for record in batch[8:] if record.key == batch[7].key]
    assert [each.headers["ce-id"] for each in again] == ids_of(moved), "with equal ids"


@pytest.mark.parametrize("killed", [False, True])
async def test_more_than_the_sockets_hold_does_not_wait_for_its_timeout(start_nats: StartNats, killed: bool) -> None:
    """Where it is cancelled in front of a frozen server, or the server is killed."""
    server, large = start_nats(), [a_delta(n, body=b'"' + b"x" * 500_000 + b'"') for n in range(1, 41)]
    async with opened(server, K8S, create_stream={}, ack_timeout=60) as sink:
        assert await sink.deliver(changes(3, first=101)) == MADE
        server.pause()
        delivering = asyncio.get_running_loop().create_task(sink.deliver(large))
        done, _ = await asyncio.wait({delivering}, timeout=0.5)
        assert not done
        if killed:
            await asyncio.to_thread(server.kill9)
            receipt = await asyncio.wait_for(delivering, 10 * BUSY)
            assert (list(receipt.pending), receipt.failure is None) == ([*range(40)], False)
            await asyncio.to_thread(server.start)
        else:
            delivering.cancel()
            await asyncio.wait({delivering}, timeout=5 * BUSY)
            assert delivering.cancelled()
            server.resume()
        await until_stored(sink, large)

    assert (await ids_in(server, K8S))[3:] == ids_of(large)


async def test_a_server_that_goes_while_idle_is_noticed_quietly(
    start_nats: StartNats, caplog: pytest.LogCaptureFixture
) -> None:
    server, complaints = start_nats(), list[dict[str, Any]]()
    async with opened(server, K8S, create_stream={}) as sink:
        assert await sink.deliver(changes(3)) == MADE
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        await asyncio.to_thread(server.kill9)
        await until(lambda: sink._connection is None or sink._connection.closed)
        await asyncio.to_thread(server.start)
        assert await sink.deliver(changes(3, first=4)) == ALL_STORED
    gc.collect()

    assert complaints == []
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


@pytest.mark.parametrize(
    ("flags", "options"),
    [
        (("--user", "me", "--pass", "hush"), {"user": "me", "password_file": "secret"}),
        (("--auth", "hush"), {"token_file": "secret"}),
    ],
)
async def test_secrets_come_from_files_and_are_never_reported(
    start_nats: StartNats, tmp_path: Path, flags: tuple[str, ...], options: dict[str, str]
) -> None:
    server = start_nats(*flags)
    secret = tmp_path / "secret"
    located = {name: str(secret) if value == "secret" else value for name, value in options.items()}

    secret.write_text("wrong-secret\n")
    with pytest.raises(SinkUnavailable, match="Authorization Violation") as refused:
        await the_sink(server, "K8S", "k8s", create_stream={}, **located).open(SinkContext())
    assert "wrong-secret" not in str(refused.value)

    secret.write_text("hush\n")
    assert await deliver_once(the_sink(server, "K8S", "k8s", create_stream={}, **located), changes(3)) == MADE


async def test_an_nkey_user_signs_with_its_seed(start_nats: StartNats, tmp_path: Path) -> None:
    seed = nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER)
    public = nkeys.from_seed(seed).public_key.decode()
    (tmp_path / "seed").write_bytes(seed + b"\n")
    (tmp_path / "nats.conf").write_text(f"authorization: {{ users: [ {{ nkey: {public} }} ] }}\n")
    server = start_nats("-c", str(tmp_path / "nats.conf"))

    sink = the_sink(server, "K8S", "k8s", create_stream={}, nkey_seed_file=tmp_path / "seed")
    assert await deliver_once(sink, changes(3)) == MADE


async def test_what_is_not_permitted_is_reported_at_once(start_nats: StartNats, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("hush")
    (tmp_path / "nats.conf").write_text(
        "authorization: { users: [ { user: me, password: hush, permissions: {"
        ' publish: ["$JS.API.>"], subscribe: ["_INBOX.>"] } } ] }\n'
    )
    server = start_nats("-c", str(tmp_path / "nats.conf"))

    named = {"user": "me", "password_file": tmp_path / "password"}
    sink = the_sink(server, "K8S", "k8s", create_stream={}, ack_timeout=100, **named)
    receipt = await asyncio.wait_for(deliver_once(sink, changes(3)), 5 * BUSY)

    assert list(receipt.pending) == [0, 1, 2]
    assert "permissions violation for publish to" in failure_of(receipt).lower()


async def test_tls_is_verified_by_the_authority_that_was_named(start_nats: StartNats, tmp_path: Path) -> None:
    authority = Authority.make(tmp_path / "ca")
    certificate, client = authority.issue("server"), authority.issue("client")
    server = start_nats(
        *("--tls", "--tlscert", str(certificate.certificate), "--tlskey", str(certificate.key)),
        *("--tlsverify", "--tlscacert", str(authority.certificate)),
    )
    own = {"ca_file": authority.certificate, "cert_file": client.certificate, "key_file": client.key}

    assert await deliver_once(the_sink(server, "K8S", "k8s", create_stream={}, **own), changes(3)) == MADE

    other = Authority.make(tmp_path / "other", "another authority")
    with pytest.raises(SinkUnavailable, match="; ca_file must name the authority that signed it"):
        await the_sink(server, "K8S", "k8s", **own | {"ca_file": other.certificate}).open(SinkContext())
    with pytest.raises(SinkUnavailable, match="ca_file: "):
        await the_sink(server, "K8S", "k8s", **own | {"ca_file": tmp_path / "missing"}).open(SinkContext())


@pytest.mark.parametrize("secret", [{"user": "me", "password_file": "secret"}, {"token_file": "secret"}, {}])
async def test_where_tls_is_wanted_nothing_is_sent_in_the_clear(tmp_path: Path, secret: dict[str, str]) -> None:
    heard = bytearray()

    async def server_without_tls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"version":"2.15.2","max_payload":1048576,"auth_required":true,"headers":true}\r\n')
        while line := await reader.readline():
            heard.extend(line)
            if line.startswith(b"PING"):
                writer.write(b"PONG\r\n")
        writer.close()

    (tmp_path / "secret").write_text("hush")
    located = {name: str(tmp_path / value) if value == "secret" else value for name, value in secret.items()}
    listening = await asyncio.start_server(server_without_tls, "127.0.0.1", 0)
    async with listening:
        url = f"tls://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        options = NatsOptions.model_validate({"servers": [url], "stream": "K8S", "connect_timeout": 1, **located})
        with pytest.raises(SinkUnavailable, match="secure connection not available"):
            await NatsSink("live", options, cluster="prod").open(SinkContext())

    assert b"hush" not in heard


async def test_nobody_listening_is_reported() -> None:
    with pytest.raises(SinkUnavailable, match=r"cannot connect to nats://127\.0\.0\.1:\d+: Connection refused$"):
        await NatsSink(
            "live",
            NatsOptions(servers=(f"nats://127.0.0.1:{reserve_port()}",), stream="K8S", connect_timeout=Duration(1)),
            cluster="prod",
        ).open(SinkContext())


@pytest.mark.parametrize("what", ["acknowledges no message", "is sealed", "is a mirror of K8S"])
async def test_a_stream_that_never_acknowledges_is_refused(start_nats: StartNats, what: str) -> None:
    """Also by ``check``. Once it does, the sink that the bridge makes next delivers."""
    server = await asyncio.to_thread(start_nats)
    async with await nats.connect(server.url) as connection:
        jetstream = connection.jetstream()
        source = StreamConfig("K8S", subjects=["k8s.>"], no_ack="acknowledges" in what)
        await jetstream.add_stream(source)
        if "sealed" in what:
            await jetstream.update_stream(replace(source, sealed=True))
        if "mirror" in what:
            await jetstream.add_stream(StreamConfig("COPY", mirror=StreamSource("K8S")))
        sink = the_sink(server, "COPY" if "mirror" in what else "K8S", "k8s")
        for refused in (sink.check, partial(sink.open, SinkContext())):
            with pytest.raises(WrongOption, match=what) as raised:
                await refused()
            assert raised.value.option == "stream"
        await sink.close()

        if source.no_ack:
            await jetstream.update_stream(replace(source, no_ack=False))
            async with opened_sink(the_sink(server, "K8S", "k8s", ack_timeout=1)) as sink, asyncio.timeout(60 * BUSY):
                while await sink.deliver(changes(3)) != ALL_STORED:
                    pass  # A busy machine acknowledges too late.
                await jetstream.update_stream(source)
                receipt = await sink.deliver(changes(3, first=4))
                receipt = await sink.deliver(changes(3, first=4))
                assert "it acknowledges no message (no_ack)" in failure_of(receipt)


async def test_check_describes_the_stream_and_creates_none(nats_server: Nats, nats_stream: MakeStream) -> None:
    stream = await nats_stream()
    async with opened(nats_server, stream) as sink:
        await sink.deliver(changes(7))

    found = await the_sink(nats_server, stream.name, stream.prefix).check()
    assert found == f"127.0.0.1:{nats_server.port}, stream {stream.name} with 7 messages"
    for _ in range(2):
        found = await the_sink(nats_server, "nowhere", "nowhere", create_stream={}).check()
        assert found == f"127.0.0.1:{nats_server.port}, stream nowhere to be created"
