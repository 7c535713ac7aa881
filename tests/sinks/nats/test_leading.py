"""Leaders of several terms on one stream of a real server: from the notice of a term on, no earlier leader stores a
message."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import kubedelta_reader as reader
import nats
import pytest
from msgspec.structs import replace

from bridge.model.formats.stored_record import StoredKind, StoredVersions
from bridge.model.record import Delta, Record, TermBegan
from sinks.base import ALL_STORED, Receipt, SinkContext, SinkUnavailable
from sinks.nats.connection import NatsConnection
from sinks.nats.delivery import MAX_MESSAGES_IN_FLIGHT
from sinks.nats.leading import StreamInDoubt
from sinks.nats.sink import NatsSink
from tests.cluster.fixtures import MakeStream, NatsStream, StartNats
from tests.cluster.servers import Nats, NatsRecord
from tests.kit.deadlines import BUSY
from tests.kit.records import a_delta, changes, ids_of
from tests.kit.sinks import failure_of, opened_sink, until_stored
from tests.sinks.nats.test_sink import K8S, the_sink

FORMER, NEXT = 1, 2
TIME = "2026-11-23T09:41:01.613392Z"


def a_sink(server: Nats, stream: NatsStream) -> NatsSink:
    return the_sink(server, stream.name, stream.prefix)


def of_leader(term: int, in_doubt: int = 0) -> SinkContext:
    return SinkContext(term=TermBegan(term, 3, TIME), in_doubt=in_doubt)


@asynccontextmanager
async def leading(server: Nats, stream: NatsStream, term: int, in_doubt: int = 0) -> AsyncIterator[NatsSink]:
    async with opened_sink(a_sink(server, stream), of_leader(term, in_doubt)) as sink:
        yield sink


async def until_taken_over(make: Callable[[], NatsSink], left: Sequence[Record]) -> None:
    """The next leader stores the records, with one sink after another."""
    in_doubt = 0
    while left:
        try:
            async with opened_sink(make(), of_leader(NEXT, in_doubt)) as sink:
                receipt = await sink.deliver(left)
            left = [left[index] for index in receipt.pending]
        except SinkUnavailable as error:
            in_doubt = error.in_doubt or in_doubt  # The former leader stored one more in between.


class Held:
    """Holds what a sink publishes, as the process would that is stopped and goes on later."""

    def __init__(self, sink: NatsSink, behind: int = 0, prefix: str = "") -> None:
        """``behind`` messages leave before. Only those count whose subject has the prefix."""
        assert sink._connection is not None
        self._publish, self._left, self._prefix = sink._connection.publish, behind, prefix
        sink._connection.publish = self._held  # type: ignore[assignment, method-assign]
        self.reached, self.thawed = asyncio.Event(), asyncio.Event()

    async def _held(self, subject: str, payload: bytes, headers: dict[str, str]) -> int:
        self._left -= subject.startswith(self._prefix)
        if self._left < 0:
            self.reached.set()
            await self.thawed.wait()
        return await self._publish(subject, payload, headers)


def in_term(term: int, batch: Sequence[Delta]) -> list[Record]:
    return [replace(record, term=term) for record in batch]


def is_in_front(record: NatsRecord) -> bool:
    """Of the notice that begins a term."""
    return record.headers["ce-id"].startswith("term/") and record.headers["ce-id"].count("/") == 3


async def messages(server: Nats, stream: NatsStream) -> list[NatsRecord]:
    """Without the notices in front of those that begin terms."""
    return [record for record in await server.read_all(stream.name) if not is_in_front(record)]


async def ids_of_stream(server: Nats, stream: NatsStream) -> list[str]:
    """The ids in the stream; of a notice, the term alone."""
    ids = [record.headers["ce-id"] for record in await messages(server, stream)]
    return [each.rpartition("/")[0] if each.startswith("term/") else each for each in ids]


async def until_there_are(server: Nats, stream: NatsStream, count: int) -> None:
    """The client has handed the messages over: not even an answered PING says that the stream has them."""
    async with asyncio.timeout(60 * BUSY):
        while len(await server.read_all(stream.name)) < count:  # noqa: ASYNC110 (another process has it)
            await asyncio.sleep(0.01)


async def terms(server: Nats, stream: NatsStream) -> list[int]:
    return [int(record.headers["ce-term"]) for record in await messages(server, stream)]


async def test_a_former_leader_is_refused_before_the_next_record(nats_server: Nats, nats_stream: MakeStream) -> None:
    """Also by another connection."""
    stream, former_term = await nats_stream(), ["term/1", *ids_of(changes(3)), "term/2"]
    async with leading(nats_server, stream, FORMER) as former:
        assert await former.deliver(in_term(FORMER, changes(3))) == ALL_STORED
        async with leading(nats_server, stream, NEXT) as successor:
            late = in_term(FORMER, changes(3, first=4))
            of_successor = "its last message 203 is of a leader of term 2, and this leader has term 1"
            for reason in ("another publisher writes", of_successor):
                refused = await former.deliver(late)
                assert list(refused.pending) == [0, 1, 2]
                assert reason in failure_of(refused)
                assert refused.failure is not None
                assert refused.failure.doubted, "it sends nothing more until it has read the Lease"
            with pytest.raises(SinkUnavailable, match=of_successor):
                await a_sink(nats_server, stream).open(of_leader(FORMER))
            assert await ids_of_stream(nats_server, stream) == former_term
            assert await successor.deliver(in_term(NEXT, changes(3, first=4))) == ALL_STORED

    assert await ids_of_stream(nats_server, stream) == [*former_term, *ids_of(changes(3, first=4))]


async def test_a_leader_goes_on_behind_a_cancelled_delivery(nats_server: Nats, nats_stream: MakeStream) -> None:
    """Some of its messages are stored, and which ones is unknown: the leader reads the stream's last number anew."""
    stream = await nats_stream()
    batch = in_term(FORMER, changes(5, keys=5))
    async with leading(nats_server, stream, FORMER) as sink:
        held = Held(sink, behind=2)
        delivering = asyncio.get_running_loop().create_task(sink.deliver(batch))
        await held.reached.wait()
        delivering.cancel()
        await asyncio.wait([delivering])
        held.thawed.set()
        await until_there_are(nats_server, stream, 100 + 2)

        assert await sink.deliver(batch) == ALL_STORED

    assert await ids_of_stream(nats_server, stream) == ["term/1", *ids_of(changes(5, keys=5))]


