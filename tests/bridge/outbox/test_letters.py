"""Dead letters go from a replica that has led to the one that leads."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from bridge.admin.live_operations import LiveOperations
from bridge.facts import Fact, discard
from bridge.facts.election import LettersOvertaken
from bridge.model.admin import UnknownTarget
from bridge.model.change import Evidence, Op
from bridge.model.dead_letter import MOST_LETTERS, LetterPage, NewDeadLetter, SentLetter
from bridge.model.primitives.shard import ALL_OBJECTS, Division, Shard
from bridge.model.record import Delta, Gap
from bridge.model.resource import Resource
from bridge.model.status import PauseCause, StatusSnapshot
from bridge.model.versions.frontier import Frontier, SinkFrontier
from bridge.model.versions.held import KeptLetters, digest_of
from bridge.model.versions.joining import joined as joined_shards
from bridge.model.versions.progress import Progress, decode_progress, encode_progress
from bridge.outbox import Replica, SharedLetters
from bridge.outbox.log import record_codec
from bridge.outbox.standby.progress import blank
from bridge.pipelines.feeds import TransactionFeed
from bridge.pipelines.live_tail import LiveTail
from tests.bridge.outbox.opened import crashed, feeds_of, joined, opened, story
from tests.bridge.outbox.test_destination_progress import begun, stored
from tests.bridge.outbox.test_standby import SINKS, Side, all_see, published, replicas

AUDIT = "audit"
URL = "https://kubedelta-0:8082"
NAME = "kubedelta-0"


def shared(side: Side) -> SharedLetters:
    letters = side.outbox.election.letters
    assert letters is not None
    return letters


async def rejects(side: Side, records: Sequence[Delta], sink: str = AUDIT, *, parked: bool = False) -> None:
    letters = [NewDeadLetter(each, "no", parked=parked, answer="because") for each in records]
    await side.outbox.sinks.dead_letters[sink].add_dead_letters(letters)


async def fetch(leader: Side, former: Side) -> list[int]:
    """All pages, as the leader asks for them. Returns the number of dead letters of each."""
    sizes = []
    published(leader)
    for replica, kept in shared(leader).wanted.items():
        through = kept.through
        while letters := (page := await shared(former).page(through)).letters:
            assert page.replica == replica
            assert await shared(leader).take(page) == ""
            through = letters[-1].number
            sizes.append(len(letters))
    return sizes


async def written(side: Side) -> None:
    """Returns behind all transactions."""
    await side.outbox.sinks.pause("slow", PauseCause.NONE)


async def listed(side: Side) -> list[tuple[str, str]]:
    return [(each.op, each.key) for each in await side.outbox.dead_letters(None, 0, 1000)]


async def led_by(leader: Side, follower: Side, *, address: str = URL) -> Frontier:
    """The follower takes over from a leader with an address."""
    leader.standby.configured.address = address
    found = published(leader)
    leader.standby.step_down()
    await follower.standby.take_over(2, found)
    published(follower)
    return found


async def test_the_new_leader_has_the_dead_letters(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [former, leader]:
        await former.standby.take_over(1, None)
        first, second = await former.sees("added shop/a", "updated shop/a", position="110")
        await rejects(former, [first])
        await rejects(former, [second], parked=True)
        await led_by(former, leader)
        assert await listed(leader) == []
        assert await fetch(leader, former) == [2]

        there = await leader.outbox.dead_letters(AUDIT, 0, 10)
        assert [(each.id, each.reason, each.parked, each.answer) for each in there] == [
            (first.id, "no", False, "because"),
            (second.id, "no", True, "because"),
        ]
        await leader.outbox.sinks.dead_letters[AUDIT].retry(None)
        again = await leader.outbox.sinks.dead_letters[AUDIT].next_retries(10)
        left = [leader.standby.in_term(each.record) for each in again]
        assert [each.sequence for each in left] == [former.standby.in_term(each).sequence for each in (first, second)]


async def test_what_is_stored_elsewhere_is_let_go(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [former, leader]:
        await former.standby.take_over(1, None)
        await rejects(former, await former.sees("added shop/a", position="110"))
        await led_by(former, leader)
        former.standby.observe(published(leader))
        assert len(await listed(former)) == 1, "nobody has it yet"
        await fetch(leader, former)
        former.standby.observe(published(leader))
        await written(former)
        assert await listed(former) == []
        assert not former.outbox.sinks.dead_letters[AUDIT].keys
        assert (await shared(former).page(0)).left == 0
        shared(leader).end("kubedelta-0")
        assert published(leader).kept == {}
        assert await listed(leader) == [("added", "shop/a")]


async def test_dead_letters_of_a_later_term_stay(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [former, leader]:
        await former.standby.take_over(1, None)
        await rejects(former, await former.sees("added shop/a", position="110"))
        await led_by(former, leader)
        await fetch(leader, former)
        earlier = published(leader)
        assert earlier.kept["kubedelta-0"].through == 1
        leader.standby.step_down()
        await former.standby.take_over(3, earlier)
        assert published(former).kept.keys() == {"kubedelta-1"}
        former.standby.step_down()
        former.standby.observe(earlier)
        await written(former)
        assert len(await listed(former)) == 1, "a frontier of an earlier term proves nothing"

        await leader.standby.take_over(4, earlier)
        assert published(leader).kept["kubedelta-0"].through == 0, "another leader was in between"


async def test_a_leader_with_an_empty_disk_asks_again(tmp_path: Path) -> None:
    """Else the other replica would let go of dead letters that only it has."""
    async with replicas(tmp_path) as [former, leader]:
        await former.standby.take_over(1, None)
        await rejects(former, await former.sees("added shop/a", position="110"))
        await led_by(former, leader)
        await fetch(leader, former)
        found = published(leader)
    (tmp_path / "empty").mkdir()
    async with opened(tmp_path / "empty", SINKS) as outbox:
        again = Side(outbox, await joined(outbox, "kubedelta-1_2"))
        await again.standby.take_over(3, found)
        assert (found.kept["kubedelta-0"].through, published(again).kept["kubedelta-0"].through) == (1, 0)


async def test_fetching_again_adds_nothing(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [former, leader]:
        await former.standby.take_over(1, None)
        await all_see([former, leader], "added shop/a", "added shop/b", position="110")
        [a, b] = (await feed_of(leader))[:2]
        await rejects(former, await feed_of(former))
        await rejects(leader, [b])
        await led_by(former, leader)
        page = await shared(former).page(0)
        for _ in range(2):
            assert await shared(leader).take(page) == ""
        assert [each.id for each in await leader.outbox.dead_letters(AUDIT, 0, 10)] == [b.id, a.id]


async def test_a_record_that_came_before_it_is_parked_is_one(tmp_path: Path) -> None:
    """It has another number in the log here."""
    async with replicas(tmp_path) as [former, leader]:
        await leader.sees("added shop/x", position="99")
        await former.standby.take_over(1, None)
        await all_see([former, leader], "added shop/a", position="110")
        await rejects(former, await feed_of(former))
        await led_by(former, leader)
        assert await fetch(leader, former) == [1]
        await rejects(leader, [each for each in await feed_of(leader) if each.key == "shop/a"], parked=True)
        assert [each.parked for each in await leader.outbox.dead_letters(AUDIT, 0, 10)] == [False]
        assert len(leader.outbox.sinks.dead_letters[AUDIT]) == 1


async def feed_of(side: Side) -> list[Delta]:
    feed = feeds_of(side.outbox).feed("slow")
    found = [each for each in (await feed.take(100)).items if isinstance(each, Delta)]
    feeds_of(side.outbox).end("slow")
    return found


async def test_records_parked_here_come_behind(tmp_path: Path) -> None:
    """The leader has parked later records of the object meanwhile, and has an earlier one of its first term."""
    async with replicas(tmp_path) as [former, leader]:
        steps = "added shop/a", "updated shop/a", "updated shop/a", "updated shop/a", "added shop/b"
        await former.standby.take_over(1, None)
        await all_see([former, leader], *steps, position="900")
        mine, theirs = await feed_of(leader), await feed_of(former)
        await rejects(leader, mine[:1])
        await rejects(former, theirs[1:3])
        await led_by(former, leader)
        await rejects(leader, mine[3:4], parked=True)
        await rejects(leader, mine[4:])
        dead = leader.outbox.sinks.dead_letters[AUDIT]
        assert await fetch(leader, former) == [2]

        there = await leader.outbox.dead_letters(AUDIT, 0, 10)
        of_object = [each.id for each in there if each.key == "shop/a"]
        assert of_object == [each.id for each in mine[:4]]
        assert (len(dead), dead.parked, dead.keys["pods", "shop/a"]) == (5, 1, mine[0].sequence)
        await dead.retry([there[0].number])
        retried = await dead.next_retries(10)
        assert [each.record.id for each in retried] == [each.id for each in mine[:4]]
        await dead.delivered([each.number for each in retried])
        assert list(dead.keys) == [("pods", "shop/b")]


async def test_a_number_stays_while_it_is_retried(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [former, leader]:
        await former.standby.take_over(1, None)
        await all_see([former, leader], "added shop/a", "updated shop/a", position="900")
        mine, theirs = await feed_of(leader), await feed_of(former)
        await rejects(former, theirs[:1])
        await led_by(former, leader)
        await rejects(leader, mine[1:], parked=True)
        dead = leader.outbox.sinks.dead_letters[AUDIT]
        await dead.retry(None)
        [retried] = await dead.next_retries(10)
        await fetch(leader, former)
        await dead.delivered([retried.number])
        assert [each.id for each in await leader.outbox.dead_letters(AUDIT, 0, 10)] == [mine[0].id]


async def test_pages_are_bounded(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [former, leader]:
        await former.standby.take_over(1, None)
        names = [f"added shop/{number}" for number in range(MOST_LETTERS + 5)]
        await rejects(former, await former.sees(*names, position="900"))
        await led_by(former, leader)
        assert await fetch(leader, former) == [MOST_LETTERS, 5]
        assert len(leader.outbox.sinks.dead_letters[AUDIT].keys) == MOST_LETTERS + 5


async def test_part_of_the_dead_letters_is_not_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would overtake those that are on their way; unless these wait for room."""
    async with replicas(tmp_path) as [former, leader]:
        await former.standby.take_over(1, None)
        await all_see([former, leader], "added shop/a", "updated shop/a", position="900")
        await rejects(former, await feed_of(former))
        await led_by(former, leader)
        page = await shared(former).page(0)
        first, second = (replace(page, letters=(each,)) for each in page.letters)
        live = operations_of(leader)
        assert await live.retry(AUDIT) == 0
        assert await shared(leader).take(first) == ""
        for refused in (live.retry, live.drop):
            with pytest.raises(UnknownTarget, match="some dead letters of kubedelta-0 are here"):
                await refused(AUDIT)
        monkeypatch.setattr("bridge.outbox.standby.letters.MOST", 1)
        assert "no room" in await shared(leader).take(second)
        assert await live.retry(AUDIT) == 1
        monkeypatch.undo()
        assert await shared(leader).take(second) == ""
        with pytest.raises(UnknownTarget):
            await live.retry(AUDIT)
        shared(leader).end("kubedelta-0")
        assert await live.retry(AUDIT) == 2


