"""Lists and watches of a shard: other objects are dropped, and the server is asked to select."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from bridge.kube.lister_watcher import ShardListerWatcher, shard_selector
from bridge.model.answers import (
    Announced,
    Bookmark,
    Busy,
    Failed,
    HungUp,
    ListerWatcher,
    ListRequest,
    Match,
    Opened,
    Page,
    Part,
    Refused,
    Unsupported,
    WatchAnswer,
    WatchRequest,
)
from bridge.model.primitives.shard import Shard, ShardBy
from tests.kit.deadlines import BUSY
from tests.kit.objects import Blueprint, a_pod
from tests.kit.scripted_source import (
    InParts,
    ScriptedSource,
    Turn,
    added,
    closing_bookmark,
    deleted,
    modified,
    opened,
    page,
    part,
)

SHARD = Shard(2, 0)
SELECTOR = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')"
LIST = ListRequest(version="", limit=500)
WATCH = WatchRequest(version="7", timeout=300)
PODS = [a_pod(f"pod-{number}") for number in range(20)]
OWN = [each for each in PODS if SHARD.contains(each.uid, each.key)]
OTHERS = [each for each in PODS if each not in OWN]
ENDED = HungUp("the stream ended")
IGNORES = page(at="7")
SELECTS = Page([], "7", None, shard_selector=SELECTOR)


def sharded(*script: Turn) -> tuple[ShardListerWatcher, ScriptedSource, list[bool]]:
    """With the API server's answers, its requests, and what was noticed."""
    source, noticed = ScriptedSource(*script), list[bool]()
    return ShardListerWatcher(source, SHARD, noticed.append), source, noticed


async def watched(lister: ListerWatcher, request: WatchRequest = WATCH) -> list[WatchAnswer]:
    async with asyncio.timeout(10 * BUSY), lister.watch(request) as answers:
        return [answer async for answer in answers]


def keys(answer: object) -> list[str]:
    assert isinstance(answer, Page | Part)
    return [each.key for each in answer.objects]


def named(blueprints: Sequence[Blueprint]) -> list[str]:
    return [each.key for each in blueprints]


# ── Objects of other shards ──────────────────────────────────────────────────


async def test_a_list_has_the_objects_of_the_shard_alone() -> None:
    lister, _, _ = sharded(IGNORES, page(*[each.at(3) for each in PODS], at="7"))

    assert keys(await lister.list(LIST)) == named(OWN)


async def test_so_have_the_parts_of_a_page() -> None:
    parts = [part(*[each.at(3) for each in some], at="7") for some in (PODS[:10], [OTHERS[0]], PODS[10:])]
    lister, _, _ = sharded(IGNORES, InParts(parts, page(at="7")))
    taken: list[Part] = []

    async def take(some: Part) -> None:
        taken.append(some)

    await lister.list(LIST, take)

    assert [key for some in taken for key in keys(some)] == named(OWN)
    assert all(some.objects for some in taken)


@pytest.mark.parametrize(
    "request_",
    [
        ListRequest(version="", limit=0, only=OTHERS[0].key),
        ListRequest(version="3", limit=0, match=Match.EXACT, only=OTHERS[0].key),
        ListRequest(version="3", limit=9, match=Match.EXACT),
    ],
)
async def test_a_look_into_history_drops_others_without_a_selector(request_: ListRequest) -> None:
    lister, source, _ = sharded(page(OTHERS[0].at(3), OWN[0].at(2), at="7"))

    assert keys(await lister.list(request_)) == [OWN[0].key]
    assert source.requests == [request_]


async def test_a_watch_has_the_changes_of_the_shard_alone() -> None:
    mine, other = OWN[0], OTHERS[0]
    answers = await watched(
        sharded(IGNORES, opened(added(other.at(8), mine.at(9)), deleted(other.at(10), mine.at(11)), ENDED))[0]
    )

    assert answers == [Opened(), added(mine.at(9)), deleted(mine.at(11)), ENDED]


async def test_a_bookmark_stands_for_dropped_changes() -> None:
    mine, other = OWN[0], OTHERS[0]
    answers = await watched(
        sharded(IGNORES, opened(modified(mine.at(8), other.at(9)), modified(other.at(10), other.at(11)), ENDED))[0]
    )

    assert answers == [Opened(), modified(mine.at(8)), Bookmark("9"), Bookmark("11"), ENDED]


async def test_initial_events_have_no_position() -> None:
    mine, other = OWN[0], OTHERS[0]
    stream = opened(added(mine.at(8), other.at(3)), closing_bookmark(9), modified(other.at(10)), ENDED)
    request = WatchRequest(version="", timeout=300, initial_events=True)

    answers = await watched(sharded(IGNORES, stream)[0], request)

    assert answers == [Opened(), added(mine.at(8)), closing_bookmark(9), Bookmark("10"), ENDED]


