"""At most ten lists at the same time, over all informers. In virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bridge.informer import SharedInformerFactory
from bridge.informer.delta_fifo import DeltaFIFO
from bridge.informer.reflector.pacing import Timing
from bridge.informer.reflector.reflector import ListLimiter, Reflector, Turn
from bridge.informer.reflector.states import NotSynced
from bridge.model.answers import Failed, ListAnswer, ListRequest, Opened, Page, TakePart, WatchAnswer, WatchRequest
from bridge.model.resource import Resource, Scope
from tests.kit.deadlines import BUSY
from tests.kit.objects import a_pod
from tests.kit.records import PODS
from tests.kit.scripted_source import Quiet, ScriptedSource, Stream, closing_bookmark, opened, page, trusted
from tests.kit.scripted_source import Turn as Answered
from tests.kit.virtual_time import settled

FOR_EVER = 10**6


class SlowSource:
    """Lists take a while, watches last for ever; counts the lists that are under way."""

    now_listing = 0
    most_listing = 0

    def __init__(self, seconds: float = 1.0) -> None:
        self._seconds = seconds

    async def list(self, request: ListRequest, take: TakePart | None = None) -> ListAnswer:
        if request.limit == 1:  # A proof.
            return Page([], "7", None)
        SlowSource.now_listing += 1
        SlowSource.most_listing = max(SlowSource.now_listing, SlowSource.most_listing)
        await asyncio.sleep(self._seconds)
        SlowSource.now_listing -= 1
        return Page([], "7", None)

    @asynccontextmanager
    async def watch(self, request: WatchRequest) -> AsyncIterator[AsyncIterator[WatchAnswer]]:
        yield self._nothing()

    async def _nothing(self) -> AsyncIterator[WatchAnswer]:
        yield Opened()
        await asyncio.sleep(FOR_EVER)


@pytest.fixture(autouse=True)
def nobody_lists() -> None:
    SlowSource.now_listing = SlowSource.most_listing = 0


def begun(turns: list[asyncio.Task[None]]) -> list[bool]:
    return [each.done() for each in turns]


@asynccontextmanager
async def beginning(*turns: Turn) -> AsyncIterator[list[asyncio.Task[None]]]:
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(turn.begin()) for turn in turns]
        await settled()
        yield running
        for each in running:
            each.cancel()


# ── Turns ────────────────────────────────────────────────────────────────────


async def test_who_comes_first_lists_first() -> None:
    limiter = ListLimiter(1)
    turns = [limiter.turn() for _ in range(3)]
    async with beginning(*turns) as waiting:
        assert begun(waiting) == [True, False, False]
        turns[0].end()
        await settled()
        assert begun(waiting) == [True, True, False]


async def test_a_stuck_list_delays_the_others_by_a_minute_at_most() -> None:
    limiter = ListLimiter(1)
    stuck, other = limiter.turn(), limiter.turn()
    async with beginning(stuck, other) as waiting:
        await asyncio.sleep(59)
        assert begun(waiting) == [True, False]
        await asyncio.sleep(2)
        assert begun(waiting) == [True, True]


async def test_a_slow_list_runs_beside_the_next_and_releases_once() -> None:
    limiter = ListLimiter(1)
    slow, second, third = (limiter.turn() for _ in range(3))
    await slow.begin()
    await asyncio.sleep(61)
    await second.begin()
    async with asyncio.timeout(1 * BUSY):
        await slow.begin()  # Its next page.
    slow.end()
    slow.end()

    async with beginning(third) as waiting:
        assert begun(waiting) == [False]


async def test_who_gives_up_waiting_takes_no_turn() -> None:
    limiter = ListLimiter(1)
    first, second = limiter.turn(), limiter.turn()
    await first.begin()
    async with beginning(second):
        pass
    second.end()
    first.end()
    async with asyncio.timeout(1 * BUSY):
        await limiter.turn().begin()


# ── Informers ────────────────────────────────────────────────────────────────


async def test_thirty_informers_list_ten_at_a_time() -> None:
    resources = [Resource("example.test", "v1", f"things{number}", "Thing", True) for number in range(30)]
    async with SharedInformerFactory(lambda _resource, _scope: SlowSource(), watch_list=False) as factory:
        for resource in resources:
            factory.informer(resource)
        now = asyncio.get_running_loop().time
        began = now()
        await factory.start().wait_synced()

        assert SlowSource.most_listing == 10
        assert now() - began == pytest.approx(3, abs=0.2)
        await factory.stop()


async def test_endless_lists_do_not_starve_other_informers() -> None:
    resources = [Resource("example.test", "v1", f"things{number}", "Thing", True) for number in range(15)]
    seconds = {resource: FOR_EVER if number < 10 else 1 for number, resource in enumerate(resources)}
    async with SharedInformerFactory(lambda resource, _: SlowSource(seconds[resource]), watch_list=False) as factory:
        informers = [factory.informer(resource) for resource in resources]
        factory.start()
        await asyncio.sleep(62)

        assert [informer.has_synced for informer in informers] == [False] * 10 + [True] * 5
        await factory.stop()


@asynccontextmanager
async def listing(limiter: ListLimiter, *script: Answered, watch_list: bool = False) -> AsyncIterator[Reflector]:
    reflector = Reflector(
        PODS,
        Scope(),
        ScriptedSource(*script),
        DeltaFIFO(dict[str, None]()),
        report=lambda _: None,
        timing=Timing(),
        start=NotSynced(watch_list=watch_list),
        **trusted(),
        jitter=lambda: 0.5,
        lists=limiter,
    )
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(reflector.run())
        await settled()
        yield reflector
        running.cancel()


@pytest.mark.parametrize(
    ("script", "watch_list", "free"),
    [
        ([page(at=7), opened()], False, True),
        ([page(a_pod("web").at(3), at=7, next_page="more"), page(at=7), opened()], False, True),
        ([opened()], True, False),
        ([opened(closing_bookmark(7))], True, True),
        ([Failed("500"), page(at=7)], False, True),
    ],
    ids=["a list", "two pages", "initial events", "initial events and their bookmark", "a pause"],
)
async def test_a_list_counts_from_its_first_request_to_its_last_page(
    script: list[Answered | Stream], watch_list: bool, free: bool
) -> None:
    limiter = ListLimiter(1)
    async with listing(limiter, *script, watch_list=watch_list):
        assert limiter.turn().must_wait is not free


async def test_an_informer_that_ends_gives_its_turn_back() -> None:
    limiter = ListLimiter(1)
    async with listing(limiter, opened(Quiet(30)), watch_list=True):
        assert limiter.turn().must_wait
    assert not limiter.turn().must_wait


async def test_an_informer_waiting_its_turn_says_so_and_is_not_stuck() -> None:
    limiter = ListLimiter(1, longest=3600)
    first = limiter.turn()
    await first.begin()
    async with listing(limiter, page(at=7), opened()) as reflector:
        await asyncio.sleep(1800)
        assert reflector.last_error == "other resources are listed first"
        assert reflector.last_answer == asyncio.get_running_loop().time()

        first.end()
        await settled()
        assert reflector.last_error is None
        assert reflector.live
