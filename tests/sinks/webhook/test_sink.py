"""The webhook sink against a real HTTP server."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from cloudevents.core.formats.json import JSONFormat
from msgspec.structs import replace
from standardwebhooks import Webhook

from bridge.model.formats.content import Makes, OptionExpression
from bridge.model.record import Record
from config.values import Duration
from sinks.base import ALL_STORED, Receipt, SinkContext, SinkUnavailable
from sinks.webhook.options import WebhookOptions
from sinks.webhook.sink import WebhookSink
from tests.cluster.servers.ports import reserve_port
from tests.kit.certificates import Authority
from tests.kit.content import with_content
from tests.kit.deadlines import BUSY
from tests.kit.openssl import KeyPair
from tests.kit.records import a_delta, changes
from tests.kit.sinks import deliver_once, failure_of
from tests.kit.webhook_receiver import ACCEPTED, Answer, Posted, WebhookReceiver


def mounted(folder: Path, content: str) -> Path:
    """A file as the kubelet mounts and renews it: a link to the newest of several folders, moved in one step."""
    data = folder / f"..{len(list(folder.iterdir()))}"
    data.mkdir()
    (data / "key").write_text(content)
    (folder / "..new").symlink_to(data.name)
    (folder / "..new").rename(folder / "..data")
    if not (folder / "key").is_symlink():
        (folder / "key").symlink_to("..data/key")
    return folder / "key"


def a_sink(url: str, **options: Any) -> WebhookSink:
    return WebhookSink("hook", WebhookOptions.model_validate({"url": url, **options}), cluster="prod")


async def opened(receiver: WebhookReceiver, **options: Any) -> WebhookSink:
    sink = a_sink(**{"url": receiver.url, **options})
    await sink.open(SinkContext())
    return sink


TOO_LARGE = "answers 413: the event is too large for it"

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


@asynccontextmanager
async def answered_by(handler: Handler) -> AsyncIterator[str]:
    """The URL of a server that may speak no HTTP. Ends when those that asked have hung up."""
    async with asyncio.timeout(30 * BUSY), asyncio.TaskGroup() as group:

        def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            group.create_task(handler(reader, writer))

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


async def test_requests_of_a_leader_have_its_term(receiver: WebhookReceiver) -> None:
    """An endpoint that has seen a later one answers 412, and takes no record from this replica."""
    sink = await opened(receiver)
    await sink.deliver(changes(1))
    in_term: list[Record] = [replace(each, term=7) for each in changes(2)]
    await sink.deliver(in_term)
    assert [each.headers.get("kubedelta-term") for each in receiver.accepted] == [None, "7", "7"]

    receiver.answer = lambda posted: Answer(412)
    receipt = await sink.deliver(in_term)
    await sink.close()

    assert (list(receipt.pending), dict(receipt.rejected)) == ([0, 1], {})
    assert "answers 412: it knows a leader of a later term than 7" in failure_of(receipt)
    assert receipt.failure is not None
    assert receipt.failure.doubted


async def test_deliveries_are_parallel_and_their_records_in_sequence(
    receiver: WebhookReceiver,
) -> None:
    sink = await opened(receiver, concurrency=4)
    lanes = [[a_delta(n, key=f"shop/web-{lane}") for n in range(1, 21)] for lane in range(4)]
    gate = asyncio.Event()
    receiver.answer = lambda posted: Answer(wait=gate)

    async with asyncio.TaskGroup() as group:
        deliveries = [group.create_task(sink.deliver(lane)) for lane in lanes]
        async with asyncio.timeout(10 * BUSY):
            while len(receiver.asked) < 4:  # noqa: ASYNC110 (no event for requests)
                await asyncio.sleep(0.001)
        gate.set()
    await sink.close()

    assert [delivery.result() for delivery in deliveries] == [ALL_STORED] * 4
    assert receiver.most_at_once == 4
    assert receiver.most_at_once_of_one_key == 1
    for lane in lanes:
        mine = {record.id for record in lane}
        assert [event["id"] for event in receiver.events if event["id"] in mine] == [record.id for record in lane]


async def test_what_is_behind_a_failed_request_is_not_sent(receiver: WebhookReceiver) -> None:
    batch = changes(30, keys=3)
    receiver.answer = lambda posted: Answer(500) if posted.events[0]["id"] == batch[4].id else ACCEPTED

    receipt = await deliver_once(a_sink(receiver.url), batch)

    assert list(receipt.pending) == list(range(4, 30))
    assert failure_of(receipt).endswith("answers 500")
    assert receipt.failure is not None
    assert not receipt.failure.unavailable, "another record may go through"
    assert len(receiver.asked) == 5


@pytest.mark.parametrize("status", [400, 413, 415, 422])
async def test_refused_records_are_rejected_and_the_rest_is_stored(receiver: WebhookReceiver, status: int) -> None:
    batch = changes(9, keys=3)
    receiver.answer = lambda posted: Answer(status) if posted.events[0]["id"] == batch[4].id else ACCEPTED

    receipt = await deliver_once(a_sink(receiver.url), batch)

    assert list(receipt.rejected) == [4]
    assert str(status) in receipt.rejected[4]
    assert list(receipt.pending) == [7], "of the same object, and so not sent"
    assert receipt.failure is None
    assert len(receiver.accepted) == 7


@pytest.mark.parametrize("batch", [1, 10])
@pytest.mark.parametrize("status", [400, 415, 422])
async def test_an_endpoint_that_refuses_every_event_is_a_failure(
    receiver: WebhookReceiver, status: int, batch: int
) -> None:
    """A proxy that misses a certificate does, and so does an endpoint whose option is wrong."""
    sink = await opened(receiver, batch=batch)
    receiver.answer = lambda posted: Answer(status)
    sent: list[Record] = [*changes(6, keys=3)]

    for _ in range(3):
        receipt = await sink.deliver(sent)
        assert (receipt.rejected, list(receipt.pending)) == ({}, list(range(6)))
        assert f"answers {status}: " in failure_of(receipt)
        assert "it has accepted no other event since" in failure_of(receipt)
    behind = {each.id for each in sent[3:]}
    alone = [posted.events for posted in receiver.asked if len(posted.events) == 1]
    assert not behind & {event["id"] for [event] in alone}, "each behind one of its object"

    receiver.answer = lambda posted: ACCEPTED
    assert await sink.deliver(sent) == ALL_STORED
    await sink.close()
    assert [event["id"] for event in receiver.events] == [each.id for each in sent]


async def test_an_event_that_is_accepted_later_shows_who_is_at_fault(receiver: WebhookReceiver) -> None:
    sink = await opened(receiver)
    bad, behind, good = a_delta(1, key="shop/bad"), a_delta(2, key="shop/bad"), a_delta(3)
    receiver.answer = lambda posted: Answer(400) if posted.events[0]["id"] == bad.id else ACCEPTED

    receipt = await sink.deliver([bad, behind])
    assert (receipt.rejected, list(receipt.pending)) == ({}, [0, 1])
    assert await sink.deliver([good]) == ALL_STORED
    receipt = await sink.deliver([bad, behind])
    await sink.close()

    assert list(receipt.rejected) == [0]
    assert (list(receipt.pending), receipt.failure) == ([1], None)
    assert [event["id"] for event in receiver.events] == [good.id]


@pytest.mark.parametrize("status", [302, 401, 403, 404, 410])
async def test_a_misconfigured_endpoint_is_a_failure_without_loss(receiver: WebhookReceiver, status: int) -> None:
    receiver.answer = lambda posted: Answer(status, {"Location": "/elsewhere"})

    receipt = await deliver_once(a_sink(receiver.url), changes(50))

    assert list(receipt.pending) == list(range(50))
    assert failure_of(receipt).startswith(receiver.url.removesuffix("/hook") + f" answers {status}: ")
    assert receipt.failure is not None
    assert receipt.failure.unavailable
    assert len(receiver.asked) == 1


async def test_a_busy_endpoint_says_how_long_to_wait(receiver: WebhookReceiver) -> None:
    receiver.answer = lambda posted: Answer(429, {"Retry-After": "17"})

    receipt = await deliver_once(a_sink(receiver.url), changes(3))

    assert receipt.failure is not None
    assert receipt.failure.after == 17.0


@pytest.mark.parametrize(
    ("status", "receipt"), [(200, ALL_STORED), (413, Receipt([], None, {0: TOO_LARGE}, {0: "x" * 1024}))]
)
async def test_an_answer_that_never_ends_is_cut_off(status: int, receipt: Receipt) -> None:
    sent = 0

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 %d X\r\nContent-Length: 10000000000\r\n\r\n" % status)
        with suppress(ConnectionError):
            while True:
                writer.write(b"x" * 65_536)
                sent += 65_536
                await writer.drain()
        writer.close()

    async with answered_by(endless) as url:
        found = await deliver_once(a_sink(url), [a_delta()])

    assert found == receipt
    assert sent < 100_000_000


async def dripping(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Until its reader hangs up."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    while not reader.at_eof():
        writer.write(b" ")
        with suppress(TimeoutError):
            await asyncio.wait_for(reader.read(), 0.05)
    writer.close()


async def test_an_answer_that_does_not_end_in_time_is_a_failure() -> None:
    async with answered_by(dripping) as url:
        receipt = await deliver_once(a_sink(url, timeout=Duration(0.2)), [a_delta()])

    assert list(receipt.pending) == [0]
    assert "did not answer within 0.2 s" in failure_of(receipt)


async def test_an_answer_that_is_no_http_fails_the_batch() -> None:
    async def nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.2\r\n")
        writer.close()

    async with answered_by(nonsense) as url:
        receipt = await deliver_once(a_sink(f"{url}?token=hush"), [a_delta()])

    assert list(receipt.pending) == [0]
    assert "hush" not in failure_of(receipt)


async def test_requests_are_signed_and_a_new_secret_is_taken_up(receiver: WebhookReceiver, tmp_path: Path) -> None:
    old, new = ("whsec_" + b64encode(os.urandom(32)).decode() for _ in range(2))
    file = tmp_path / "secret"
    file.write_text(old + "\n")
    sink = await opened(receiver, secret_file=file)

    await sink.deliver([a_delta(1, uid="uid.with.dots")])
    file.write_text(f"{new}\n{old}\n")
    await sink.deliver([a_delta(2)])
    file.unlink()
    without = await sink.deliver([a_delta(3)])
    await sink.close()

    first, second = receiver.accepted
    Webhook(old).verify(first.body, first.headers)
    for secret in (old, new):
        Webhook(secret).verify(second.body, second.headers)
    assert first.headers["webhook-id"] == "uid%2Ewith%2Edots/1001/updated"
    assert failure_of(without) == f"secret_file: cannot read the secret file {file}: No such file or directory"


async def test_headers_come_from_the_options_and_from_files(receiver: WebhookReceiver, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("Bearer hush\n")
    named = {"X-Team": "shop", "User-Agent": "ours"}
    sink = a_sink(receiver.url, headers=named, header_files={"Authorization": tmp_path / "token"})
    await deliver_once(sink, [a_delta()])

    headers = receiver.accepted[0].headers
    assert (headers["x-team"], headers["user-agent"], headers["authorization"]) == ("shop", "ours", "Bearer hush")


def basic(password: str) -> str:
    return f"Basic {b64encode(f'me:{password}'.encode()).decode()}"


@pytest.mark.parametrize(
    ("option", "more", "old", "new", "headers"),
    [
        ("password_file", {"username": "me"}, "hüsh:1\n", "hush:2", [basic("hüsh:1"), basic("hush:2")]),
        ("bearer_token_file", {}, "first.token\n", "second.token", ["Bearer first.token", "Bearer second.token"]),
    ],
)
async def test_a_credential_is_sent_and_a_renewed_one_taken_up(
    receiver: WebhookReceiver, tmp_path: Path, option: str, more: dict[str, str], old: str, new: str, headers: list[str]
) -> None:
    file = mounted(tmp_path, old)
    sink = await opened(receiver, **{option: file}, **more)

    await sink.deliver([a_delta(1)])
    mounted(tmp_path, "second\ttoken")
    failed = await sink.deliver([a_delta(2)])
    mounted(tmp_path, new)
    await sink.deliver([a_delta(2)])
    await sink.close()

    assert [posted.headers["authorization"] for posted in receiver.accepted] == headers
    assert failure_of(failed).startswith(f"{option}: {file} ")


@pytest.mark.parametrize("way", ["basic", "bearer"])
async def test_an_echo_of_authorization_is_redacted(receiver: WebhookReceiver, tmp_path: Path, way: str) -> None:
    file, secret = tmp_path / "secret", "hüsh/hush" if way == "basic" else "hush/hush"
    file.write_text(secret)
    named = {"username": "me", "password_file": file} if way == "basic" else {"bearer_token_file": file}
    receiver.answer = lambda posted: Answer(413, body=f"{posted.headers['authorization']} = {secret}".encode())
    receipt = await deliver_once(a_sink(receiver.url, **named), [a_delta()])

    kept = receipt.answers[0]
    assert secret not in kept
    assert receiver.asked[0].headers["authorization"].partition(" ")[2] not in kept


async def test_an_answer_changes_nothing_about_later_requests(receiver: WebhookReceiver) -> None:
    receiver.answer = lambda posted: Answer(headers={"Set-Cookie": "session=hush; Path=/"})

    await deliver_once(a_sink(receiver.url), changes(2))

    first, second = (set(each.headers) for each in receiver.accepted)
    assert first == second
    assert first == {"host", "user-agent", "accept", "accept-encoding", "content-type", "content-length"}


async def test_batches_are_sent_when_asked_for(receiver: WebhookReceiver) -> None:
    batch = changes(65, keys=6)

    assert await deliver_once(a_sink(receiver.url, batch=10), batch) == ALL_STORED

    assert [len(each.events) for each in receiver.accepted] == [10, 10, 10, 10, 10, 10, 5]
    assert {each.headers["content-type"] for each in receiver.accepted} == {"application/cloudevents-batch+json"}
    for event in receiver.events:
        JSONFormat().read(None, json.dumps(event))
    assert [event["id"] for event in receiver.events] == [record.id for record in batch]


async def test_a_batch_stands_in_a_document_of_its_own(receiver: WebhookReceiver) -> None:
    """So does a single record: the endpoint knows no other form."""
    sink = await opened(receiver, format="row", batch=3, wrap='{"rows": [], "of": "k8s"}')
    for records in (changes(2), changes(1)):
        assert await sink.deliver(records) == ALL_STORED
    await sink.close()

    found = [json.loads(each.body) for each in receiver.accepted]
    assert [(len(each["rows"]), each["of"]) for each in found] == [(2, "k8s"), (1, "k8s")]


async def test_an_answer_without_what_is_expected_refuses_single_records(receiver: WebhookReceiver) -> None:
    """As Elasticsearch's ``_bulk`` does behind 200: the others of the request are stored."""
    batch = changes(4, keys=4)

    def answer(posted: Posted) -> Answer:
        refused = any(each["id"] == batch[1].id for each in posted.events)
        return Answer(200, body=b'{"errors":true,"why":"no such field"}' if refused else b'{"errors":false}')

    receiver.answer = answer
    receipt = await deliver_once(a_sink(receiver.url, format="row", batch=4, expect='"errors":false'), batch)

    assert (list(receipt.pending), receipt.failure) == ([], None)
    assert receipt.rejected == {1: "answers 200 without what expect says"}
    assert receipt.answers == {1: '{"errors":true,"why":"no such field"}'}
    assert {each.headers["accept-encoding"] for each in receiver.asked} == {"identity"}


