"""Dead letters between replicas, over HTTP: who gets them, and what a leader makes of the answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from aiohttp import web
from msgspec.structs import replace

from bridge.admin.client import AdminClient
from bridge.facts import Fact, discard
from bridge.facts.election import LettersFetched, LettersMissing
from bridge.model.dead_letter import LetterNumbering, LetterPage, SentLetter
from bridge.model.primitives.shard import ALL_OBJECTS, Division
from bridge.model.record import Delta, Record
from bridge.model.versions.held import KeptLetters
from bridge.plan.plan import CopyPlan
from bridge.replicas.letters import LetterFetcher
from bridge.replicas.serving import CopyServer
from bridge.web.readiness import report
from sinks.base import ALL_STORED, Receipt
from tests.bridge.app.test_bridge import a_config_map
from tests.bridge.app.test_division import TIMING, ShardBridge
from tests.bridge.app.test_election import LEASE
from tests.bridge.outbox.test_letters import URL, led_by, listed, rejects, shared, written
from tests.bridge.outbox.test_standby import Side, published, replicas
from tests.bridge.replicas.test_copies import LOCAL, TOKEN, Copying, a_token, asked
from tests.cluster.servers.ports import reserve_port
from tests.kit.certificates import Authority
from tests.kit.playground import Playground
from tests.kit.sinks import RecordingSink

A = SentLetter(1, "audit", b"", "", parked=False, answer="")
NAME = "kubedelta-0"


@asynccontextmanager
async def takeover(root: Path, plan: CopyPlan) -> AsyncIterator[tuple[Side, Side, str]]:
    """A former leader with two dead letters, which serves them, and the leader that knows its address."""
    async with replicas(root) as [former, leader]:
        server = CopyServer(plan, root, None, shared(former).page, lambda: former.standby.leading, discard)
        await server.start()
        try:
            await former.standby.take_over(1, None)
            await rejects(former, await former.sees("added shop/a", "added shop/b", position="110"))
            await led_by(former, leader, address=server.address)
            yield former, leader, server.address
        finally:
            await server.stop()


@pytest.mark.parametrize("tls", [False, True])
async def test_the_leader_gets_all_dead_letters(tmp_path: Path, tls: bool) -> None:
    facts: list[Fact] = []
    plan = CopyPlan(listen=LOCAL, token_file=a_token(tmp_path))
    if tls:
        authority = Authority.make(tmp_path / "ca")
        shown = authority.issue("replica")
        plan = replace(plan, cert_file=shown.certificate, key_file=shown.key, ca_file=authority.certificate)
    async with takeover(tmp_path, plan) as (former, leader, _):
        fetcher = LetterFetcher(plan, shared(leader), facts.append)
        for _ in range(2):
            await fetcher.look()
        assert await listed(leader) == [("added", "shop/a"), ("added", "shop/b")]
        assert facts == [LettersFetched(NAME, 2)], "said once"

        former.standby.observe(published(leader))
        await written(former)
        assert await listed(former) == []
        await fetcher.look()
        assert published(leader).kept == {}


async def test_only_the_token_opens_dead_letters(tmp_path: Path) -> None:
    async with takeover(tmp_path, CopyPlan(listen=LOCAL, token_file=a_token(tmp_path))) as (former, _, url):
        assert (await asked(f"{url}/letters"))[0] == 401
        assert (await asked(f"{url}/letters", "wrong"))[0] == 401
        assert (await asked(f"{url}/letters?after=x", TOKEN))[0] == 400
        status, body = await asked(f"{url}/letters?after=1", TOKEN)
        page = msgspec.msgpack.decode(body, type=LetterPage)
        assert (status, page.left, [each.number for each in page.letters]) == (200, 2, [2])
        former.standby.leading = True
        assert (await asked(f"{url}/letters", TOKEN))[0] == 503


async def test_an_address_without_a_proof_gets_no_token(tmp_path: Path) -> None:
    """Whoever may write the Lease chooses the address."""
    ours, theirs = Authority.make(tmp_path / "ours"), Authority.make(tmp_path / "theirs")
    shown = theirs.issue("replica")
    plan = CopyPlan(
        listen=LOCAL,
        token_file=a_token(tmp_path),
        cert_file=shown.certificate,
        key_file=shown.key,
        ca_file=theirs.certificate,
    )
    async with takeover(tmp_path, plan) as (_, leader, _url):
        facts: list[Fact] = []
        await LetterFetcher(replace(plan, ca_file=ours.certificate), shared(leader), facts.append).look()
        [missing] = facts
        assert isinstance(missing, LettersMissing)
        assert "ertificate" in missing.reason
        assert await listed(leader) == []

        await LetterFetcher(replace(plan, ca_file=None), shared(leader), facts.append).look()
        assert isinstance(facts[1], LettersMissing)
        assert "election.base_copy.ca_file is not set here" in facts[1].reason


# ── What a stranger answers ──────────────────────────────────────────────────


class Wanting:
    """A leader that wants the dead letters of the replica at an address."""

    def __init__(self, address: str) -> None:
        self.wanted: Mapping[str, KeptLetters] = {NAME: KeptLetters(address)}
        self.taken: list[SentLetter] = []
        self.ended: list[str] = []

    async def take(self, page: LetterPage) -> str:
        self.taken += page.letters
        return "" if len(self.taken) < 3 else "a sink has no room"

    def end(self, replica: str) -> None:
        self.ended.append(replica)


@asynccontextmanager
async def a_stranger(answer: Callable[[int], bytes]) -> AsyncIterator[str]:
    """``answer``: for the number after which it is asked."""

    async def letters(request: web.Request) -> web.Response:
        return web.Response(body=answer(int(request.query["after"])))

    app = web.Application()
    app.router.add_get("/letters", letters)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def page(*numbers: int, replica: str = NAME, left: int = 9) -> bytes:
    letters = tuple(replace(A, number=number) for number in numbers)
    return msgspec.msgpack.encode(LetterPage(replica, left, letters))


def numbered(**values: object) -> bytes:
    """A page with such a numbering."""
    numbering = {"start": "s", "ends": {}, "cursors": {}, **values}
    return msgspec.msgpack.encode({"replica": NAME, "left": 0, "letters": [], "numbering": numbering})


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (lambda _: b"junk", "cannot be read"),
        (lambda _: b"\x91" * 100_000, "cannot be read"),
        (lambda _: msgspec.msgpack.encode({"replica": NAME, "left": -1, "letters": []}), "cannot be read"),
        (lambda _: page(*range(1, 202)), "cannot be read"),
        (lambda _: page(0), "cannot be read"),
        (lambda _: numbered(start="s" * 65), "cannot be read"),
        (lambda _: numbered(ends={"s": -1}), "cannot be read"),
        (lambda _: numbered(ends={"s": 1 << 62}), "cannot be read"),
        (lambda _: numbered(ends={str(each): 1 for each in range(1001)}), "cannot be read"),
        (lambda _: numbered(cursors={str(each): "c" for each in range(201)}), "cannot be read"),
        (lambda _: numbered(cursors={"audit": 7}), "cannot be read"),
        (lambda _: page(1, replica="kubedelta-1"), "kubedelta-1 answers at this address: give each replica a url"),
        (lambda _: page(2, 1), "not in the order"),
        (lambda after: page(1) if after == 0 else page(after), "not in the order"),
        (lambda after: page(after + 1), "a sink has no room"),
        (lambda _: bytes(1001), "more than 1000 bytes"),
    ],
)
async def test_another_answer_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: Callable[[int], bytes], why: str
) -> None:
    if "bytes" in why:
        monkeypatch.setattr("bridge.replicas.letters._LARGEST", 1000)
    facts: list[Fact] = []
    async with a_stranger(answer) as url:
        wanting = Wanting(url)
        fetcher = LetterFetcher(CopyPlan(listen=LOCAL, token_file=a_token(tmp_path)), wanting, facts.append)
        for _ in range(2):
            await fetcher.look()
    [missing] = facts
    assert isinstance(missing, LettersMissing)
    assert why in missing.reason
    assert wanting.ended == []


class FormerLetter(msgspec.Struct):
    number: int
    sink: str
    record: bytes
    reason: str
    parked: bool
    answer: str


class FormerPage(msgspec.Struct):
    """Of the version before marks for retry."""

    replica: str
    left: int
    letters: tuple[FormerLetter, ...]


def test_replicas_of_two_versions_read_the_pages_of_each_other() -> None:
    former = FormerPage(NAME, 1, (FormerLetter(1, "audit", b"", "", False, ""),))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(former), type=LetterPage) == LetterPage(NAME, 1, (A,))
    marked = LetterPage(NAME, 1, (replace(A, retrying=True),), LetterNumbering("s", {"r": 7}, {"audit": "c"}))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(marked), type=FormerPage) == former


async def test_a_former_leader_that_is_away_is_asked_again(tmp_path: Path) -> None:
    facts: list[Fact] = []
    plan = CopyPlan(listen=LOCAL, token_file=a_token(tmp_path))
    async with a_stranger(lambda after: page(left=0)) as url:
        wanting = Wanting(url)
    fetcher = LetterFetcher(plan, wanting, facts.append)
    for _ in range(2):
        await fetcher.look()
    assert [type(each) for each in facts] == [LettersMissing], "said once"
    async with a_stranger(lambda after: page(left=0)) as url:
        wanting.wanted = {NAME: KeptLetters(url)}
        await fetcher.look()
    assert wanting.ended == [NAME]


async def test_an_address_in_the_clear_is_not_asked(tmp_path: Path) -> None:
    facts: list[Fact] = []
    plan = CopyPlan(listen=LOCAL, token_file=a_token(tmp_path))
    await LetterFetcher(plan, Wanting(URL.replace("https", "http")), facts.append).look()
    [missing] = facts
    assert isinstance(missing, LettersMissing)
    assert "plain HTTP" in missing.reason


# ── Whole replicas ───────────────────────────────────────────────────────────


class RefusingSink(RecordingSink):
    """Rejects objects with names like ``bad`` until ``takes_all``."""

    takes_all = False

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        rejected = {
            index: "no"
            for index, each in enumerate(batch)
            if isinstance(each, Delta) and each.key.startswith("default/bad") and not self.takes_all
        }
        await super().deliver([each for index, each in enumerate(batch) if index not in rejected])
        return Receipt(rejected=rejected) if rejected else ALL_STORED


async def test_a_takeover_brings_the_dead_letters_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The former leader ends, and comes back as a follower; its dead letter is delivered by the next one."""
    defaults = LetterFetcher.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "every", 0.05)
    async with Playground(bookmark_interval=0.2) as cluster, asyncio.TaskGroup() as tasks:
        cluster.create(LEASE, {"metadata": {"name": "kubedelta", "namespace": "default"}, "spec": {}})
        port = reserve_port()
        taking = RefusingSink()

        def replica(name: str, port: int, sink: RecordingSink) -> Copying:
            plan = CopyPlan(listen=("127.0.0.1", port), token_file=a_token(tmp_path))
            made = Copying(cluster, name, tmp_path, plan)
            made.sink = sink
            return made

        first, second = replica("first", port, RefusingSink()), replica("second", 0, taking)
        first.start(tasks)
        await first.until(lambda: first.leads)
        second.start(tasks)
        await second.until_ready()
        cluster.create("configmaps", a_config_map("bad"))
        await first.until(lambda: first.bridge.snapshot().sinks[0].dead_letters == 1)
        await first.stop()
        await second.until(lambda: second.leads)
        cluster.update("configmaps", a_config_map("bad", "2"))
        await second.until(lambda: second.bridge.snapshot().sinks[0].parked == 1)

        again = replica("first", port, RefusingSink())
        again.start(tasks)
        await second.until(lambda: second.reported(LettersFetched))
        assert second.bridge.snapshot().sinks[0].dead_letters == 2
        await again.until(lambda: again.bridge.snapshot().sinks[0].dead_letters == 0)
        await second.until(lambda: "still at" not in report(second.bridge.snapshot()))
        taking.takes_all = True
        async with AdminClient(tmp_path / "second") as admin:
            await admin.retry("copy", None)
        await second.sink.until(lambda sink: sink.delivered() == ["added default/bad", "updated default/bad"])
        for each in (again, second):
            each.bridge.stop()


