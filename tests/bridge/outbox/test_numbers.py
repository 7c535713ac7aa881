"""The numbers of a new state: behind every number of a state that was lost, and small enough for every reader."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bridge.model.formats.row import Rows
from bridge.model.policies import StartPolicy
from bridge.model.record import Delta
from bridge.outbox import Outbox
from bridge.outbox.opening import number_of_now
from tests.bridge.outbox.opened import AUDIT, everything, story
from tests.kit.informed import Informed

LARGEST_IN_JSON = 2**53
"""Readers of JSON lose digits of larger integers."""


@asynccontextmanager
async def begun(directory: Path, sinks: Any = AUDIT) -> AsyncIterator[Outbox]:
    """An outbox with the numbers of a bridge."""
    await asyncio.to_thread(directory.mkdir, exist_ok=True)
    async with await Outbox.open(directory, sinks, report=lambda _: None, first_behind=number_of_now) as outbox:
        yield outbox


async def exported(outbox: Outbox, *steps: str) -> list[int]:
    informer = await Informed().begin(outbox)
    return [delta.sequence for delta in await informer.exports(outbox, *steps)]


async def test_numbers_ascend_over_a_lost_state(tmp_path: Path) -> None:
    steps = [f"added shop/web-{number}" for number in range(50)]
    async with begun(tmp_path / "lost") as outbox:
        former = await exported(outbox, *steps)
    async with begun(tmp_path / "new") as outbox:
        assert outbox.records == 0
        assert outbox.first == outbox.last + 1
        later = await exported(outbox, *steps)
        assert (await outbox.check()).problems == []

    assert former == list(range(former[0], former[0] + 50))
    assert later[0] > former[-1]


async def test_numbers_are_microseconds_that_json_holds(tmp_path: Path) -> None:
    before = time.time_ns() // 1000
    async with begun(tmp_path / "state") as outbox:
        [number] = await exported(outbox, "added shop/web")
        [record] = await everything(outbox)
        assert isinstance(record, Delta)

    assert before < number <= time.time_ns() // 1000 + 1 < LARGEST_IN_JSON
    row = json.loads(Rows("prod")(record))
    assert row["sequence"] == str(number)


async def test_a_known_state_keeps_its_numbers(tmp_path: Path) -> None:
    async with await Outbox.open(tmp_path, AUDIT, report=lambda _: None, first_behind=lambda: 0) as outbox:
        assert await exported(outbox, "added shop/web", "updated shop/web") == [1, 2]
    async with begun(tmp_path) as outbox:
        assert await exported(outbox, "updated shop/web") == [3]
        assert story(await everything(outbox)) == ["added shop/web", "updated shop/web", "updated shop/web"]


async def test_every_start_policy_begins_at_the_first_number(tmp_path: Path) -> None:
    sinks = {policy.value: policy for policy in StartPolicy}
    async with begun(tmp_path / "state", sinks) as outbox:
        numbers = await exported(outbox, "added shop/web", "added shop/db")
        settled = {sink: outbox.sinks[sink].settled for sink in sinks}

    assert set(settled.values()) == {numbers[0] - 1}