async def test_an_answer_of_own_changes_passes_as_it_is() -> None:
    announced = modified(*[each.at(number) for number, each in enumerate(OWN, 8)])

    answers = await watched(sharded(IGNORES, opened(announced, ENDED))[0])

    assert answers[1] is announced


async def test_by_namespace_the_namespace_decides() -> None:
    shard = Shard(2, 0, ShardBy.NAMESPACE)
    here = [a_pod("a", f"team-{number}") for number in range(20)]
    source = ScriptedSource(page(*[each.at(3) for each in here], at="7"))

    found = await ShardListerWatcher(source, shard).list(LIST)

    assert keys(found) == [each.key for each in here if shard.contains("", each.key)]
    assert source.requests == [LIST], "API servers cannot select by this hash"


# ── Selection by the server ──────────────────────────────────────────────────


def test_the_selector_is_written_as_the_server_echoes_it() -> None:
    assert shard_selector(SHARD) == SELECTOR
    last = "shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')"
    assert shard_selector(Shard(2, 1)) == last


async def test_a_server_that_says_so_is_asked_to_select() -> None:
    lister, source, noticed = sharded(SELECTS, page(OWN[0].at(3), at="7"), SELECTS, opened(ENDED))

    await lister.list(LIST)
    await watched(lister)

    assert [each.shard_selector for each in source.requests] == [SELECTOR] * 4
    assert noticed == [True]


async def test_other_servers_are_not() -> None:
    other_selector = Page([], "7", None, shard_selector=SELECTOR.replace("0x8", "0x4"))
    lister, source, noticed = sharded(IGNORES, page(at="7"), other_selector, opened(ENDED))

    await lister.list(LIST)
    await watched(lister)

    assert [each.shard_selector for each in source.requests] == [SELECTOR, "", SELECTOR, ""]
    assert noticed == [False]


async def test_objects_that_a_selecting_server_sends_are_dropped_too() -> None:
    stream = opened(modified(OTHERS[0].at(8)), ENDED)
    lister, _, _ = sharded(SELECTS, page(*[each.at(3) for each in PODS], at="7"), SELECTS, stream)

    assert keys(await lister.list(LIST)) == named(OWN)
    assert await watched(lister) == [Opened(), Bookmark("8"), ENDED]


async def test_the_pages_of_a_list_have_the_selector_of_the_first() -> None:
    lister, source, _ = sharded(SELECTS, page(at="7", next_page="t"), page(at="7"), IGNORES, page(at="8"), page(at="8"))
    more = ListRequest(version="", limit=500, next_page="t")

    for request in (LIST, more, LIST, more):
        await lister.list(request)

    assert [each.shard_selector for each in source.requests] == [SELECTOR] * 3 + [SELECTOR, "", ""]


@pytest.mark.parametrize("failure", [Failed("500"), Unsupported("400")])
async def test_after_a_failure_with_the_selector_none_is_sent(failure: Failed | Unsupported) -> None:
    lister, source, _ = sharded(SELECTS, failure, page(at="7"), SELECTS, [failure], opened(ENDED))

    assert await lister.list(LIST) is failure
    await lister.list(LIST)
    assert await watched(lister) == [failure]
    await watched(lister)

    assert [each.shard_selector for each in source.requests] == [SELECTOR, SELECTOR, "", SELECTOR, SELECTOR, ""]


async def test_a_server_that_cannot_say_is_asked_for_everything() -> None:
    lister, source, noticed = sharded(Failed("500"), page(at="7"))

    assert isinstance(await lister.list(LIST), Page)
    assert [each.shard_selector for each in source.requests] == [SELECTOR, ""]
    assert noticed == []


@pytest.mark.parametrize("answer", [Busy("429", after=3.0), Refused(403, "forbidden")])
async def test_a_refusal_is_the_answer(answer: Busy | Refused) -> None:
    lister, source, _ = sharded(answer, answer)

    assert await lister.list(LIST) is answer
    assert await watched(lister) == [answer]
    assert len(source.requests) == 2, "a busy server is not asked once more"


async def test_a_change_of_the_server_is_noticed() -> None:
    lister, _, noticed = sharded(SELECTS, page(at="7"), SELECTS, page(at="7"), IGNORES, page(at="7"))

    for _ in range(3):
        await lister.list(LIST)

    assert noticed == [True, False]


async def test_the_watch_of_the_server_ends_with_that_of_the_shard() -> None:
    lister, source, _ = sharded(IGNORES, opened(added(OWN[0].at(8))))

    async with lister.watch(WATCH) as answers:
        assert isinstance(await anext(answers), Opened)
        assert isinstance(await anext(answers), Announced)
        assert source.open == 1

    assert source.open == 0
