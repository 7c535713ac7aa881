"""Replicas that copy the leader's commits: whatever is lost, late, cut, killed or restored, what a destination has
equals what happened; a clean successor has all that was delivered; and a number means one thing.

Each mutant leaves out one rule of the protocol, and is found.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import TypeAlias

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from bridge.outbox.commits import CommitHistory, Frame
from bridge.replication.elector import Elector
from bridge.replication.in_sync import InSync
from bridge.replication.serving import Replicator
from tests.bridge.replication.pair import rows_of_all_tables
from tests.kit.examples import examples
from tests.kit.replica_world import World, over_lines, run_world

FAULTS = (
    *("kill", "kill the leader", "kill the leader", "power cut", "lose a volume", "stop"),
    *(
        "isolate the leader",
        "isolate the leader",
        "cut",
        "cut",
        "break",
        "break",
        "lose the API",
        "lose answers",
        "back up",
        "restore",
        "sync",
        "rest",
    ),
)
PAUSES = (0.0, 0.2, 0.9, 2.0, 8.0, 20.0)
Mutant: TypeAlias = Callable[[pytest.MonkeyPatch], None]
Story: TypeAlias = Sequence[tuple[float, str, int]]
"""Seconds until a fault, the fault, and whom it hits."""

STORIES = st.lists(
    st.tuples(st.sampled_from(PAUSES), st.sampled_from(FAULTS), st.integers(0, 5)),
    min_size=3,
    max_size=14,
)


async def live(folder: Path, seed: int, replicas: int, story: Story) -> World:
    random.seed(seed)  # Of the electors' jitter.
    world = World(folder, Random(seed), replicas)
    with over_lines(world):
        for host in world.hosts:
            world.later(world.chance.uniform(0, 3), host.start)
        await asyncio.sleep(25)
        changing = asyncio.get_running_loop().create_task(change(world))
        restore: Callable[[], None] = world.back_up()
        for seconds, fault, which in story:
            await asyncio.sleep(seconds)
            host, other = (world.hosts[(which + step) % replicas] for step in (0, 1))
            leader = next((each for each in world.hosts if each.process is not None and each.process.leads), host)
            if world.is_quiet:
                continue
            match fault:
                case "kill":
                    host.kill()
                case "kill the leader":
                    leader.kill()
                case "power cut":
                    host.cut_power()
                case "lose a volume":
                    host.lose_volume()
                case "stop":
                    host.stop()
                case "cut":
                    world.cut_off(host.name, other.name)
                case "isolate the leader":
                    leader.lose_api()
                    for each in world.hosts:
                        if each is not leader:
                            world.cut_off(leader.name, each.name)
                case "break":
                    world.break_lines(host.name)
                case "lose the API":
                    host.lose_api()
                case "lose answers":
                    host.lose_answers()
                case "forge":
                    world.forge()
                case "back up":
                    restore = world.back_up()
                case "restore":
                    world.restore(restore)
                case "sync":
                    host.sync()
        await asyncio.sleep(5)
        changing.cancel()
        world.calm = True
        await asyncio.sleep(150)
        await end(world)
    return world


async def change(world: World) -> None:
    while True:
        world.change(world.chance.choice((1, 1, 2, 5)))
        await asyncio.sleep(world.chance.choice((0.05, 0.3, 1.5)))


async def end(world: World) -> None:
    """Everybody is in sync with the one leader, and has what it has; then all end."""
    assert not world.faults
    processes = [host.process for host in world.hosts if host.process is not None]
    [leader] = [each for each in processes if each.leads]
    assert all(each.replica.status().in_sync for each in processes)
    assert all(each.in_sync for each in leader.replica.status().followers)
    assert len(leader.replica.status().followers) == len(processes) - 1
    tables = rows_of_all_tables(leader.directory)
    for each in processes:
        assert rows_of_all_tables(each.directory) == tables
    world.judge()
    for each in processes:
        each.replica.stop()
    await asyncio.wait([each.task for each in processes])
    for each in processes:
        each.task.result()
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()


def lived(seed: int, replicas: int, story: Story) -> World:
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        world: World = run_world(lambda: live(Path(folder), seed, replicas, story))
        return world


SEEDS = 40
"""Lives in which a mutant is sought."""
FOLDER = "/dev/shm" if Path("/dev/shm").is_dir() else None


@given(seed=st.integers(0, 2**32), replicas=st.integers(2, 3), story=STORIES)
@examples(30, deadline=None)
def test_what_a_destination_has_is_what_happened(seed: int, replicas: int, story: Story) -> None:
    world = lived(seed, replicas, story)
    event(f"{min(world.takeovers, 5)} takeovers, {min(world.lacking, 3)} of them lacking something")


@given(seed=st.integers(0, 2**32), replicas=st.integers(2, 3), forged=st.integers(1, 8), fault=st.sampled_from(FAULTS))
@examples(10, deadline=None)
def test_a_forged_lease_loses_nothing(seed: int, replicas: int, forged: int, fault: str) -> None:
    lived(seed, replicas, [*[(0.9, "forge", 0)] * forged, (2.0, fault, seed % 6), *[(0.9, "forge", 0)] * forged])


# ── Mutants ──────────────────────────────────────────────────────────────────


def delivers_before_the_acknowledgement(patch: pytest.MonkeyPatch) -> None:
    committed = Replicator.committed

    def at_once(self: Replicator, frame: Frame | None, finish: Callable[[], None]) -> None:
        committed(self, frame, lambda: None)
        finish()

    patch.setattr(Replicator, "committed", at_once)


def shrinks_the_list_after_the_delivery(patch: pytest.MonkeyPatch) -> None:
    """It waits for those whom it wants on the list, and not for those whom the Lease may name still."""

    def replicated(self: InSync) -> int:
        return min((self._connected[run].acknowledged for run in self._wanted), default=self.newest)

    patch.setattr(InSync, "replicated", property(replicated))


def takes_over_from_outside_of_the_list(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Elector, "is_clean", property(lambda _: True))


def trusts_a_diverged_log(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CommitHistory, "contains", lambda self, point: 0 < point.commit <= self.commit)


ALONE: Story = [(0.9, "isolate the leader", 0), (2.0, "kill the leader", 0)]
RETURNING: Story = [(0.9, "isolate the leader", 0), (2.0, "kill the leader", 0), (20.0, "kill the leader", 0)]
MUTANTS: dict[str, tuple[Mutant | None, Story]] = {
    "the protocol": (None, ALONE),
    "the protocol, and a leader that returns": (None, RETURNING),
    "deliver before the acknowledgement": (delivers_before_the_acknowledgement, ALONE),
    "shrink the list after the delivery": (shrinks_the_list_after_the_delivery, ALONE),
    "take over from outside of the list at once": (takes_over_from_outside_of_the_list, ALONE),
    "trust a diverged log": (trusts_a_diverged_log, RETURNING),
}


@pytest.mark.hypothesis  # With seeds in place of examples.
@pytest.mark.parametrize("name", MUTANTS)
def test_each_mutant_of_the_protocol_is_found(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    mutant, story = MUTANTS[name]
    if mutant is not None:
        mutant(monkeypatch)
    assert any(fails(seed, story) for seed in range(SEEDS)) is (mutant is not None)


def fails(seed: int, story: Story) -> bool:
    try:
        lived(seed, 2 + seed % 2, story)
    except AssertionError:
        return True
    return False