@pytest.mark.parametrize("rounds", [5, pytest.param(200, marks=pytest.mark.soak)])
async def test_a_takeover_ends_what_a_former_leader_has_in_flight(
    nats_server: Nats, nats_stream: MakeStream, rounds: int
) -> None:
    for _ in range(rounds):
        stream = await nats_stream()
        batch = changes(400, keys=100)

        async def deliver(stream: NatsStream = stream, batch: list[Delta] = batch) -> Receipt:
            async with leading(nats_server, stream, FORMER) as former:
                return await former.deliver(in_term(FORMER, batch))

        delivering = asyncio.get_running_loop().create_task(deliver())
        await asyncio.sleep(random.uniform(0, 0.1))
        await until_taken_over(partial(a_sink, nats_server, stream), in_term(NEXT, batch))
        with suppress(StreamInDoubt):
            await delivering

        found = await terms(nats_server, stream)
        assert found == sorted(found), "nothing of term 1 behind term 2"
        ids = [each for each in await ids_of_stream(nats_server, stream) if not each.startswith("term/")]
        assert sorted(ids) == sorted(ids_of(batch)), "each once"
        for key in {each.key for each in batch}:
            of_object = ids_of([each for each in batch if each.key == key])
            assert [each for each in ids if each in of_object] == of_object, "in order"