class Bulk:
    """Answers as Elasticsearch's ``_bulk``: 200, with a status for each item. Later items are stored beside a refused
    one, of the same object too."""

    def __init__(self, *, read: int) -> None:
        """``read``: items of an answer that the sink reads. The others are behind what it reads."""
        self.refused: dict[str, int] = {}
        """Status by id."""
        self.stored: list[str] = []
        self._read = read

    def __call__(self, posted: Posted) -> Answer:
        statuses = {each["id"]: self.refused.get(each["id"], 201) for each in posted.events}
        self.stored += [id for id, status in statuses.items() if status == 201]
        items = [b'{"index":{"status":%d}}' % status for status in statuses.values()]
        errors = b"true" if max(statuses.values()) > 201 else b"false"
        return Answer(200, body=b'{"errors":%b,"items":[%b' % (errors, b",".join(items[: self._read])))


@pytest.mark.parametrize(("busy", "read"), [(0, 4), (2, 1)], ids=["at once", "each alone"])
async def test_a_record_that_is_refused_for_now_is_sent_again_before_those_behind_it(
    receiver: WebhookReceiver, busy: int, read: int
) -> None:
    batch = changes(4, keys=2)
    receiver.answer = bulk = Bulk(read=read)
    options = {"batch": 4, "expect": '"errors":false', "retry_if": ['"status":429', '"status":503']}
    sink = await opened(receiver, format="row", **options)

    bulk.refused = {batch[busy].id: 429, batch[1].id: 400}
    receipt = await sink.deliver(batch)
    assert receipt.failure is not None
    assert "answers 200 with what retry_if says" in receipt.failure.reason
    assert (receipt.rejected, receipt.pending[-1]) == ({}, 3)
    bulk.refused = {batch[1].id: 400}
    receipt = receipt.followed_by(await sink.deliver([batch[index] for index in receipt.pending]))
    await sink.close()

    assert (list(receipt.rejected), list(receipt.pending), receipt.failure) == ([1], [3], None)
    last = {id: at for at, id in enumerate(bulk.stored)}
    assert last[batch[0].id] < last[batch[2].id]


