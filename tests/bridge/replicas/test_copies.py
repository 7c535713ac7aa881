"""Copies between replicas, over HTTP: who gets one, and what a replica with an empty disk makes of it."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec
import pytest
from msgspec.structs import replace

from bridge.app.bridge import Bridge
from bridge.election.lease import FRONTIER, LAST_TERM
from bridge.facts import Fact, ListCompleted
from bridge.facts.election import CopyFailed, CopyFetched, CopySent
from bridge.model.dead_letter import LetterPage
from bridge.model.primitives.shard import Shard
from bridge.model.versions.frontier import Frontier, encode
from bridge.outbox import BaseCopy
from bridge.plan.plan import CopyPlan
from bridge.plan.preflight import preflight
from bridge.replicas import requests
from bridge.replicas.fetching import fetch
from bridge.replicas.requests import parts_of
from bridge.replicas.serving import CopyServer
from bridge.transform.redaction_key import RedactionKey
from sinks.tls import tls_context
from tests.bridge.app.test_bridge import a_config_map
from tests.bridge.app.test_election import LEASE, Replica
from tests.bridge.outbox.opened import opened
from tests.kit.certificates import Authority
from tests.kit.deadlines import BUSY
from tests.kit.informed import Informed
from tests.kit.playground import Playground
from tests.kit.virtual_time import run_in_virtual_time

TOKEN = "a-token-of-some-length"
LOCAL = ("127.0.0.1", 0)


def a_token(folder: Path, text: str = TOKEN) -> Path:
    file = folder / "copy-token"
    file.write_text(text)
    return file


async def no_letters(after: int) -> LetterPage:
    return LetterPage("kubedelta-0", 0, ())


# ── The server ───────────────────────────────────────────────────────────────


@asynccontextmanager
async def serving(
    folder: Path, leads: Callable[[], bool] = lambda: True, shard: Shard | None = None, plan: CopyPlan | None = None
) -> AsyncIterator[tuple[str, list[Fact]]]:
    """The URL of a copy of a state with an object, and the facts."""
    facts: list[Fact] = []
    (state := folder / "state").mkdir()
    async with opened(state) as outbox:
        await (await Informed().begin(outbox)).exports(outbox, "added shop/a")
        plan = plan or CopyPlan(listen=LOCAL, token_file=a_token(folder))
        server = CopyServer(plan, state, shard, no_letters, leads, facts.append)
        await server.start()
        try:
            yield f"{server.address}/copy", facts
        finally:
            await server.stop()


async def asked(url: str, token: str | None = None) -> tuple[int, bytes]:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
        return answer.status, await answer.read()


async def test_only_the_token_opens_the_state(tmp_path: Path) -> None:
    async with serving(tmp_path) as (url, facts):
        assert (await asked(url))[0] == 401
        for _ in range(10):
            assert (await asked(url, "wrong"))[0] == 401
        assert (await asked(url, "wrong"))[0] == 429
        assert facts == []
        assert (await asked(url, TOKEN))[0] == 200, "wrong tokens of somebody else lock nobody out"


async def test_a_copy_is_a_whole_database(tmp_path: Path) -> None:
    async with serving(tmp_path) as (url, facts):
        status, content = await asked(url, TOKEN)
        assert (status, content[:15]) == (200, b"SQLite format 3")
        async with asyncio.timeout(10 * BUSY):
            while not facts:  # noqa: ASYNC110  # the server notes the end a little later than the client
                await asyncio.sleep(0)
        assert [type(fact) for fact in facts] == [CopySent]
        assert sorted(path.name for path in (tmp_path / "state").iterdir() if "copy" in path.name) == []


async def test_the_size_of_a_copy_comes_before_it_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To make one takes minutes: the other replica waits for longer where it is large."""
    may_go_on = threading.Event()

    class Blocked(BaseCopy):
        def step(self) -> bool:
            assert may_go_on.wait(60 * BUSY)
            return super().step()

    monkeypatch.setattr("bridge.replicas.serving.BaseCopy", Blocked)
    async with serving(tmp_path) as (url, _), asyncio.timeout(30 * BUSY):
        plan = CopyPlan(listen=LOCAL, token_file=a_token(tmp_path))
        try:
            async with requests.asked(plan, url, "the leader", silence=20 * BUSY) as answer:
                assert answer.connection is not None
                assert answer.connection.transport is not None
                connected = answer.connection.transport.get_extra_info("socket")
                assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE), "a dead node is noticed"
                may_go_on.set()
                assert len(await answer.read()) == answer.content_length
        finally:
            may_go_on.set()