def operations_of(side: Side) -> LiveOperations:
    outbox, feeds = side.outbox, feeds_of(side.outbox)
    tail = LiveTail(feeds.processor, outbox.sinks, {}, "prod")
    status = StatusSnapshot(informers=(), sinks=())
    return LiveOperations(
        outbox,
        {},
        discard,
        cluster="prod",
        catalogue=lambda: None,
        reload=None,
        live_tail=tail,
        status=lambda: status,
    )


@asynccontextmanager
async def overtaken(root: Path, facts: list[Fact]) -> AsyncIterator[tuple[Side, Side, LetterPage]]:
    """A leader, the one before it, and that one's dead letters: of shop/a, and of shop/b and shop/c after its last
    publication."""
    async with replicas(root, facts=facts) as [former, leader]:
        await former.standby.take_over(1, None)
        await all_see([former, leader], "added shop/a", position="101")
        await former.delivers(AUDIT)
        [a] = await feed_of(former)
        await rejects(former, [a])
        former.standby.configured.address = URL
        found = published(former)
        await all_see([former, leader], "added shop/b", "updated shop/b", position="104")
        await all_see([former, leader], "added shop/c", position="106")
        await rejects(former, (await feed_of(former))[1:])
        former.standby.step_down()
        await leader.standby.take_over(2, found)
        yield former, leader, await shared(former).page(0)