async def test_a_refusal_behind_a_failed_record_is_not_reported_yet(receiver: WebhookReceiver) -> None:
    """What is in front of it would be taken for parked behind it."""
    data = OptionExpression("data", "object.kind", Makes.DATA)
    sink = await opened(receiver, data=data.text)
    deltas = a_delta(1), a_delta(2), a_delta(3, body=b"{}")
    good, failing, damaged = (with_content(each, data) for each in deltas)
    receiver.answer = lambda posted: Answer(500) if posted.events[0]["id"] == failing.id else ACCEPTED

    receipt = await sink.deliver([good, failing, damaged])
    alone = await sink.deliver([damaged])
    await sink.close()

    assert (list(receipt.pending), receipt.rejected) == ([1, 2], {})
    assert list(alone.rejected) == [0]


async def test_check_says_what_answers_and_posts_nothing(receiver: WebhookReceiver) -> None:
    sink = a_sink(receiver.url)

    assert await sink.check() == f"{receiver.url.removesuffix('/hook')} answers (405 to OPTIONS)"
    assert [each.method for each in receiver.asked] == ["OPTIONS"]

    await receiver.stop()
    with pytest.raises(SinkUnavailable, match="cannot be reached"):
        await sink.check()


async def test_tls_is_verified_and_a_renewed_authority_is_taken_up(tmp_path: Path) -> None:
    authority, other = Authority.make(tmp_path / "ca"), Authority.make(tmp_path / "other", "another authority")
    client = authority.issue("client")
    ca_file = tmp_path / "ca.crt"
    ca_file.write_bytes(other.certificate.read_bytes())
    tls = authority.issue("server").server_context(clients=authority)
    tls.verify_mode = ssl.CERT_REQUIRED
    async with WebhookReceiver(tls) as receiver:
        own = {"ca_file": ca_file, "cert_file": client.certificate, "key_file": client.key}
        sink = await opened(receiver, **own)

        refused = await sink.deliver([a_delta()])
        ca_file.write_bytes(authority.certificate.read_bytes())
        accepted = await sink.deliver([a_delta()])
        await sink.close()

    assert list(refused.pending) == [0]
    assert failure_of(refused).endswith("; ca_file must name the authority that signed it")
    assert accepted == ALL_STORED


