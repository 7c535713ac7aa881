"""A scope that left the configuration, and came back before all of it was exported."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from bridge.model.change import Change, ChangeBatch, Evidence, Op
from bridge.model.object import ApiObject
from bridge.model.policies import StartPolicy
from bridge.model.resource import Scope
from bridge.outbox import Outbox
from bridge.telemetry.facts import discard
from tests.bridge.outbox.opened import opened
from tests.kit.records import PODS

KEPT, LEFT = Scope("kept"), Scope("left")


async def test_a_part_exported_as_deleted_is_listed_again(tmp_path: Path) -> None:
    async with await Outbox.open(tmp_path, {"sink": StartPolicy.NOW}, report=discard) as outbox:
        await outbox.ledger.adopt(PODS, [KEPT, LEFT])
        things = [ApiObject(f"left/{number}", f"uid-{number}", str(number), b"{}") for number in range(1, 1001)]
        changes = [Change(Op.ADDED, Evidence.LISTED, thing) for thing in things]
        await outbox.append(ChangeBatch(PODS, LEFT, changes, "1000"))
        await outbox.append(ChangeBatch(PODS, KEPT, [], "1000"))

    async with opened(
        tmp_path, {"sink": StartPolicy.NOW}, committed=lambda _records, _last: cancel(adopting)
    ) as outbox:
        async with asyncio.TaskGroup() as tasks:
            adopting = tasks.create_task(outbox.ledger.adopt(PODS, [KEPT]))
        assert adopting.cancelled()
        assert outbox.last == 1500, "half of them are reported as deleted"

    async with await Outbox.open(tmp_path, {"sink": StartPolicy.NOW}, report=discard) as outbox:
        known, left = await outbox.ledger.adopt(PODS, [KEPT, LEFT])
    assert left == 0
    checkpoint, kept = known[LEFT], known[KEPT]
    assert checkpoint is not None
    assert len(checkpoint.objects) == 500
    assert checkpoint.position is None, "what was reported as deleted is there, and no watch would say so"
    assert kept is not None
    assert kept.position == "1000", "of this one nothing left"


def cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()