def test_only_the_first_byte_may_take_long() -> None:
    class Answer:
        content: Answer

        async def iter_chunked(self, _most: int) -> AsyncIterator[bytes]:
            for seconds, part in ((900, b"a"), (119, b"b"), (121, b"c")):
                await asyncio.sleep(seconds)
                yield part

    found: list[bytes] = []

    async def read() -> None:
        answer = Answer()
        answer.content = answer
        async for part in parts_of(answer, 1 << 20, first=1000, then=120):  # type: ignore[arg-type]
            found.append(part)

    with pytest.raises(TimeoutError, match="no byte came for 120 s"):
        run_in_virtual_time(read())
    assert found == [b"a", b"b"]


async def test_a_renewed_certificate_is_shown_without_a_restart(tmp_path: Path) -> None:
    """Half a renewal leaves the former one in place."""
    former, later = Authority.make(tmp_path / "former"), Authority.make(tmp_path / "later")
    shown, renewed = former.issue("replica"), later.issue("replica")
    plan = CopyPlan(listen=LOCAL, token_file=a_token(tmp_path), cert_file=shown.certificate, key_file=shown.key)
    facts: list[Fact] = []
    server = CopyServer(plan, tmp_path, None, no_letters, lambda: False, facts.append)
    await server.start()

    async def trusted(authority: Authority) -> bool:
        tls = tls_context(authority.certificate, None, None)
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"{server.address}/copy", ssl=tls, headers={"Authorization": f"Bearer {TOKEN}"}) as answer,
            ):
                return answer.status == 503
        except aiohttp.ClientSSLError:
            return False

    try:
        assert (await trusted(former), await trusted(later)) == (True, False)
        renewed.certificate.replace(shown.certificate)
        assert (await trusted(former), await trusted(later)) == (True, False)
        renewed.key.replace(shown.key)
        assert (await trusted(former), await trusted(later)) == (False, True)
    finally:
        await server.stop()


async def test_a_follower_sends_no_copy(tmp_path: Path) -> None:
    async with serving(tmp_path, lambda: False) as (url, _):
        assert (await asked(url, TOKEN))[0] == 503


# ── Replicas ─────────────────────────────────────────────────────────────────


class Copying(Replica):
    """A replica that sends copies, and gets them."""

    def __init__(self, cluster: Playground, name: str, folder: Path, copy: CopyPlan) -> None:
        super().__init__(cluster, name, folder / name)
        plan = self.bridge._plan  # the plan of the other replica, with copies
        assert plan.election is not None
        self.bridge = Bridge(replace(plan, election=replace(plan.election, copy=copy)), self.facts.append)


def frontier_of(cluster: Playground) -> str:
    return str(cluster.get(LEASE, "kubedelta")["metadata"].get("annotations", {}).get(FRONTIER, ""))