async def test_new_shards_bring_the_dead_letters_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until they have them, they name the former bridge. Each is delivered once."""
    defaults = LetterFetcher.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "every", 0.05)
    names = [f"bad-{number}" for number in range(8)]
    plan = CopyPlan(listen=LOCAL, token_file=a_token(tmp_path))
    (folder := tmp_path / "new").mkdir()
    wrong = replace(plan, token_file=a_token(folder, "of-nobody"))
    sink = RefusingSink()
    async with Playground(bookmark_interval=0.2) as cluster, asyncio.TaskGroup() as tasks:
        cluster.create(LEASE, {"metadata": {"name": "kubedelta", "namespace": "default"}, "spec": {}})

        def bridge(mine: Division, former: int, plan: CopyPlan) -> ShardBridge:
            made = ShardBridge(cluster, sink, mine, former, tmp_path / f"{mine.index}-of-{mine.of}", TIMING, plan)
            made._task = tasks.create_task(made.bridge.run())
            return made

        former = bridge(ALL_OBJECTS, 0, plan)
        await former.until_leads()
        for name in names:
            cluster.create("configmaps", a_config_map(name))
        await former.until(lambda: letters_of(former) == len(names))
        shards = [bridge(Division(2, index), 1, wrong) for index in range(2)]
        for each in shards:
            await each.until_leads()
            await each.until_reported(LettersMissing)
            assert "dead letters still at: 0-of-1" in report(each.bridge.snapshot())
        a_token(folder)
        for each in shards:
            await each.until_reported(LettersFetched)
            assert "still at" not in report(each.bridge.snapshot())
        assert sum(map(letters_of, shards)) == len(names) == letters_of(former)
        sink.takes_all = True
        for each in shards:
            async with AdminClient(tmp_path / f"{each.mine.index}-of-2") as admin:
                await admin.retry("copy", None)
        wanted = {f"added default/{name}" for name in names}
        await sink.until(lambda sink: wanted <= set(sink.delivered()))
        assert len(sink.delivered()) == len(set(sink.delivered()))
        for each in (former, *shards):
            each.bridge.stop()


def letters_of(bridge: ShardBridge) -> int:
    return bridge.bridge.snapshot().sinks[0].dead_letters
