"""A replay, and a new sink that begins with the earliest record, get what the present selection chooses."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge.app.admin.operations import OfflineOperations
from bridge.model.admin import Replayed, ReplayRequest, UnknownTarget
from bridge.model.policies import StartPolicy
from bridge.views.selection import SelectorText
from tests.bridge.delivery.chat import BIG, EVERY, change, put, started, taken
from tests.kit.pipelines import replay

REPLICAS = (SelectorText(resource="pods", when="op != 'updated' || object.spec.n != oldObject.spec.n"),)


async def test_a_replay_asks_the_present_selection(tmp_path: Path) -> None:
    async with started(tmp_path, EVERY) as (outbox, feed):
        await change(outbox, ("a", 1), ("b", 9), ("a", 7), ("b", 8), ("b", 2))
        assert len(await taken(feed)) == 5
    async with started(tmp_path, BIG) as (outbox, feed):
        assert await taken(feed) == ["deleted b"]
        assert await replay(outbox, feed, 1) == Replayed(4, 2, 5)
        assert await taken(feed) == ["added b", "added a", "updated b", "deleted b"]


async def test_a_replay_knows_no_state_before_its_first_record(tmp_path: Path) -> None:
    async with started(tmp_path, BIG) as (outbox, feed):
        await change(outbox, ("a", 7), ("a", 8), ("a", 1))
        await taken(feed)
        await replay(outbox, feed, 2)
        assert await taken(feed) == ["updated a", "deleted a"]


async def test_a_replay_waits_until_the_sink_has_the_difference(tmp_path: Path) -> None:
    async with started(tmp_path, EVERY) as (outbox, feed):
        await put(outbox, 1, 9)
    async with started(tmp_path, BIG) as (outbox, feed):
        with pytest.raises(UnknownTarget, match=r"selection changed with record 3: ask again when it has that"):
            await replay(outbox, feed, 1)
        await taken(feed)
        await replay(outbox, feed, 1)
        assert await taken(feed) == ["added 9"]


async def test_in_a_replay_an_expression_reads_the_state_before(tmp_path: Path) -> None:
    async with started(tmp_path, REPLICAS) as (outbox, feed):
        await change(outbox, ("a", 1), ("a", 1), ("a", 2))
        assert await taken(feed) == ["added a", "updated a"]
        await replay(outbox, feed, 1)
        assert await taken(feed) == ["added a", "updated a"]


async def test_the_files_of_a_stopped_bridge_are_judged_too(tmp_path: Path) -> None:
    async with started(tmp_path, BIG) as (outbox, feed):
        await put(outbox, 1, 9)
        await taken(feed)
    async with started(tmp_path, None) as (outbox, _):
        stopped = OfflineOperations(outbox, "test")
        assert await stopped.replay(ReplayRequest("chat", "beginning")) == Replayed(1, 2, 2)


async def test_a_new_sink_begins_with_the_earliest_it_selects(tmp_path: Path) -> None:
    async with started(tmp_path, None) as (outbox, _):
        await change(outbox, ("a", 1), ("a", 9), ("b", 1), ("a", 2))
    async with started(tmp_path, BIG, start=StartPolicy.EARLIEST) as (outbox, feed):
        await change(outbox, ("b", 7))
        assert await taken(feed) == ["added a", "deleted a", "added b"]