@asynccontextmanager
async def a_leader_and(
    folder: Path, leader: CopyPlan, follower: CopyPlan
) -> AsyncIterator[tuple[Playground, Copying, Copying]]:
    """The leader has delivered three objects; the other replica is still to begin."""
    async with Playground(bookmark_interval=0.2) as cluster, asyncio.TaskGroup() as tasks:
        cluster.create(LEASE, {"metadata": {"name": "kubedelta", "namespace": "default"}, "spec": {}})
        first, second = Copying(cluster, "first", folder, leader), Copying(cluster, "second", folder, follower)
        first.start(tasks)
        for number in range(3):
            cluster.create("configmaps", a_config_map(f"a{number}"))
        await first.sink.until(lambda sink: "added default/a2" in sink.delivered())
        await first.until(lambda: '"address":"http' in frontier_of(cluster))
        second.start(tasks)
        await second.until(lambda: second.reported(CopyFetched) or second.reported(CopyFailed))
        await second.until_ready()
        yield cluster, first, second
        for each in (first, second):
            each.bridge.stop()


@pytest.mark.parametrize("tls", [False, True])
async def test_an_empty_replica_begins_with_the_leaders_state(tmp_path: Path, tls: bool) -> None:
    plan = CopyPlan(listen=LOCAL, token_file=a_token(tmp_path))
    if tls:
        authority = Authority.make(tmp_path / "ca")
        shown = authority.issue("replica")
        plan = replace(plan, cert_file=shown.certificate, key_file=shown.key, ca_file=authority.certificate)
    async with a_leader_and(tmp_path, plan, plan) as (cluster, first, second):
        assert [type(fact) for fact in second.facts if isinstance(fact, CopyFetched | CopyFailed)] == [CopyFetched]
        assert first.reported(CopySent)
        assert second.reported(ListCompleted) == [], "it goes on with watches"
        assert second.bridge.snapshot().ledger_objects == 3
        await first.stop()
        cluster.create("configmaps", a_config_map("b"))
        await second.sink.until(lambda sink: "added default/b" in sink.delivered())
        assert second.sink.delivered() == ["added default/b"], "the first has delivered the others"


async def test_a_leader_without_a_proof_gets_no_token(tmp_path: Path) -> None:
    """Whoever may write the Lease chooses the address: the certificate must be of the configured authorities."""
    ours, theirs = Authority.make(tmp_path / "ours"), Authority.make(tmp_path / "theirs")
    shown = theirs.issue("replica")
    plan = CopyPlan(
        listen=LOCAL,
        token_file=a_token(tmp_path),
        cert_file=shown.certificate,
        key_file=shown.key,
        ca_file=theirs.certificate,
    )
    async with a_leader_and(tmp_path, plan, replace(plan, ca_file=ours.certificate)) as (_, first, second):
        assert "could not be fetched" in second.reported(CopyFailed)[0].reason
        assert first.reported(CopySent) == []
        assert len(second.reported(ListCompleted)) == 1, "it begins as any new replica"


@pytest.mark.parametrize("scheme", ["https", "HTTPS"])
async def test_the_authorities_of_the_system_prove_no_leader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    """Anybody can have a certificate of theirs. A replica on loopback needs no ``ca_file`` of its own."""
    systems = Authority.make(tmp_path / "ca")
    monkeypatch.setenv("SSL_CERT_FILE", str(systems.certificate))
    shown = systems.issue("replica")
    plan = CopyPlan(listen=LOCAL, token_file=a_token(tmp_path), cert_file=shown.certificate, key_file=shown.key)
    async with serving(tmp_path, plan=plan) as (url, facts):
        found = Frontier(
            1, "test", 1, "first_1", "0.1.0", 0, address=url.replace("https", scheme).removesuffix("/copy")
        )
        assert "election.base_copy.ca_file is not set here" in await refused(tmp_path, "1", found)
        assert facts == [], "nobody got the token"


