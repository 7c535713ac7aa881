"""An API server that has another history: no informer goes on from a position of the old history, killed or not."""

from __future__ import annotations

import asyncio
from pathlib import Path

from bridge.model.change import Change, ChangeBatch, Evidence, Op
from bridge.model.object import ApiObject
from bridge.model.policies import StartPolicy
from bridge.model.resource import Scope
from bridge.outbox import Outbox
from tests.bridge.outbox.opened import crashed, opened
from tests.kit.records import DEPLOYMENTS, PODS

ALL = Scope()
NOW = {"audit": StartPolicy.NOW}
BOTH = [(PODS, ALL), (DEPLOYMENTS, ALL)]


async def reach(outbox: Outbox, version: str, epoch: int = 1) -> None:
    for resource, scope in BOTH:
        thing = ApiObject("shop/web", f"uid-{resource}", version, b"{}")
        change = Change(Op.ADDED, Evidence.LISTED, thing)
        await outbox.append(ChangeBatch(resource, scope, [change], version, epoch))


async def checkpoint(outbox: Outbox) -> list[tuple[str | None, str | None, int]]:
    """Position, newest version and epoch of both."""
    found = []
    for resource, scope in BOTH:
        known, _ = await outbox.ledger.adopt(resource, [scope])
        each = known[scope]
        assert each is not None
        found.append((each.position, each.newest, each.epoch))
    return found


async def adopted(outbox: Outbox) -> None:
    for resource, scope in BOTH:
        await outbox.ledger.adopt(resource, [scope])


async def test_all_parts_begin_an_epoch_in_one_transaction(tmp_path: Path) -> None:
    async with opened(tmp_path, NOW) as outbox:
        await adopted(outbox)
        await reach(outbox, "7")
        await outbox.ledger.discard_positions(BOTH, True)
        left = crashed(tmp_path, tmp_path / "left")

    async with opened(left, NOW) as outbox:
        assert await checkpoint(outbox) == [(None, None, 2), (None, None, 2)]


async def test_where_it_is_not_known_only_the_position_goes(tmp_path: Path) -> None:
    async with opened(tmp_path, NOW) as outbox:
        await adopted(outbox)
        await reach(outbox, "7")
        await outbox.ledger.discard_positions(BOTH[:1], False)
        left = crashed(tmp_path, tmp_path / "left")

    async with opened(left, NOW) as outbox:
        assert await checkpoint(outbox) == [(None, "7", 1), ("7", "7", 1)]


async def test_queued_records_keep_their_epoch_and_reach_no_position(tmp_path: Path) -> None:
    async with opened(tmp_path, NOW) as outbox:
        await adopted(outbox)
        async with asyncio.TaskGroup() as tasks:
            durable = outbox.ledger.discard_positions(BOTH, True)
            tasks.create_task(reach(outbox, "9"))
            await durable
        found = await outbox.read(0, 10)
        left = crashed(tmp_path, tmp_path / "left")

    assert [getattr(record, "epoch", None) for record in found.items] == [1, 1]
    async with opened(left, NOW) as outbox:
        assert await checkpoint(outbox) == [(None, None, 2), (None, None, 2)]


async def test_what_is_reached_in_the_new_epoch_holds(tmp_path: Path) -> None:
    async with opened(tmp_path, NOW) as outbox:
        await adopted(outbox)
        await outbox.ledger.discard_positions(BOTH, True)
        await reach(outbox, "5", epoch=2)
        left = crashed(tmp_path, tmp_path / "left")

    async with opened(left, NOW) as outbox:
        assert await checkpoint(outbox) == [("5", "5", 2), ("5", "5", 2)]