async def test_a_certificate_refused_late_is_renewed(tmp_path: Path) -> None:
    """With TLS 1.3 the handshake ends before the server has looked at the certificate."""
    authority, other = Authority.make(tmp_path / "ca"), Authority.make(tmp_path / "other", "another authority")
    old, new = other.issue("client"), authority.issue("client")
    cert_file, key_file = tmp_path / "tls.crt", tmp_path / "tls.key"
    cert_file.write_bytes(old.certificate.read_bytes())
    key_file.write_bytes(old.key.read_bytes())
    tls = authority.issue("server").server_context(clients=authority)
    tls.verify_mode, tls.minimum_version = ssl.CERT_REQUIRED, ssl.TLSVersion.TLSv1_3
    async with WebhookReceiver(tls) as receiver:
        sink = await opened(receiver, ca_file=authority.certificate, cert_file=cert_file, key_file=key_file)
        refused = await sink.deliver([a_delta()])
        cert_file.write_bytes(new.certificate.read_bytes())
        half = await sink.deliver([a_delta()])
        key_file.write_bytes(new.key.read_bytes())
        accepted = await sink.deliver([a_delta()])
        await sink.close()

    assert "did not answer" in failure_of(refused)
    assert failure_of(half).startswith("cert_file: ")
    assert accepted == ALL_STORED