async def test_what_was_delivered_again_is_no_dead_letter(tmp_path: Path) -> None:
    """Its delivery would bring an older state. Records that this leader has not settled yet stay."""
    facts: list[Fact] = []
    async with overtaken(tmp_path, facts) as (_, leader, page):
        assert (published(leader).followed, len(page.letters)) == ((NAME,), 4)
        assert await leader.delivers(AUDIT, 2) == ["added shop/b", "updated shop/b"]
        published(leader)
        assert await shared(leader).take(page) == ""
        assert await listed(leader) == [("added", "shop/a"), ("added", "shop/c")]
        assert [each for each in facts if isinstance(each, LettersOvertaken)] == [LettersOvertaken(NAME, 2)]


@pytest.mark.parametrize("followed", [True, False])
async def test_a_former_leader_drops_what_was_delivered_again(tmp_path: Path, followed: bool) -> None:
    facts: list[Fact] = []
    async with overtaken(tmp_path, facts) as (former, leader, _):
        await leader.delivers(AUDIT, 2)
        found = published(leader)
        await former.standby.take_over(3, found if followed else replace(found, followed=()))
        dropped = [("added", "shop/b"), ("updated", "shop/b")]
        there = [
            each for each in [("added", "shop/a"), *dropped, ("added", "shop/c")] if not (followed and each in dropped)
        ]
        assert await listed(former) == there
        assert {key for _, key in former.outbox.sinks.dead_letters[AUDIT].keys} == {key for _, key in there}
        reported = [each for each in facts if isinstance(each, LettersOvertaken)]
        assert reported == [LettersOvertaken(NAME, 2)] * followed


