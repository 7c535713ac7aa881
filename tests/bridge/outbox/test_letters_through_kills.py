"""No dead letter is lost, and none is retried unasked, wherever a leader is killed, ends, or leads again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from bridge.app.selection_changes import SelectionChanges
from bridge.election import Tenure
from bridge.facts import discard
from bridge.model.admin import UnknownTarget
from bridge.model.dead_letter import NewDeadLetter
from bridge.model.policies import StartPolicy
from bridge.model.record import Delta
from bridge.outbox.waypoints.index import Waypoints
from tests.bridge.delivery.world import now, virtual
from tests.bridge.outbox.opened import joined, opened
from tests.bridge.outbox.test_letters import (
    AUDIT,
    NAME,
    URL,
    fetch,
    led_by,
    listed,
    opens,
    operations_of,
    rejects,
    shared,
)
from tests.bridge.outbox.test_standby import Side, all_see, published, replicas
from tests.kit.records import a_gap


async def settles(side: Side) -> None:
    for sink in side.outbox.sinks.all:
        await side.delivers(sink.sink)


async def deltas(side: Side) -> list[Delta]:
    return [each for each in (await side.outbox.read(0, 9)).items if isinstance(each, Delta)]


@pytest.mark.parametrize("another_led", [False, True])
async def test_a_crash_loop_loses_no_dead_letter(tmp_path: Path, another_led: bool) -> None:
    """It is killed twice before its first renewal. What it has settled since the last one, nobody else delivers."""
    async with replicas(tmp_path) as [leader, other]:
        await leader.standby.take_over(1, None)
        found, term = published(leader), 2
        if another_led:
            leader.standby.step_down()
            await other.standby.take_over(2, found)
            found = published(other)
            await leader.standby.take_over(3, found)
            term = 4
        await rejects(leader, await leader.sees("added shop/a", position="110"))
        await settles(leader)
        for each in (term, term + 1):
            leader.standby.step_down()
            await leader.standby.take_over(each, found)
        assert await listed(leader) == [("added", "shop/a")]


async def test_an_id_of_another_epoch_is_another_record(tmp_path: Path) -> None:
    """A restored store uses versions again."""
    async with replicas(tmp_path) as [former, leader]:
        await former.standby.take_over(1, None)
        [record] = await former.sees("added shop/a", position="110")
        again = replace(record, epoch=2, sequence=record.sequence + 5)
        assert (again.id, again.unique_id) == (record.id, f"2/{record.id}")
        await rejects(former, [record])
        await rejects(former, [again], parked=True)
        assert len(await listed(former)) == 2
        await led_by(former, leader)
        assert await fetch(leader, former) == [2]
        assert len(await listed(leader)) == 2


@pytest.mark.parametrize("leads_again", [False, True])
async def test_a_sink_that_a_leader_did_not_have_lost_its_names(tmp_path: Path, leads_again: bool) -> None:
    """So nobody knows which of its dead letters were held back."""
    (tmp_path / "other").mkdir()
    async with replicas(tmp_path, 1) as [former], opened(tmp_path / "other", {"slow": StartPolicy.NOW}) as outbox:
        leader = Side(outbox, await joined(outbox, "kubedelta-1_1"))
        await leader.pods.begin(outbox)
        await leader.sees(position="90")
        await former.standby.take_over(1, None)
        former.standby.configured.address = URL
        await all_see([former, leader], "added shop/a", position="110")
        await rejects(former, await deltas(former))
        found = published(former)
        former.standby.step_down()
        await leader.standby.take_over(2, found)
        published(leader)
        await outbox.registration.begin({AUDIT: StartPolicy.NOW}, (), before=False)
        await settles(leader)
        found = published(leader)
        assert found.followed == ()
        if leads_again:
            await former.standby.take_over(3, found)
        else:
            await fetch(leader, former)
        assert await listed(former if leads_again else leader) == [("added", "shop/a")]


async def test_what_is_dropped_at_a_takeover_releases_nothing(tmp_path: Path) -> None:
    """An operator's drop would mark what was parked behind it for a retry."""
    async with replicas(tmp_path) as [former, leader]:
        await former.standby.take_over(1, None)
        found = published(former)
        await all_see([former, leader], "added shop/a", position="110")
        [record] = await deltas(former)
        await rejects(former, [record])
        await rejects(former, [replace(record, snapshot="snapshot/audit/1/7", replay=7)], parked=True)
        former.standby.step_down()
        await leader.standby.take_over(2, found)
        await settles(leader)
        await former.standby.take_over(3, published(leader))
        assert [each.retrying for each in await former.outbox.dead_letters(None, 0, 9)] == [False]


async def test_a_leader_that_ended_in_order_has_what_it_said(tmp_path: Path) -> None:
    async with replicas(tmp_path, 3) as [first, second, third]:
        await first.standby.take_over(1, None)
        await rejects(first, await first.sees("added shop/a", position="110"))
        await led_by(first, second)
        second.standby.configured.address = f"{URL}1"
        found = published(second, last=True)
        second.standby.step_down()
        await third.standby.take_over(3, found, released=True)
        assert published(third).kept.keys() == {NAME}