async def test_a_reconnected_endpoint_keeps_running_requests() -> None:
    came, gate = asyncio.Event(), asyncio.Event()

    async def slow_at_first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = not came.is_set()
        await reader.readuntil(b"}}")
        came.set()
        if first:
            await gate.wait()
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        await writer.drain()
        writer.close()

    port = reserve_port()
    server = await asyncio.start_server(slow_at_first, "127.0.0.1", port)
    sink = a_sink(f"http://127.0.0.1:{port}/")
    await sink.open(SinkContext())
    async with asyncio.timeout(10 * BUSY), asyncio.TaskGroup() as group:
        first = group.create_task(sink.deliver([a_delta(1)]))
        await came.wait()
        server.close()  # No more connections; the one that is there lives on.
        assert "cannot be reached" in failure_of(await sink.deliver([a_delta(2)]))
        server = await asyncio.start_server(slow_at_first, "127.0.0.1", port)
        assert await sink.deliver([a_delta(2)]) == ALL_STORED
        gate.set()
    await sink.close()
    server.close()

    assert first.result() == ALL_STORED


@pytest.mark.parametrize("option", ["ca_file", "secret_file"])
async def test_a_file_that_cannot_be_used_is_reported_at_open(tmp_path: Path, option: str) -> None:
    with pytest.raises(SinkUnavailable, match=f"{option}: "):
        await deliver_once(a_sink("https://127.0.0.1:1/", **{option: tmp_path / "missing"}), [a_delta()])


