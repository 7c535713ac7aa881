"""The driver of the Reflector: its requests, its deadlines, its pauses. All in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import cycle, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from bridge.informer.delta_fifo import DeltaFIFO
from bridge.informer.history.proof import OtherHistory
from bridge.informer.reflector.pacing import LARGE, QUEUED_AT_ONCE, Timing, split_for_queue
from bridge.informer.reflector.reflector import Reflector
from bridge.informer.reflector.states import NotSynced, Synced
from bridge.model.answers import (
    Announced,
    Bookmark,
    Busy,
    EventType,
    Expired,
    Failed,
    HungUp,
    ListRequest,
    Opened,
    Oversized,
    Refused,
    Silent,
    TooLarge,
    Unreadable,
    Unsupported,
    WatchRequest,
)
from bridge.model.object import ApiObject
from bridge.model.resource import Scope
from bridge.telemetry.facts import Fact
from bridge.telemetry.facts.informer import (
    InputUnreadable,
    ListCompleted,
    ListWatchFailed,
    ResourceRefused,
    VersionsRanBackwards,
    WatchEnded,
    WatchOpened,
)
from tests.bridge.informer.drained import drained
from tests.kit.objects import a_pod
from tests.kit.records import PODS
from tests.kit.scripted_source import (
    InParts,
    Quiet,
    ScriptedSource,
    Turn,
    added,
    closing_bookmark,
    modified,
    opened,
    page,
    part,
    trusted,
)
from tests.kit.virtual_time import settled

ALL = Scope()
WEB, DB = a_pod("web"), a_pod("db")
TORN = HungUp("the connection broke: ConnectionResetError", torn=True)
FAILED, HUNG_UP, EXPIRED = Failed("500 Internal Server Error"), HungUp("the stream ended"), Expired("too old")
LISTS, WATCHES = NotSynced(watch_list=False), Synced("7", watch_list=False)
ALWAYS = 0.999999999


@dataclass
class World:
    """A reflector on a scripted source, with its facts and its queue."""

    source: ScriptedSource
    reflector: Reflector
    fifo: DeltaFIFO
    facts: list[Fact] = field(default_factory=list)

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def reported(self, *kinds: type[Fact]) -> list[Fact]:
        return [fact for fact in self.facts if isinstance(fact, kinds)]

    async def played(self) -> None:
        """Return when the script has been played and nothing else happens at this moment."""
        await self.source.played.wait()
        await settled()


@asynccontextmanager
async def watching(
    *script: Turn,
    start: NotSynced | Synced = LISTS,
    resumed: bool = False,
    epoch: int = 1,
    jitter: Callable[[], float] = lambda: 0.5,
    timing: Timing | None = None,
    max_deltas: int = 2000,
) -> AsyncGenerator[World]:
    source = ScriptedSource(*script)
    fifo = DeltaFIFO(dict[str, None](), max_deltas=max_deltas, epoch=epoch)
    facts: list[Fact] = []
    reflector = Reflector(
        PODS,
        ALL,
        source,
        fifo,
        report=facts.append,
        timing=timing or Timing(),
        start=start,
        **trusted(),
        resumed=resumed,
        jitter=jitter,
    )
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(reflector.run())
        yield World(source, reflector, fifo, facts)
        running.cancel()
    assert source.open == 0


# ── Back-off ─────────────────────────────────────────────────────────────────


async def test_pauses_double_from_0_8_to_30_seconds() -> None:
    async with watching(*[FAILED] * 9, jitter=lambda: ALWAYS) as world:
        await world.played()
        await asyncio.sleep(31)

    assert world.source.pauses == pytest.approx([0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30, 30], abs=1e-5)


@pytest.mark.parametrize(("quiet", "pause"), [(119, 3.2), (121, 0.8)])
async def test_two_quiet_minutes_reset_the_pauses(quiet: float, pause: float) -> None:
    watch = opened(Quiet(quiet), Bookmark("8"), FAILED)
    async with watching(FAILED, FAILED, page(at=7), watch, jitter=lambda: ALWAYS) as world:
        await world.played()
        await asyncio.sleep(pause + 1)

    assert world.source.pauses[-1] - quiet == pytest.approx(pause, abs=1e-5)


async def test_a_server_that_says_how_long_is_given_that_long_at_least() -> None:
    async with watching(Busy("429 Too Many Requests", after=45), page(at=7)) as world:
        await world.played()

    assert world.source.pauses == [45.4, 0]


# ── Timeouts of a watch ──────────────────────────────────────────────────────


async def test_every_watch_draws_its_own_timeout() -> None:
    chances: Iterator[float] = cycle([0.0, 0.25, 0.75])
    ends = opened(Quiet(2), HUNG_UP)
    async with watching(ends, ends, ends, start=WATCHES, jitter=lambda: next(chances)) as world:
        await world.played()

    assert [request.timeout for request in world.source.requests if isinstance(request, WatchRequest)] == [
        300,
        375,
        525,
        300,
    ]


@pytest.mark.parametrize(
    ("stream", "lists"),
    [
        ([Opened(), Quiet(0.9), HUNG_UP], True),
        ([Opened(), Quiet(1.1), HUNG_UP], False),
        ([Opened(), modified(WEB.at(8)), HUNG_UP], False),
        ([Opened(), Silent(0.5)], False),
        ([Opened(), Quiet(0.9), TORN], False),
    ],
    ids=["very short", "longer than a second", "with an event", "silent", "torn"],
)
async def test_only_a_clean_empty_end_within_a_second_means_expired(stream: Turn, lists: bool) -> None:
    async with watching(stream, start=WATCHES) as world:
        await world.played()
        await asyncio.sleep(1)

    assert isinstance(world.source.requests[1], ListRequest) is lists


# ── Expired versions ─────────────────────────────────────────────────────────


async def test_the_first_expired_version_is_listed_at_once() -> None:
    async with watching(EXPIRED, page(at=9), opened(), start=WATCHES, jitter=lambda: ALWAYS) as world:
        await world.played()

    assert world.source.pauses == [0, 0]
    assert not world.reported(ListWatchFailed)


@pytest.mark.parametrize(("quiet", "pause"), [(59, 0.8), (61, 0)])
async def test_one_that_expires_within_a_minute_of_the_list_backs_off(quiet: float, pause: float) -> None:
    script: list[Turn] = [EXPIRED, page(at=9), opened(Quiet(quiet), EXPIRED), page(at=10)]
    async with watching(*script, start=WATCHES, jitter=lambda: ALWAYS) as world:
        await world.played()
        await asyncio.sleep(1)

    assert world.source.pauses[2] - quiet == pytest.approx(pause, abs=1e-5)


async def test_the_minute_begins_when_the_list_ends() -> None:
    """A list that takes longer than the server keeps history is followed by another 410, for ever."""
    slow: list[Turn] = [page(WEB.at(3), at=9, next_page="more"), Busy("429", after=90), page(at=9)]
    async with watching(EXPIRED, *slow, opened(EXPIRED), start=WATCHES, jitter=lambda: ALWAYS) as world:
        await world.played()
        await asyncio.sleep(2)

    assert sum(world.source.pauses[:4]) > 90
    assert world.source.pauses[4] == pytest.approx(0.8, abs=1e-5)


async def test_an_outage_does_not_delay_the_list_after_it() -> None:
    """An API server that is killed twice within a minute: whoever says that a version expired can be reached."""
    down: list[Turn] = [Busy("connection refused")] * 6
    async with watching(
        EXPIRED, page(at=9), *down, EXPIRED, page(at=10), start=WATCHES, jitter=lambda: ALWAYS
    ) as world:
        await world.played()
        await asyncio.sleep(1)

    assert sum(world.source.pauses[2:8]) > 45
    assert world.source.pauses[8] == pytest.approx(0.8, abs=1e-5)


# ── Refusals ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("status", "jitter", "seconds"),
    [(403, 0.5, 60), (403, 0.0, 48), (403, 1.0, 60 * (0.8 + 0.4)), (404, 0.5, 10)],
    ids=["forbidden", "asks early", "asks late", "not served"],
)
async def test_a_refused_resource_is_asked_for_slowly_and_reported(status: int, jitter: float, seconds: float) -> None:
    """And not by all informers at the same moment; one that is not served sooner, since it may be back."""
    async with watching(*[Refused(status, "refused")] * 4, jitter=lambda: jitter) as world:
        await world.played()
        await asyncio.sleep(seconds + 1)

    assert world.source.pauses == pytest.approx([seconds] * 4)
    assert (
        world.reported(ResourceRefused, ListWatchFailed) == [ResourceRefused(PODS, ALL, status, "refused", seconds)] * 4
    )


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_a_resource_just_granted_is_asked_for_again_in_seconds(status: int) -> None:
    """A kube-apiserver that starts refuses everything until it has read its RBAC objects."""
    refused = Refused(status, "forbidden")
    script: list[Turn] = [opened(Quiet(5), HUNG_UP), Busy("connection refused"), *[refused] * 6, opened(Quiet(9))]
    async with watching(*script, start=WATCHES, jitter=lambda: ALWAYS) as world:
        await world.played()

        assert world.source.pauses[1:] == pytest.approx([0, 0.8, 0.8, 1.6, 3.2, 5, 5, 5][1:], abs=1e-5)
        assert world.reflector.live
    assert not world.reported(ResourceRefused), "nobody has to grant what is granted"


async def test_a_refusal_becomes_the_operators_matter_after_a_minute() -> None:
    refused = Refused(403, "pods is forbidden")
    script: list[Turn] = [page(at=7), *[refused] * 40]
    async with watching(*script, jitter=lambda: 0.5) as world:
        began = world.now()
        await asyncio.sleep(59)
        assert not world.reported(ResourceRefused)
        assert world.reflector.last_error == "pods is forbidden"
        assert not world.reflector.refused
        await asyncio.sleep(200)
        assert world.reflector.refused

    late = [asked.at - began for asked in world.source.asked if asked.at - began > 60]
    assert [round(later - sooner) for sooner, later in pairwise(late)] == [60] * (len(late) - 1)
    assert world.reported(ResourceRefused) == [ResourceRefused(PODS, ALL, 403, "pods is forbidden", 60.0)] * len(late)


async def test_each_refusal_of_what_works_in_between_is_a_new_one() -> None:
    refused = Refused(403, "forbidden")
    script: list[Turn] = [page(at=7), *[refused] * 9, opened(Quiet(300), HUNG_UP), *[refused] * 9, opened(Quiet(1))]
    async with watching(*script, jitter=lambda: ALWAYS) as world:
        await world.played()

    assert not world.reported(ResourceRefused)


async def test_a_restarted_bridge_remembers_what_was_granted() -> None:
    refused = Refused(403, "forbidden")
    async with watching(*[refused] * 5, opened(Quiet(1)), start=WATCHES, resumed=True) as world:
        await world.played()

    assert max(world.source.pauses) <= 5
    assert not world.reported(ResourceRefused)


# ── WatchList ────────────────────────────────────────────────────────────────


async def test_initial_events_without_bookmark_are_listed_in_30_s() -> None:
    stream = opened(added(WEB.at(3)))
    async with watching(stream, page(WEB.at(3), at=7), start=NotSynced()) as world:
        await world.played()

    assert world.source.pauses[0] == 30.4
    assert world.source.requests[1] == ListRequest(version="3", limit=500)
    assert world.reported(WatchEnded, ListWatchFailed) == [
        WatchEnded(PODS, ALL, "the bookmark that ends the initial events did not come", 30.0, 1),
        ListWatchFailed(PODS, ALL, "watch", "the bookmark that ends the initial events did not come", 0.4),
    ]


async def test_initial_events_may_take_long_as_long_as_they_come() -> None:
    stream = opened(Quiet(29), added(WEB.at(3)), Quiet(29), added(DB.at(4)), Quiet(29), closing_bookmark(7))
    async with watching(stream, start=NotSynced()) as world:
        await world.played()

        assert len(world.source.requests) == 1
        assert world.reflector.live
        assert len((await drained(world.fifo)).deltas) == 2


async def test_a_slow_server_is_not_overdue_while_the_queue_is_full() -> None:
    stream = opened(added(WEB.at(3)), added(DB.at(4)), closing_bookmark(7))
    async with watching(stream, start=NotSynced(), max_deltas=1) as world:
        await asyncio.sleep(3600)
        await drained(world.fifo)
        await world.played()

        assert len(world.source.requests) == 1
        assert world.reflector.live


# ── Doubt ────────────────────────────────────────────────────────────────────


async def test_an_unreadable_line_ends_no_stream_and_a_list_repairs_it() -> None:
    stream = opened(Unreadable("no metadata"), added(WEB.at(9)))
    async with watching(stream, page(WEB.at(9), at=10), opened(Quiet(1)), start=WATCHES) as world:
        await settled()
        assert (await drained(world.fifo)).position is None
        await world.played()

        assert (await drained(world.fifo)).position == "10"

    assert world.source.pauses == [0.4, 0]
    assert world.source.requests[1] == ListRequest(version="9", limit=500)
    assert world.reported(InputUnreadable) == [InputUnreadable(PODS, ALL, "no metadata")]


async def test_a_list_repairs_also_a_stream_that_never_pauses() -> None:
    def busy() -> Iterator[Announced]:
        for version in range(8, 5000):
            yield modified(WEB.at(version))

    stream = opened(Unreadable("no metadata"), *busy())
    async with watching(stream, page(at=9), start=WATCHES, jitter=lambda: 0.0) as world:
        await world.played()

    assert isinstance(world.source.requests[1], ListRequest)
    assert len(world.fifo) == 0


async def test_a_lasting_unreadable_object_is_listed_ever_more_rarely() -> None:
    bad = page(at=7, unreadable=("no uid", "no name"))
    script: list[Turn] = [turn for _ in range(14) for turn in (bad, opened(Quiet(1)))]
    async with watching(*script, jitter=lambda: ALWAYS) as world:
        await world.played()

    assert world.reported(InputUnreadable) == [InputUnreadable(PODS, ALL, each) for each in bad.unreadable] * 14
    doubts = [pause for pause in world.source.pauses if pause]
    assert doubts[:4] == pytest.approx([0.8, 1.6, 3.2, 6.4], abs=1e-5)
    assert doubts[-2:] == pytest.approx([600, 600], abs=1e-5)


# ── What it reports ──────────────────────────────────────────────────────────


async def test_lists_and_watches_are_reported_with_what_they_brought() -> None:
    watch = opened(Quiet(5), added(DB.at(8)), modified(WEB.at(9)), Quiet(5), EXPIRED)
    script: list[Turn] = [page(WEB.at(3), at=7, next_page="more"), page(at=7), watch, page(WEB.at(9), DB.at(8), at=9)]
    async with watching(*script) as world:
        await world.played()

    assert world.facts == [
        ListCompleted(PODS, ALL, objects=1, seconds=0.0, relist=False),
        WatchOpened(PODS, ALL),
        WatchEnded(PODS, ALL, "too old", 10.0, events=2),
        ListCompleted(PODS, ALL, objects=2, seconds=0.0, relist=True),
    ]


async def test_a_watch_that_was_not_accepted_is_not_reported_as_ended() -> None:
    async with watching(Unsupported("400"), page(at=7), start=NotSynced()) as world:
        await world.played()

    assert not world.reported(WatchOpened, WatchEnded, ListWatchFailed)


@pytest.mark.parametrize("backwards", [modified(WEB.at(3)), Bookmark("3")])
async def test_a_watch_that_ran_backwards_says_so(backwards: Announced | Bookmark) -> None:
    async with watching(opened(backwards), start=WATCHES) as world:
        await settled()

    assert [fact.reason for fact in world.facts if isinstance(fact, WatchEnded | ListWatchFailed)] == [
        "versions ran backwards"
    ] * 2


# ── A store that was restored ────────────────────────────────────────────────


async def test_an_epoch_begins_once_the_old_one_is_processed() -> None:
    restored = opened(modified(WEB.at(90)), TooLarge("not there yet"))
    async with watching(restored, page(WEB.at(40), at=50), start=WATCHES) as world:
        await world.source.played.wait()
        await asyncio.sleep(3600)
        assert world.reflector.epoch == 1
        assert not world.reported(VersionsRanBackwards)

        assert (await drained(world.fifo)).position == "90"
        await settled()
        assert world.reflector.epoch == 2
        assert world.reported(VersionsRanBackwards) == [VersionsRanBackwards(PODS, ALL, "90", "50")]
        batch = await drained(world.fifo)
        assert (len(batch.deltas), batch.position) == (1, "50")


# ── How it is ────────────────────────────────────────────────────────────────


async def test_live_means_an_open_watch_on_a_complete_list() -> None:
    initial = opened(added(WEB.at(3)), Quiet(5), closing_bookmark(7), Quiet(5), Busy("429"))
    async with watching(initial, opened(Quiet(1)), start=NotSynced(), jitter=lambda: ALWAYS) as world:
        await asyncio.sleep(4)
        assert not world.reflector.live
        await asyncio.sleep(2)
        assert world.reflector.live
        await asyncio.sleep(4.5)
        assert not world.reflector.live
        await asyncio.sleep(1)
        assert world.reflector.live


async def test_a_failure_is_over_as_soon_as_a_watch_is_open() -> None:
    async with watching(FAILED, Refused(403, "forbidden"), opened(Quiet(60)), start=WATCHES) as world:
        await asyncio.sleep(0.1)
        assert (world.reflector.last_error, world.reflector.refused) == ("500 Internal Server Error", False)
        await asyncio.sleep(10)
        assert (world.reflector.last_error, world.reflector.refused) == ("forbidden", True)
        await asyncio.sleep(60)
        assert world.reflector.live
        assert (world.reflector.last_error, world.reflector.refused) == (None, False)


async def test_an_unreachable_server_answers_without_contact() -> None:
    unreachable: list[Turn] = [opened(modified(WEB.at(8)), Quiet(2), HUNG_UP), *[Busy("connection refused")] * 20]
    async with watching(*unreachable, start=WATCHES) as world:
        began = world.now()
        await world.played()
        assert world.now() - began > 100

        assert world.reflector.last_contact == began
        assert world.reflector.last_answer == world.now()


@pytest.mark.parametrize("word", [Bookmark("8"), modified(WEB.at(8)), Unreadable("no metadata"), EXPIRED])
async def test_every_byte_of_the_server_is_contact(
    word: Bookmark | Announced | Unreadable | Expired,
) -> None:
    async with watching(opened(Quiet(100), word), start=WATCHES) as world:
        began = world.now()
        await asyncio.sleep(101)

        assert world.reflector.last_contact >= began + 100


# ── Bounds and ends ──────────────────────────────────────────────────────────


async def test_a_full_queue_stops_the_reading_until_it_is_taken_from() -> None:
    events = [modified(WEB.at(version)) for version in range(8, 100)]
    async with watching(opened(*events), start=WATCHES, max_deltas=10) as world:
        await asyncio.sleep(3600)
        assert len(world.fifo) == 10
        assert not world.source.played.is_set()

        assert (await drained(world.fifo)).position == "17"
        await asyncio.sleep(1)
        assert len(world.fifo) == 10


async def test_a_full_queue_stops_the_pages_of_a_list() -> None:
    pages = [page(a_pod(f"web-{number}").at(3), at=7, next_page="more") for number in range(20)]
    async with watching(*pages, max_deltas=5) as world:
        await asyncio.sleep(3600)

        assert len(world.fifo) == 5
        assert len(world.source.requests) == 5, "an API server would not wait for ever with the sixth"


async def test_events_of_a_watch_list_are_in_the_queue_in_their_order() -> None:
    delivered = [
        (EventType.ADDED, WEB.at(3)),
        (EventType.DELETED, WEB.at(8)),
        (EventType.ADDED, WEB.born_again().at(9)),
    ]
    async with watching(opened(Announced(delivered), closing_bookmark(10)), start=NotSynced()) as world:
        await world.played()

        assert [delta.object for delta in (await drained(world.fifo)).deltas] == [thing for _, thing in delivered]


async def test_closing_the_queue_ends_the_watcher_and_its_connection() -> None:
    source = ScriptedSource(opened(Quiet(1), modified(WEB.at(8)), Quiet(1)))
    fifo = DeltaFIFO(dict[str, None]())
    reflector = Reflector(PODS, ALL, source, fifo, report=lambda _: None, timing=Timing(), start=WATCHES, **trusted())
    fifo.close()

    await reflector.run()

    assert source.open == 0


async def test_a_page_of_everything_waits_for_room_in_the_queue() -> None:
    objects = [a_pod(f"web-{number}").at(7) for number in range(10)]
    batches: list[int] = []
    async with watching(page(*objects, at=7), opened(), timing=Timing(page_size=2), max_deltas=4) as world:
        while sum(batches) < len(objects):
            await settled()
            batches.append(len((await drained(world.fifo)).deltas))

    assert max(batches) <= 4


# ── Pages of any size ────────────────────────────────────────────────────────


async def test_a_page_is_read_as_it_comes_and_waits_for_room() -> None:
    many = [a_pod(f"p{number}").at(3) for number in range(10)]
    parts = InParts([part(each, at=7) for each in many], page(at=7))
    async with watching(parts, opened(), max_deltas=4) as world:
        await settled()
        assert len(world.fifo) == 4, "the rest of the page is not read"
        while world.fifo.queue:
            await drained(world.fifo)
            await settled()
        await world.played()
        assert [fact.objects for fact in world.reported(ListCompleted) if isinstance(fact, ListCompleted)] == [10]


async def test_a_page_of_a_past_history_is_cut_short() -> None:
    many = [a_pod(f"p{number}").at(3) for number in range(10)]
    parts = InParts([part(each, at=7) for each in many], page(at=7))
    async with watching(parts, page(WEB.at(3), at=4), opened(), max_deltas=4) as world:
        await settled()
        world.reflector.learn(OtherHistory(was="9", now="4"))
        keys = []
        while world.fifo.queue:
            keys += [delta.key for delta in (await drained(world.fifo)).deltas]
            await settled()
        await world.played()
    assert keys == ["shop/p0", "shop/p1", "shop/p2", "shop/p3", "shop/p4", "shop/web"]


async def test_page_sizes_shrink_after_large_pages_and_grow_again() -> None:
    sizes = [LARGE + 1, LARGE + 1, LARGE, LARGE // 4 - 1, 0, 0]
    pages = [replace(page(at=7, next_page=f"{number}"), size=size) for number, size in enumerate(sizes)]
    async with watching(*pages, page(at=7), opened()) as world:
        await world.played()
        limits = [each.limit for each in world.source.requests if isinstance(each, ListRequest)]
    assert limits == [500, 250, 125, 125, 250, 500, 500]


async def test_a_page_that_cannot_be_held_is_asked_for_in_smaller_ones() -> None:
    too_much = Oversized("more than can be held")
    async with watching(too_much, too_much, page(WEB.at(3), at=7), opened()) as world:
        await world.played()
        requests = [each for each in world.source.requests if isinstance(each, ListRequest)]
    assert [(each.version, each.limit) for each in requests] == [("0", 500), ("", 62), ("", 7)]
    assert [fact.reason for fact in world.reported(ListWatchFailed) if isinstance(fact, ListWatchFailed)] == [
        too_much.reason
    ] * 2


@given(st.lists(st.integers(0, 3 << 20), max_size=20), st.integers(1, 5))
def test_objects_are_queued_in_chunks_by_count_and_bytes(sizes: list[int], most: int) -> None:
    objects = [ApiObject(f"o{number}", "u", "1", bytes(size)) for number, size in enumerate(sizes)]
    delivered = list(split_for_queue(objects, most))
    assert [each for few in delivered for each in few] == objects
    assert all(0 < len(few) <= most for few in delivered)
    assert all(sum(len(each.body) for each in few[:-1]) < QUEUED_AT_ONCE for few in delivered)
