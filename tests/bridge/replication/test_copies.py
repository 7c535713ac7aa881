"""A follower's database equals the leader's, row by row, and an ordinary outbox goes on with it."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path

import pytest
from msgspec.structs import replace

from bridge.model.change import Change
from bridge.model.status import PauseCause
from bridge.outbox import commits
from bridge.outbox.commits import Frame
from bridge.replication.serving import Replicator
from tests.bridge.outbox.opened import alter, opened
from tests.bridge.replication.pair import SINKS, Leading, in_sync, leading
from tests.kit.copied_states import history_in, rows_of_all_tables
from tests.kit.deadlines import BUSY
from tests.kit.informed import Informed


def large(change: Change) -> Change:
    """With a body of two megabytes that compression makes half as large."""
    body = b'{"x":"' + secrets.token_hex(1_000_000).encode() + b'"}'
    return replace(change, object=replace(change.object, body=body))


async def exported(leader: Leading, *steps: str) -> int:
    """Exports the steps, and returns the newest commit."""
    informed = await Informed().begin(leader.outbox)
    await informed.exports(leader.outbox, *steps)
    return leader.replicator.in_sync.newest


async def test_a_new_follower_gets_a_base_copy_and_then_each_commit(tmp_path: Path) -> None:
    async with leading(tmp_path / "a", term=1) as leader:
        informed = await Informed().begin(leader.outbox)
        await informed.exports(leader.outbox, "added shop/a", "added shop/b")
        async with in_sync(tmp_path / "b", leader) as follower:
            await informed.exports(leader.outbox, "updated shop/a", "deleted shop/b", position="101")
            await follower.until(leader.replicator.in_sync.newest)
            assert follower.failures == []
            assert len(follower.copies) == 1
    assert rows_of_all_tables(tmp_path / "b") == rows_of_all_tables(tmp_path / "a")


async def test_an_ordinary_outbox_goes_on_with_the_copy(tmp_path: Path) -> None:
    async with leading(tmp_path / "a", term=1) as leader, in_sync(tmp_path / "b", leader):
        informed = await Informed().begin(leader.outbox)
        [last] = await informed.exports(leader.outbox, "added shop/a")
    async with leading(tmp_path / "b", term=2) as successor:
        outbox = successor.outbox
        assert outbox.last == last.sequence
        assert not (await outbox.check()).problems
        assert list((await Informed().begin(outbox)).known) == ["shop/a"]


# ── Done ─────────────────────────────────────────────────────────────────────


async def test_a_transaction_is_done_when_who_is_in_sync_has_it(tmp_path: Path) -> None:
    distributed: list[int] = []
    async with (
        leading(tmp_path / "a", term=1, patience=600, committed=lambda _, last: distributed.append(last)) as leader,
        in_sync(tmp_path / "b", leader) as follower,
    ):
        informed = await Informed().begin(leader.outbox)
        before = leader.outbox.last
        with follower.stalled():
            async with asyncio.TaskGroup() as tasks:
                exporting = tasks.create_task(informed.exports(leader.outbox, "added shop/a"))
                while leader.replicator.in_sync.newest == leader.replicator.in_sync.replicated:  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
                assert (await leader.outbox.read(before, 10)).items == []
                assert not exporting.done()
                assert (distributed, leader.outbox.last) == ([], before)
                follower._applies.set()
        assert distributed == [leader.outbox.last] == [before + 1]


async def test_who_lags_is_off_the_list_before_the_leader_goes_on(tmp_path: Path) -> None:
    async with (
        leading(tmp_path / "a", term=1, patience=0.2) as leader,
        in_sync(tmp_path / "b", leader) as follower,
    ):
        informed = await Informed().begin(leader.outbox)
        leader.lease.writable.clear()
        with follower.stalled():
            async with asyncio.TaskGroup() as tasks:
                exporting = tasks.create_task(informed.exports(leader.outbox, "added shop/a"))
                while not leader.replicator.in_sync.must_write:  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
                assert not exporting.done(), "the Lease names it still"
                leader.lease.writable.set()
                await exporting
            assert leader.lease.runs == frozenset()
        await leader.lease.until({"follower-1"})


async def test_a_leader_goes_on_without_a_follower_that_is_gone(tmp_path: Path) -> None:
    async with leading(tmp_path / "a", term=1, patience=600) as leader:
        async with in_sync(tmp_path / "b", leader):
            pass
        await leader.lease.until(set())
        await exported(leader, "added shop/a")


# ── Takeovers ────────────────────────────────────────────────────────────────


async def test_a_former_leader_that_shipped_all_gets_no_base_copy(tmp_path: Path) -> None:
    async with leading(tmp_path / "a", term=1) as leader, in_sync(tmp_path / "b", leader):
        await exported(leader, "added shop/a")
        await leader.ship()
    assert history_in(tmp_path / "a") == history_in(tmp_path / "b")
    async with leading(tmp_path / "b", term=2) as leader, in_sync(tmp_path / "a", leader, "a") as follower:
        commit = await exported(leader, "updated shop/a")
        await follower.until(commit)
        assert follower.copies == []
        assert follower.follower.named.term == 2
    assert rows_of_all_tables(tmp_path / "a") == rows_of_all_tables(tmp_path / "b")


async def test_a_former_leader_with_commits_of_its_own_is_copied(tmp_path: Path) -> None:
    async with leading(tmp_path / "a", term=1) as leader:
        async with in_sync(tmp_path / "b", leader):
            await exported(leader, "added shop/a")
        await exported(leader, "added shop/lost")
    assert history_in(tmp_path / "a").commit > history_in(tmp_path / "b").commit
    async with leading(tmp_path / "b", term=2) as leader:
        for number in range(20):  # It comes beyond the number that the former leader reached.
            await exported(leader, f"added shop/{number}")
        async with in_sync(tmp_path / "a", leader, "a") as follower:
            assert len(follower.copies) == 1
    assert rows_of_all_tables(tmp_path / "a") == rows_of_all_tables(tmp_path / "b")


async def test_a_state_written_without_followers_has_no_history(tmp_path: Path) -> None:
    async with leading(tmp_path / "a", term=1) as leader, in_sync(tmp_path / "b", leader):
        pass
    async with opened(tmp_path / "a", SINKS):
        pass
    assert history_in(tmp_path / "a").point is None
    async with leading(tmp_path / "a", term=2) as leader, in_sync(tmp_path / "b", leader) as follower:
        assert len(follower.copies) == 1
    assert rows_of_all_tables(tmp_path / "a") == rows_of_all_tables(tmp_path / "b")


async def test_a_term_is_used_once(tmp_path: Path) -> None:
    async with leading(tmp_path / "a", term=3):
        pass
    with pytest.raises(ValueError, match="term 3 is not above 3"):
        async with leading(tmp_path / "a", term=3):
            pass
    point = history_in(tmp_path / "a").point
    assert point is not None
    assert (point.term, point.commit) == (3, history_in(tmp_path / "a").commit)


async def test_another_leader_with_the_same_term_is_copied(tmp_path: Path) -> None:
    """Both had it: the API server was restored from a backup, and with it the Lease of an earlier term. The numbers of
    their commits are alike, and their commits are not."""
    async with leading(tmp_path / "a", term=1) as leader, in_sync(tmp_path / "b", leader):
        await exported(leader, "added shop/a")
        await leader.ship()
    async with leading(tmp_path / "a", term=2) as leader:
        await exported(leader, "added shop/lost")
    async with leading(tmp_path / "b", term=2) as leader:
        await exported(leader, "added shop/kept")
        await exported(leader, "added shop/kept-too")
        async with in_sync(tmp_path / "a", leader, "a") as follower:
            assert len(follower.copies) == 1
    assert rows_of_all_tables(tmp_path / "a") == rows_of_all_tables(tmp_path / "b")


# ── What does not fit ────────────────────────────────────────────────────────


async def test_a_copy_that_somebody_changed_is_replaced_by_a_base_copy(tmp_path: Path) -> None:
    async with leading(tmp_path / "a", term=1) as leader:
        async with in_sync(tmp_path / "b", leader):
            await exported(leader, "added shop/a")
        await leader.lease.until(set())
        alter(tmp_path / "b", "DELETE FROM cursors")
        async with in_sync(tmp_path / "b", leader) as follower:
            await leader.outbox.sinks.pause("audit", PauseCause.OPERATOR)
            while not follower.copies:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
            await leader.lease.until({"follower-1"})
            assert "does not fit the state here" in follower.failures[0]
    assert rows_of_all_tables(tmp_path / "a") == rows_of_all_tables(tmp_path / "b")


async def test_a_large_commit_goes_through_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "LARGE", 10_000)
    async with leading(tmp_path / "a", term=1) as leader, in_sync(tmp_path / "b", leader) as follower:
        informed = await Informed().begin(leader.outbox)
        changes = [large(informed.change(f"added shop/{number}")) for number in range(3)]
        await leader.outbox.append(informed.batch(changes, "101"))
        frame = leader.replicator.frames.behind(leader.replicator.in_sync.newest - 1)
        assert frame is not None
        assert isinstance(frame.patchset, commits.LargePatchset)
        assert frame.patchset.size > 2 << 20
        assert follower.failures == []
    assert rows_of_all_tables(tmp_path / "a") == rows_of_all_tables(tmp_path / "b")


async def test_who_is_behind_the_frames_in_memory_gets_a_base_copy(tmp_path: Path) -> None:
    async with leading(tmp_path / "a", term=1, frames=1) as leader:
        async with in_sync(tmp_path / "b", leader):
            pass
        await leader.lease.until(set())
        for number in range(3):
            await exported(leader, f"added shop/{number}")
        async with in_sync(tmp_path / "b", leader) as follower:
            assert len(follower.copies) == 1
    assert rows_of_all_tables(tmp_path / "a") == rows_of_all_tables(tmp_path / "b")


async def test_who_ends_waits_for_acknowledgements_and_nothing_else() -> None:
    replicator, now = Replicator(3600), asyncio.get_running_loop().time
    replicator.in_sync.connected("follower-1", 0, now())
    replicator.in_sync.written(replicator.in_sync.writing())
    replicator.committed(Frame(1, b"changes"), lambda: None)
    async with asyncio.timeout(5 * BUSY), asyncio.TaskGroup() as tasks:
        drained = tasks.create_task(replicator.drained())
        await asyncio.sleep(0)
        assert not drained.done()

        replicator.in_sync.acknowledged("follower-1", 1, now())
        replicator.release()