# ── A command that waits for a renewal ───────────────────────────────────────


@asynccontextmanager
async def waiting(root: Path) -> AsyncIterator[tuple[Side, Waits]]:
    """A leader that has all dead letters of the one before, which the Lease does not say yet."""
    async with replicas(root) as [former, leader]:
        await former.standby.take_over(1, None)
        await rejects(former, await former.sees("added shop/a", position="110"))
        await led_by(former, leader)
        await fetch(leader, former)
        shared(leader).end(NAME)
        leader.standby.confirm = waits = Waits(leader)
        yield leader, waits


class Waits:
    """Each wait for a renewal."""

    def __init__(self, leader: Side) -> None:
        self.number = 0
        self.during_the_first: Callable[[], Awaitable[object]] | None = None
        self._leader = leader

    async def __call__(self) -> None:
        self.number += 1
        if self.number == 1 and self.during_the_first is not None:
            await self.during_the_first()
        published(self._leader)


async def test_what_begins_while_a_retry_waits_refuses_it(tmp_path: Path) -> None:
    async with replicas(tmp_path, 3) as [one, two, leader]:
        await one.standby.take_over(1, None)
        await rejects(one, await one.sees("added shop/a", position="110"))
        await led_by(one, two)
        two.standby.configured.address = f"{URL}1"
        await rejects(two, await two.sees("added shop/b", "updated shop/b", position="110"))
        found = published(two)
        two.standby.step_down()
        await leader.standby.take_over(3, found)
        published(leader)
        assert await shared(leader).take(await shared(one).page(0)) == ""
        shared(leader).end(NAME)

        async def some_come() -> None:
            page = await shared(two).page(0)
            assert await shared(leader).take(replace(page, letters=page.letters[:1])) == ""

        leader.standby.confirm = waits = Waits(leader)
        waits.during_the_first = some_come
        with pytest.raises(UnknownTarget, match="on their way"):
            await operations_of(leader).retry(AUDIT)
        assert waits.number == 1


async def test_an_end_while_a_retry_waits_is_waited_for(tmp_path: Path) -> None:
    async with waiting(tmp_path) as (leader, waits):

        async def another_ends() -> None:
            shared(leader).end("another")

        waits.during_the_first = another_ends
        assert await operations_of(leader).retry(AUDIT) == 1
        assert waits.number == 2


async def test_a_cancelled_wait_is_waited_for_again(tmp_path: Path) -> None:
    async with waiting(tmp_path) as (leader, waits):

        async def is_cancelled() -> None:
            raise asyncio.CancelledError

        waits.during_the_first = is_cancelled
        with pytest.raises(asyncio.CancelledError):
            await operations_of(leader).retry(AUDIT)
        assert await operations_of(leader).retry(AUDIT) == 1
        assert waits.number == 2


# ── A leader that is to end ──────────────────────────────────────────────────


@virtual
async def test_a_wait_for_a_name_outlasts_sigterm() -> None:
    """The leader renews the Lease until its deliveries have ended. Else it could be killed when its progress is past a
    dead letter without a name."""
    tenure = Tenure(1, "", now() + 10, now, 10)
    standby = SimpleNamespace(owed={}, before="another", found=None, selected=SimpleNamespace(waypoints=Waypoints(())))
    changes = SelectionChanges(cast(Any, None), cast(Any, standby), discard)
    await changes.lead(tenure)
    tenure.ending.set()
    await changes.confirm()
    async with asyncio.TaskGroup() as tasks:
        named = tasks.create_task(changes.confirm(also_ending=True))
        await asyncio.sleep(1)
        assert not named.done()
        tenure.hold_until(now() + 10)
        await named


async def test_a_name_is_waited_for_by_a_leader_that_ends(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [leader, _]:
        waits: list[bool] = []

        async def confirm(*, also_ending: bool) -> None:
            waits.append(also_ending)

        leader.standby.confirm = confirm
        await leader.standby.take_over(1, None)
        feed = await opens(leader, None)
        await feed.name_letters(await leader.sees("added shop/a", position="110"))
        await feed.name_letters([a_gap(2, 3)])
        assert waits == [True, True], "for a notice, too"
        letters = leader.outbox.sinks.dead_letters[AUDIT]
        assert letters.number == 2
        await letters.add_dead_letters([NewDeadLetter(a_gap(2, 3), "no", parked=False)])
        assert (letters.number, letters.keys.count) == (2, 1), "the pod is still expected"


@pytest.mark.parametrize("passes", [False, True])
async def test_a_sink_that_holds_nothing_back_names_nothing(tmp_path: Path, passes: bool) -> None:
    """It would wait in vain at each takeover."""
    async with replicas(tmp_path) as [leader, _]:
        waits: list[bool] = []

        async def confirm(*, also_ending: bool) -> None:
            waits.append(also_ending)

        leader.standby.confirm = confirm
        leader.standby.configured.passing = {AUDIT} if passes else ()
        await rejects(leader, await leader.sees("added shop/a", position="110"))
        await leader.standby.take_over(1, None)
        await opens(leader, None)
        assert waits == ([] if passes else [True])