async def test_messages_in_flight_at_a_takeover_precede_the_notice(nats_server: Nats, nats_stream: MakeStream) -> None:
    """They come between the notices in front of it: the stream refuses the first, and reaches the numbers of others. No
    object has two of them in flight."""
    stream, batch = await nats_stream(), [a_delta(n, key=f"shop/web-{n % 40}") for n in range(1, 81)]
    async with leading(nats_server, stream, FORMER) as former:
        held = Held(former, behind=5)
        delivering = asyncio.get_running_loop().create_task(former.deliver(in_term(FORMER, batch)))
        await held.reached.wait()
        noticed = MAX_MESSAGES_IN_FLIGHT  # Those that begin the first term.
        await until_there_are(nats_server, stream, noticed + 5)
        successor = a_sink(nats_server, stream)
        with pytest.MonkeyPatch.context() as patch:
            publish = NatsConnection.publish

            async def behind_three(self: NatsConnection, subject: str, payload: bytes, headers: dict[str, str]) -> int:
                if headers["ce-id"].endswith("/4"):
                    await until_there_are(nats_server, stream, noticed + 5 + 3)
                    held.thawed.set()
                    await delivering
                return await publish(self, subject, payload, headers)

            patch.setattr(NatsConnection, "publish", behind_three)
            with pytest.raises(StreamInDoubt, match="another publisher writes"):
                await successor.open(of_leader(NEXT))
        await successor.close()
        refused = await delivering
        async with leading(nats_server, stream, NEXT) as again:
            assert await again.deliver(in_term(NEXT, batch)) == ALL_STORED

    assert refused.failure is not None
    assert refused.failure.doubted
    found = await terms(nats_server, stream)
    assert found == sorted(found), "all of term 1 in front of the notice of term 2"
    assert found.count(FORMER) > 1 + 5, "some came in between"
    ids = [each for each in await ids_of_stream(nats_server, stream) if not each.startswith("term/")]
    assert sorted(ids) == sorted(ids_of(batch)), "each once"
    for number in range(40):
        of_object = [batch[(number - 1) % 40].id, batch[(number - 1) % 40 + 40].id]
        assert [each for each in ids if each in of_object] == of_object, "in order"


async def test_a_leader_that_connects_again_begins_no_other_term(start_nats: StartNats) -> None:
    server = start_nats()
    async with opened_sink(the_sink(server, "K8S", "k8s", create_stream={}), of_leader(FORMER)) as sink:
        assert (await sink.deliver(in_term(FORMER, changes(3)))).created
        for first in (4, 7):
            await asyncio.to_thread(server.kill9)
            await asyncio.to_thread(server.start)
            await until_stored(sink, in_term(FORMER, changes(3, first=first)))

    assert await ids_of_stream(server, K8S) == ["term/1", *ids_of(changes(9))]


async def test_known_records_of_a_takeover_are_stored_once(nats_server: Nats, nats_stream: MakeStream) -> None:
    """And each names the number before its own."""
    stream, batch = await nats_stream(), changes(60)
    async with leading(nats_server, stream, FORMER) as former:
        assert await former.deliver(in_term(FORMER, batch[:40:2])) == ALL_STORED
    async with leading(nats_server, stream, NEXT) as successor:
        assert await successor.deliver(in_term(NEXT, batch)) == ALL_STORED

    stored = await nats_server.read_all(stream.name)
    assert sorted(await ids_of_stream(nats_server, stream)) == sorted(["term/1", "term/2", *ids_of(batch)])
    numbers = [(record.sequence - 1, int(record.headers["Nats-Expected-Last-Sequence"])) for record in stored]
    assert all(before == named for before, named in numbers)


