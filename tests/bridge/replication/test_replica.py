"""The loop of a replica: it follows, leads, and follows again only behind a lost Lease."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bridge.outbox.copied_state import CopiedState
from bridge.replication import following
from bridge.replication.elector import utc
from bridge.replication.lease import PUBLISHED, LeaseHolder, Published, created
from bridge.replication.replica import Lead, Replica, Term
from bridge.telemetry.facts import discard
from tests.bridge.replication.lease_store import FakeLeaseApi, LeaseStore
from tests.bridge.replication.pair import settings
from tests.kit.virtual_time import Inline, run_in_virtual_time


@pytest.fixture(autouse=True)
def threads_in_virtual_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "ThreadPoolExecutor", Inline)


class Kept:
    """A replica that is alone, and how often it began to follow."""

    def __init__(self, folder: Path, lead: Lead, store: LeaseStore | None = None, run: int = 1) -> None:
        self.api = FakeLeaseApi(store or LeaseStore())
        self.followed = 0
        self.replica = Replica(
            settings(folder, f"a_{run}"),
            CopiedState(folder),
            self.api,
            lead=lead,
            beside=self._beside,
            report=discard,
        )

    @asynccontextmanager
    async def _beside(self) -> AsyncIterator[None]:
        self.followed += 1
        yield


def test_a_leader_that_fails_does_not_follow(tmp_path: Path) -> None:
    async def lead(_: Term) -> None:
        raise ValueError("a bug")

    async def run() -> None:
        kept = Kept(tmp_path, lead)
        with pytest.raises(ExceptionGroup) as failed:
            await kept.replica.run()
        assert failed.group_contains(ValueError, match="a bug")
        assert kept.followed == 1

    run_in_virtual_time(run())


def test_a_leader_that_is_cancelled_does_not_follow(tmp_path: Path) -> None:
    async def run() -> None:
        leads = asyncio.Event()

        async def lead(_: Term) -> None:
            leads.set()
            await asyncio.Event().wait()

        kept = Kept(tmp_path, lead)
        running = asyncio.get_running_loop().create_task(kept.replica.run())
        await leads.wait()
        running.cancel()
        await asyncio.wait([running])
        assert kept.followed == 1

    run_in_virtual_time(run())


def test_a_leader_without_a_lease_follows_and_leads(tmp_path: Path) -> None:
    async def run() -> None:
        terms: list[int] = []
        again = asyncio.Event()

        async def lead(term: Term) -> None:
            terms.append(term.tenure.term)
            if len(terms) > 1:
                again.set()
            await term.tenure.ending.wait()

        kept = Kept(tmp_path, lead)
        running = asyncio.get_running_loop().create_task(kept.replica.run())
        await asyncio.sleep(20)
        kept.api.reachable = False
        await asyncio.sleep(20)
        assert kept.followed == 2
        kept.api.reachable = True
        await again.wait()
        assert terms == [1, 2]
        kept.replica.stop()
        await running
        assert kept.followed == 2

    run_in_virtual_time(run())


def test_a_lease_lost_while_the_copy_is_being_closed_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A base copy may be under way in its thread for minutes."""
    close = following.StateFollower.close

    async def close_late(follower: following.StateFollower) -> None:
        await asyncio.sleep(60)
        await close(follower)

    async def run() -> None:
        async def lead(term: Term) -> None:
            await term.tenure.ending.wait()

        kept = Kept(tmp_path, lead)
        monkeypatch.setattr(following.StateFollower, "close", close_late)
        running = asyncio.get_running_loop().create_task(kept.replica.run())
        await asyncio.sleep(20)
        kept.api.reachable = False
        await asyncio.sleep(100)
        assert kept.followed == 2
        kept.replica.stop()
        running.cancel()
        await asyncio.wait([running])

    run_in_virtual_time(run())


def test_who_was_killed_before_publishing_lacked_nothing(tmp_path: Path) -> None:
    """It has delivered nothing: the directory has what the last one had that did."""
    store = LeaseStore()

    async def killed(number: int, *, publishes: bool) -> bool:
        leads: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        async def lead(term: Term) -> None:
            if publishes:
                term._say()
                term._took_over()
                await term.tenure.confirmed()
            leads.set_result(term.lacking)
            await asyncio.Event().wait()

        kept = Kept(tmp_path, lead, store, number)
        running = asyncio.get_running_loop().create_task(kept.replica.run())
        lacking = await leads
        running.cancel()
        await asyncio.wait([running])
        return lacking

    async def run() -> None:
        assert not await killed(1, publishes=True)
        for number in (2, 3, 4):
            assert not await killed(number, publishes=False)

    run_in_virtual_time(run())


def test_a_takeover_that_lacks_something_ends_what_was_said(tmp_path: Path) -> None:
    """Else whoever takes it from a backup, and is killed before it publishes, would lack nothing the next time."""
    store = LeaseStore()
    said = Published(leader="b_1", term=7, in_sync=("c_1",))
    store.write(json.loads(created(LeaseHolder(holder="", seconds=1, term=7), "apps", "kubedelta", said, utc())))

    async def run() -> None:
        found: list[object] = []

        async def lead(term: Term) -> None:
            found.append((term.lacking, term.tenure.before, store.annotation(PUBLISHED)))
            await asyncio.sleep(5)
            found.append(store.annotation(PUBLISHED))
            await term.tenure.ending.wait()

        kept = Kept(tmp_path, lead, store)
        running = asyncio.get_running_loop().create_task(kept.replica.run())
        await asyncio.sleep(60)
        assert found == [(True, said, ""), ""]
        kept.replica.stop()
        await running

    run_in_virtual_time(run())