async def test_http_to_an_https_port_rejects_nothing_and_says_so() -> None:
    """Such a server answers 400, as an endpoint does that will never take a record."""

    async def as_go_does(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        http = (await reader.read(1)) in b"PO"
        received = b"Client sent an HTTP request to an HTTPS server.\n" if http else b""
        writer.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n" + received)
        writer.close()

    async with await asyncio.start_server(as_go_does, "127.0.0.1") as server:
        port = server.sockets[0].getsockname()[1]
        for scheme, words in (
            ("http", "HTTPS on this port: write https://"),
            ("https", "HTTP on this port: write http:"),
        ):
            sink = a_sink(f"{scheme}://127.0.0.1:{port}/")
            receipt = await deliver_once(sink, [a_delta()])
            assert (receipt.pending, receipt.rejected) == ([0], {})
            assert words in failure_of(receipt)
            with pytest.raises(SinkUnavailable, match=words):
                await sink.check()


# ── What a refusal says ──────────────────────────────────────────────────────


def refusing_web_1(answer: Callable[[Posted], Answer]) -> Callable[[Posted], Answer]:
    """The answer to every event but one, which shows that the others are at fault."""
    return lambda posted: answer(posted) if b"web-1" in posted.content else ACCEPTED


A_WITNESS = a_delta(99, key="shop/the-witness")


async def refusal(receiver: WebhookReceiver, answer: Answer, **options: Any) -> str:
    """What is kept of it."""
    receiver.answer = refusing_web_1(lambda posted: answer)
    receipt = await deliver_once(a_sink(receiver.url, **options), [a_delta(), A_WITNESS])
    assert list(receipt.rejected) == [0]
    assert "schema" not in receipt.rejected[0], "a reason is logged, an answer is not"
    return receipt.answers.get(0, "")


@pytest.mark.parametrize("batch", [1, 10])
async def test_the_beginning_of_a_refusal_is_kept(receiver: WebhookReceiver, batch: int) -> None:
    said = await refusal(receiver, Answer(422, body=b'{"error": "no schema for pods"}\n'), batch=batch)
    assert said == '{"error": "no schema for pods"}'
    assert await refusal(receiver, Answer(400), batch=batch) == ""
    assert len(await refusal(receiver, Answer(413, body=b"x" * 1_000_000), batch=batch)) == 1024


async def test_of_several_records_each_has_its_own_answer(receiver: WebhookReceiver) -> None:

    def answer(posted: Posted) -> Answer:
        wrong = [event["partitionkey"] for event in posted.events if "odd" in event["partitionkey"]]
        return Answer(422, body=f"no schema for {wrong}".encode()) if wrong else ACCEPTED

    receiver.answer = answer
    batch = [a_delta(n, key=f"shop/{'odd' if n % 2 else 'even'}-{n}") for n in range(1, 5)]
    receipt = await deliver_once(a_sink(receiver.url, batch=10), batch)

    assert (list(receipt.rejected), list(receipt.pending)) == ([0, 2], [])
    assert receipt.answers == {
        0: "no schema for ['prod/core/pods/shop/odd-1']",
        2: "no schema for ['prod/core/pods/shop/odd-3']",
    }


@pytest.mark.parametrize("form", ["json", "text", "gzip"])
async def test_an_echo_of_the_request_brings_no_credentials_back(
    receiver: WebhookReceiver, tmp_path: Path, form: str
) -> None:
    secret = b64encode(os.urandom(32)).decode()
    pair = KeyPair.make()
    (tmp_path / "secret").write_text(f"whsec_{secret}\n{pair.private()}\n")
    (tmp_path / "token").write_text("Bearer tok/en+of=ours\n")

    def echo(posted: Posted) -> Answer:
        received = {
            **posted.headers,
            "url": f"{receiver.url}?key=hush%2Fhush",
            "signed with": f"whsec_{secret}",
            "or": pair.private(whole=False),
        }
        body = (
            json.dumps(received) if form == "json" else "\n".join(f"{k}: {v}" for k, v in received.items())
        ).encode()
        if form == "gzip":
            return Answer(400, {"content-encoding": "gzip"}, body=gzip.compress(body))
        return Answer(400, body=body)

    receiver.answer = refusing_web_1(echo)
    files = {"header_files": {"Authorization": tmp_path / "token"}, "secret_file": tmp_path / "secret"}
    sink = a_sink(f"{receiver.url}?key=hush%2Fhush", headers={"X-Team": "shop"}, **files)
    receipt = await deliver_once(sink, [a_delta(), A_WITNESS])

    kept = receipt.answers[0]
    assert "uid-of-shop/web-1/1001/updated" in kept, "what helps to find out is there"
    signed = [each.partition(",")[2] for each in receiver.asked[0].headers["webhook-signature"].split()]
    assert len(signed) == 2
    for hidden in ("tok/en", "ours", secret, b64encode(pair.seed).decode(), *signed, "hush"):
        assert hidden not in kept
    assert "shop" in kept