async def test_a_stream_without_its_last_message_waits_for_the_lease(
    nats_server: Nats, nats_stream: MakeStream
) -> None:
    stream = await nats_stream()
    async with leading(nats_server, stream, FORMER) as former, await nats.connect(nats_server.url) as operator:
        assert await former.deliver(in_term(FORMER, changes(3))) == ALL_STORED
        await operator.jetstream().purge_stream(stream.name)
        with pytest.raises(StreamInDoubt, match="its last message 103 cannot be read") as found:
            await a_sink(nats_server, stream).open(of_leader(NEXT))
        async with leading(nats_server, stream, NEXT, found.value.in_doubt) as confirmed:
            assert await confirmed.deliver(in_term(NEXT, changes(3, first=4))) == ALL_STORED

    assert await ids_of_stream(nats_server, stream) == ["term/2", *ids_of(changes(3, first=4))]


@pytest.mark.parametrize("term", ["9" * 5_000, "٣", "-1"])
async def test_an_unreadable_term_in_a_stream_waits_for_the_lease(
    nats_server: Nats, nats_stream: MakeStream, term: str
) -> None:
    stream = await nats_stream()
    async with await nats.connect(nats_server.url) as other:
        await other.jetstream().publish(f"{stream.prefix}.other", b"{}", headers={"ce-term": term})
        with pytest.raises(StreamInDoubt, match="its last message 1 cannot be read") as found:
            await a_sink(nats_server, stream).open(of_leader(NEXT))
        async with leading(nats_server, stream, NEXT, found.value.in_doubt) as confirmed:
            assert await confirmed.deliver(in_term(NEXT, changes(3))) == ALL_STORED


async def test_without_the_right_to_read_a_message_the_lease_decides(start_nats: StartNats, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("hush")
    (tmp_path / "nats.conf").write_text(
        "authorization: { users: [ { user: owner, password: hush }, { user: me, password: hush, permissions: {"
        ' publish: ["$JS.API.STREAM.INFO.>", "k8s.>"], subscribe: ["_INBOX.>"] } } ] }\n'
    )
    server = start_nats("-c", str(tmp_path / "nats.conf"))
    limited = {"user": "me", "password_file": tmp_path / "password", "connect_timeout": 4}
    async with await nats.connect(server.url, user="owner", password="hush") as owner:
        await owner.jetstream().add_stream(name="K8S", subjects=["k8s.>"])
        await owner.jetstream().publish("k8s.before", b"{}")
        first, confirmed = (the_sink(server, "K8S", "k8s", **limited) for _ in range(2))
        with pytest.raises(StreamInDoubt, match="its last message 1 cannot be read") as found:
            await first.open(of_leader(NEXT))
        async with opened_sink(confirmed, of_leader(NEXT, found.value.in_doubt)):
            assert await confirmed.deliver(in_term(NEXT, changes(3))) == ALL_STORED
        assert (await owner.jetstream().stream_info("K8S")).state.messages == 104


async def test_readers_take_the_notice_for_a_notice(nats_server: Nats, nats_stream: MakeStream) -> None:
    stream = await nats_stream()
    async with leading(nats_server, stream, NEXT):
        pass
    *before, notice = await nats_server.read_all(stream.name)
    assert len(before) == MAX_MESSAGES_IN_FLIGHT - 1
    assert {each.data for each in before} == {b'{"term":0}'}, "records of any earlier leader may come"
    assert len({each.headers["ce-id"] for each in before}) == len(before)
    assert {each.headers["ce-term"] for each in before} == {"2"}
    assert notice.data == b'{"term":2}'
    assert notice.subject == f"{stream.prefix}.notice._._"
    assert notice.headers["ce-type"] == "kubedelta.term.began.v1"
    assert notice.headers["ce-sequence"] == f"{3:020d}"
    async with await nats.connect(nats_server.url) as connection:
        for number in (1, MAX_MESSAGES_IN_FLIGHT):
            message = await connection.jetstream().get_msg(stream.name, number)
            [version] = StoredVersions().of(reader.Record(message.data, message.headers))
            assert version.kind is StoredKind.NOTICE