@pytest.mark.parametrize("why", ["passing", "transactional", "unnamed", "waits", "replay"])
async def test_what_may_not_have_been_delivered_stays(tmp_path: Path, why: str) -> None:
    async with overtaken(tmp_path, []) as (_, leader, page):
        standby = leader.standby
        standby.configured.passing = {AUDIT} if why == "passing" else ()
        standby.configured.transactional = {AUDIT} if why == "transactional" else ()
        await leader.delivers(AUDIT)
        published(leader)
        assert standby.found is not None
        if why == "unnamed":
            standby.found = replace(standby.found, followed=())
        if why == "waits":
            leader.outbox.sinks.dead_letters[AUDIT].hold(
                {digest_of(("pods", "shop/b")), digest_of(("pods", "shop/c"))}, whole=False
            )
        if why == "replay":
            letters = tuple(replace(each, record=replayed(each.record)) for each in page.letters)
            page = replace(page, letters=letters)
        assert await shared(leader).take(page) == ""
        assert len(await listed(leader)) == 4


def replayed(record: bytes) -> bytes:
    found = record_codec.decode_record(record)
    assert isinstance(found, Delta)
    return record_codec.encode_record(replace(found, replay=1))


@pytest.mark.parametrize(
    ("sink", "whole"),
    [
        (SinkFrontier(), True),
        (SinkFrontier(dead_letters=2, objects=1, parked=bytes(8)), True),
        (SinkFrontier(dead_letters=2, objects=2, parked=bytes(8)), False),
        (SinkFrontier(dead_letters=2), False),
    ],
)
async def test_only_what_is_held_back_can_be_overtaken(tmp_path: Path, sink: SinkFrontier, whole: bool) -> None:
    """Not behind a leader that passed them, or had too many to name."""
    async with replicas(tmp_path) as [_, leader]:
        before = replace(blank(Replica("prod", f"{NAME}_1", "1"), 1), address=URL)
        slow = SinkFrontier(dead_letters=1, objects=1, parked=bytes(8))
        followed = ("kubedelta-9", "kubedelta-1")
        await leader.standby.take_over(2, replace(before, sinks={AUDIT: sink, "slow": slow}, followed=followed))
        assert published(leader).followed == (("kubedelta-9", NAME) if whole else ())


async def test_a_long_reason_holds_up_no_page(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [former, _]:
        await former.standby.take_over(1, None)
        [record] = await former.sees("added shop/a", position="900")
        letter = NewDeadLetter(record, "x" * 100_000, parked=False, answer="")
        await former.outbox.sinks.dead_letters[AUDIT].add_dead_letters([letter])
        page = await shared(former).page(0)
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(page), type=LetterPage) == page


async def test_a_sink_without_room_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with replicas(tmp_path) as [former, leader]:
        await former.standby.take_over(1, None)
        await rejects(former, await former.sees("added shop/a", "added shop/b", position="900"))
        await led_by(former, leader)
        monkeypatch.setattr("bridge.outbox.standby.letters.MOST", 1)
        assert "no room" in await shared(leader).take(await shared(former).page(0))
        assert published(leader).kept["kubedelta-0"].through == 0
        assert await listed(leader) == []