async def test_a_replica_with_another_token_begins_with_lists(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = CopyPlan(listen=LOCAL, token_file=a_token(tmp_path / "other", "another-token-altogether"))
    leader = CopyPlan(listen=LOCAL, token_file=a_token(tmp_path))
    async with a_leader_and(tmp_path, leader, other) as (_, _first, second):
        assert second.reported(CopyFailed)[0].reason == "the leader answers HTTP 401"
        assert "token" not in repr(second.facts).replace("token_file", "")


class WrittenLease:
    """A Lease with the annotations that somebody has written."""

    def __init__(self, **annotations: str) -> None:
        metadata = {
            "resourceVersion": "1",
            "annotations": {f"kubedelta/{name}": text for name, text in annotations.items()},
        }
        self._body = msgspec.json.encode({"metadata": metadata, "spec": {"holderIdentity": "first_1"}})

    async def read(self) -> bytes:
        return self._body


@pytest.mark.parametrize(
    ("term", "of_frontier", "words"),
    [
        ("4", 5, "of term 5, and its leaders had terms up to 4"),
        (str(LAST_TERM), LAST_TERM, "had terms up to 0"),
        ("", 1 << 60, "had terms up to 0"),
        ("4", 4, "the leader offers none"),
    ],
)
async def test_a_frontier_of_no_election_brings_no_copy(
    tmp_path: Path, term: str, of_frontier: int, words: str
) -> None:
    """With such a term in its state, a replica could never lead."""
    assert words in await refused(tmp_path, term, Frontier(1, "test", of_frontier, "first_1", "0.1.0", 0))


@pytest.mark.parametrize(
    ("theirs", "ours"), [(Shard(2, 0), Shard(2, 1)), (None, Shard(2, 1)), (Shard(2, 0), None), (Shard(4, 1), None)]
)
async def test_a_copy_of_another_shard_is_refused(tmp_path: Path, theirs: Shard | None, ours: Shard | None) -> None:
    """Such as where the url of all replicas is that of a Service."""
    async with serving(tmp_path, shard=theirs) as (url, _):
        found = Frontier(1, "test", 1, "first_1", "0.1.0", 0, address=url.removesuffix("/copy"))
        assert "give each a url of its own" in await refused(tmp_path, "1", found, ours)


async def refused(folder: Path, term: str, found: Frontier, shard: Shard | None = None) -> str:
    """Why a replica with an empty disk gets no copy behind a Lease with this term and frontier."""
    replica = Copying.__new__(Copying)
    Replica.__init__(replica, _Nowhere(), "second", folder / "second")  # type: ignore[arg-type]
    plan = replace(replica.bridge._plan, shard=shard)
    assert plan.election is not None
    election = replace(plan.election, copy=CopyPlan(listen=LOCAL, token_file=a_token(folder)))
    facts: list[Fact] = []
    lease = WrittenLease(term=term, frontier=encode(found))
    await fetch(plan, election, lease, (RedactionKey(b"k" * 32),), None, facts.append)  # type: ignore[arg-type]
    [failed] = facts
    assert isinstance(failed, CopyFailed)
    return failed.reason


# ── Its options ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({}, []),
        ({"listen": ("0.0.0.0", 8082)}, ["url"]),
        ({"url": "http://kubedelta-0:8082"}, ["url"]),
        ({"url": "http://kubedelta-0:8082", "allow_http": True}, []),
        ({"url": "https://kubedelta-0:8082"}, ["url"]),
        ({"cert_file": Path("missing.crt")}, ["", "ca_file", "cert_file"]),
        ({"token_file": Path("missing")}, ["token_file"]),
    ],
)
def test_a_server_that_shows_secrets_is_refused(tmp_path: Path, options: dict[str, object], wrong: list[str]) -> None:
    copy = CopyPlan(**{"listen": ("127.0.0.1", 8082), "token_file": a_token(tmp_path), **options})  # type: ignore[arg-type]
    replica = Copying.__new__(Copying)
    Replica.__init__(replica, _Nowhere(), "first", tmp_path / "first")  # type: ignore[arg-type]
    plan = replica.bridge._plan
    assert plan.election is not None
    found = [where for where, _ in preflight(replace(plan, election=replace(plan.election, copy=copy)))]
    paths = [f"election.base_copy.{name}".rstrip(".") for name in wrong]
    assert [where for where in found if where.startswith("election.base_copy")] == paths


class _Nowhere:
    url = "http://127.0.0.1:1"