async def test_dead_letters_of_a_sink_that_left_are_kept(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [former, leader]:
        await former.standby.take_over(1, None)
        await rejects(former, await former.sees("added shop/a", position="900"))
        await led_by(former, leader)
        page = await shared(former).page(0)
        letters = tuple(replace(each, sink="left") for each in page.letters)
        assert await shared(leader).take(replace(page, letters=letters)) == ""
        assert [each.sink for each in await leader.outbox.dead_letters(None, 0, 9)] == ["left"]
        assert "left" not in published(leader).sinks


async def test_a_leader_publishes_behind_a_forgotten_sink(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [leader, _]:
        await leader.standby.take_over(1, None)
        await rejects(leader, await leader.sees("added shop/a", position="900"))
        leader.outbox.registration.end(AUDIT)
        await leader.outbox.registration.count_absence(2.0, 1.0)
        assert AUDIT not in published(leader).sinks
        assert await listed(leader) == [("added", "shop/a")]


# ── Sinks that deliver in transactions ───────────────────────────────────────


async def opens(side: Side, committed: Progress | None) -> TransactionFeed:
    """The leader's sink opens at a destination with this progress."""
    feeds_of(side.outbox).end(AUDIT)
    side.standby.configured.transactional = {AUDIT}
    return await begun(side.outbox, committed, [], AUDIT)


async def transacted(side: Side, feed: TransactionFeed) -> tuple[Progress, list[int]]:
    """The progress with a transaction of all marked dead letters, and their numbers; the replica does not know that it
    is stored."""
    letters = await side.outbox.sinks.dead_letters[AUDIT].next_retries(100)
    feed.hand_over_letters(letters)
    return feed.sink_with_progress.progress, [each.number for each in letters]


@asynccontextmanager
async def retried(root: Path, number: int = 2) -> AsyncIterator[tuple[Side, Side, Progress, list[Side]]]:
    """A leader, the one before it, and the progress with the last transaction of that one: it had three dead letters,
    and was killed when two of them were stored, before it deleted them."""
    async with replicas(root, number) as [former, leader, *others]:
        await former.standby.take_over(1, None)
        await rejects(former, await former.sees("added shop/a", "added shop/b", "added shop/c", position="110"))
        feed = await opens(former, None)
        await former.outbox.sinks.dead_letters[AUDIT].retry([1, 2])
        progress, numbers = await transacted(former, feed)
        assert numbers == [1, 2]
        leader.standby.configured.transactional = {AUDIT}
        await led_by(former, leader)
        yield former, leader, progress, others


async def test_what_the_destination_has_does_not_come(tmp_path: Path) -> None:
    async with retried(tmp_path) as (former, leader, progress, _):
        await opens(leader, progress)
        await fetch(leader, former)
        assert await listed(leader) == [("added", "shop/c")]
        former.standby.observe(published(leader))
        await written(former)
        assert await listed(former) == []


async def test_the_destination_is_asked_before_they_come(tmp_path: Path) -> None:
    """In this term: since another replica has led, it may have more."""
    async with retried(tmp_path) as (former, leader, progress, _):
        assert "audit may have some of them" in await shared(leader).take(await shared(former).page(0))
        assert (await listed(leader), published(leader).kept[NAME].through) == ([], 0)
        await opens(leader, progress)
        found = published(leader)
        leader.standby.step_down()
        await leader.standby.take_over(3, found)
        assert "audit may have some of them" in await shared(leader).take(await shared(former).page(0))
        await opens(leader, progress)
        await fetch(leader, former)
        assert await listed(leader) == [("added", "shop/c")]


async def test_those_that_no_transaction_had_come_at_once(tmp_path: Path) -> None:
    """Also those behind which a sink is paused until they are here."""
    async with retried(tmp_path) as (former, leader, _, _):
        page = await shared(former).page(2)
        assert ([each.number for each in page.letters], page.numbering) == ([3], None)
        assert await shared(leader).take(page) == ""
        assert await listed(leader) == [("added", "shop/c")]


async def test_a_sink_without_progress_waits_for_nothing(tmp_path: Path) -> None:
    async with retried(tmp_path) as (former, leader, _, _):
        leader.standby.configured.transactional = ()
        await fetch(leader, former)
        assert len(await listed(leader)) == 3


async def test_a_killed_replica_is_recognised_by_its_earlier_start(tmp_path: Path) -> None:
    async with retried(tmp_path) as (former, leader, progress, _):
        left = crashed(tmp_path / "0", tmp_path / "left")
        assert progress.start == former.outbox.sinks.progress.starts.present
        async with opened(left, SINKS) as outbox:
            again = Side(outbox, await joined(outbox, f"{NAME}_2"))
            await opens(leader, progress)
            await fetch(leader, again)
            assert await listed(leader) == [("added", "shop/c")]


async def test_later_leaders_know_it_too(tmp_path: Path) -> None:
    async with retried(tmp_path, 3) as (former, second, progress, [third]):
        feed = await opens(second, progress)
        await second.sees("added shop/d", position="120")
        _, by_second = await stored(feed, 1)
        found = published(second)
        second.standby.step_down()
        await third.standby.take_over(3, found)
        await opens(third, decode_progress(encode_progress(by_second)))
        for _ in range(2):
            await fetch(third, former)
        assert await listed(third) == [("added", "shop/c")]


@pytest.mark.parametrize("why", ["", "version", "cursor", "start", "copy", "number", "unmarked"])
async def test_what_is_not_named_for_sure_is_taken(tmp_path: Path, why: str) -> None:
    """From an earlier version; of another cursor, another state directory, a copy of before the transaction; another
    dead letter; and one that no transaction can have had."""
    async with retried(tmp_path) as (former, leader, progress, _):
        page = await shared(former).page(0)
        assert page.numbering is not None
        numbering = replace(page.numbering, start="now", ends={page.numbering.start: progress.out})
        page = replace(page, numbering=numbering)
        match why:
            case "version":
                page = replace(page, numbering=None)
            case "cursor":
                page = replace(page, numbering=replace(numbering, cursors={AUDIT: "another"}))
            case "start":
                page = replace(page, numbering=replace(numbering, ends={}))
            case "copy":
                page = replace(page, numbering=replace(numbering, ends={progress.start: progress.out - 1}))
            case "number":
                progress = replace(progress, letters=(4,))
            case "unmarked":
                page = replace(page, letters=tuple(replace(each, retrying=False) for each in page.letters))
        await opens(leader, progress)
        assert await shared(leader).take(page) == ""
        assert len(await listed(leader)) == (3 if why else 1)


async def test_a_retried_record_of_a_batch_under_way_comes_once(tmp_path: Path) -> None:
    """The position of its batch does not cover it yet, and the replica has begun anew since it rejected it."""
    async with replicas(tmp_path) as [former, leader]:
        await former.standby.take_over(1, None)
        await all_see([former, leader], "added shop/a", "added shop/b", "added shop/c", position="110")
        feed = await opens(former, None)
        dead = former.outbox.sinks.dead_letters[AUDIT]
        feed.hand_over(fetch := await feed.take(1))
        await rejects(former, [each for each in fetch.items if isinstance(each, Delta)])
        feed.settle(fetch)
        feed = await opens(former, None)
        await dead.retry(None)
        _, numbers = await transacted(former, feed)
        await dead.delivered(numbers)
        feed.settle_letters()
        [b], progress = await stored(feed, 1)
        await led_by(former, leader)
        assert b == 2
        again = await (await opens(leader, progress)).take(100)
        assert story(again.items) == ["added shop/c"]


def delta_of(snapshot: str, replay: int) -> bytes:
    resource = Resource("", "v1", "pods", "Pod", namespaced=True)
    delta = Delta(1, Op.SYNC, Evidence.LISTED, resource, "a", "u", "1", "", 1, b"{}", snapshot=snapshot, replay=replay)
    return record_codec.encode_record(delta)


@pytest.mark.parametrize(
    "record",
    [
        b"",
        b"junk",
        record_codec.encode_record(Gap(1 << 63, 1, 1, "", "")),
        record_codec.encode_record(Gap(1, -(1 << 63), 1, "", "")),
        delta_of("junk", 1),
        delta_of("prod/audit/x", 0),
    ],
)
async def test_what_cannot_be_read_is_refused(tmp_path: Path, record: bytes) -> None:
    async with replicas(tmp_path) as [former, leader]:
        await former.standby.take_over(1, None)
        await rejects(former, await former.sees("added shop/a", position="900"))
        await led_by(former, leader)
        page = LetterPage(NAME, 1, (SentLetter(1, AUDIT, record, "", parked=False, answer=""),))
        with pytest.raises(ValueError, match="dead letter 1"):
            await shared(leader).take(page)
        assert await listed(leader) == []


# ── Another number of shards ─────────────────────────────────────────────────


async def test_each_shard_gets_the_dead_letters_of_its_objects(tmp_path: Path) -> None:
    async with replicas(tmp_path, 3) as [former, *heirs]:
        await former.standby.take_over(1, None)
        names = [f"added shop/{number}" for number in range(20)]
        records = await former.sees(*names, position="900")
        await rejects(former, records)
        notice = NewDeadLetter(Gap(21, 1, 1, "", ""), "no", parked=False)
        await former.outbox.sinks.dead_letters[AUDIT].add_dead_letters([notice])
        former.standby.configured.address = URL
        found = published(former)
        former.standby.step_down()
        for index, heir in enumerate(heirs):
            shard = heir.outbox.sinks.shard = Shard(2, index)
            await heir.standby.take_over(2, joined_shards([(None, found)], Division(2, index)).frontier)
            held = heir.outbox.sinks.dead_letters[AUDIT].keys
            assert published(heir).sinks[AUDIT].objects == 20, "all are named"
            assert await fetch(heir, former) == [21]
            shared(heir).end("kubedelta-0")
            own = sorted(each.key for each in records if shard.contains(each.uid, each.key))
            assert 0 < len(own) < len(records)
            there = await heir.outbox.dead_letters(AUDIT, 0, 100)
            assert sorted(each.key for each in there if each.key) == own
            assert [each.op for each in there if not each.key] == ["gap"] * (index == 0), "once"
            assert sorted(key for _, key in held) == own
            assert published(heir).sinks[AUDIT].objects == len(own), "those of the other shard are forgotten"
            assert published(heir).kept == {}
        assert len(await listed(former)) == 21


async def test_a_joined_shard_gets_dead_letters_of_each(tmp_path: Path) -> None:
    """Also of a replica that did not lead last: behind those that the leader of its shard had got."""
    async with replicas(tmp_path, 3) as [first, second, heir]:
        parts = []
        for index, former in enumerate((first, second)):
            former.outbox.sinks.shard = Shard(2, index)
            await former.standby.take_over(1, None)
            await rejects(former, await former.sees(f"added shop/{index}", position="900"))
            former.standby.configured.address = f"{URL}{index}"
            parts.append((former.outbox.sinks.shard, published(former)))
        before = KeptLetters("https://kubedelta-9", through=7)
        parts[0] = parts[0][0], replace(parts[0][1], kept={"kubedelta-9": before})
        await heir.standby.take_over(2, joined_shards(parts, ALL_OBJECTS).frontier)
        published(heir)
        assert shared(heir).wanted == {
            "kubedelta-9": KeptLetters(before.address, former=True, since=7),
            "kubedelta-0": KeptLetters(f"{URL}0", former=True),
            "kubedelta-1": KeptLetters(f"{URL}1", former=True),
        }
        for former in (first, second):
            assert await shared(heir).take(await shared(former).page(0)) == ""
        assert sorted(await listed(heir)) == [("added", "shop/0"), ("added", "shop/1")]


async def test_a_replica_with_the_name_of_a_former_one_deletes_nothing(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [leader, follower]:
        await rejects(follower, await follower.sees("added shop/a", position="900"))
        await leader.standby.take_over(1, None)
        kept = KeptLetters(URL, through=9, former=True)
        follower.standby.observe(replace(published(leader), kept={"kubedelta-1": kept}))
        await written(follower)
        assert len(await listed(follower)) == 1


def test_former_replicas_of_one_name_are_not_mistaken() -> None:
    kept = {"a": KeptLetters(URL), "b": KeptLetters(URL, through=3)}
    one = replace(blank(Replica("prod", "x_1", "1"), 1), kept=kept)
    other = replace(one, kept={"a": KeptLetters(f"{URL}1"), "b": KeptLetters(URL, former=True, since=2)})
    found = joined_shards([(Shard(2, 0), one), (Shard(2, 1), other)], ALL_OBJECTS).frontier
    assert found.kept == {"a": KeptLetters(former=True), "b": KeptLetters(URL, former=True, since=2)}


async def test_a_follower_wants_nothing(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [former, leader]:
        assert shared(leader).wanted == {}
        await former.standby.take_over(1, None)
        await rejects(former, await former.sees("added shop/a", position="110"))
        found = published(former)
        former.standby.step_down()
        await leader.standby.take_over(2, found)
        assert shared(leader).wanted == {}, "the former leader has no address"
        assert shared(former).wanted == {}
