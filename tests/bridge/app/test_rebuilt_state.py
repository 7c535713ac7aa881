"""A state that was lost, and a bridge that was killed while it was found again."""

from __future__ import annotations

from pathlib import Path

from bridge.model.change import Change, ChangeBatch, Evidence, Op
from bridge.model.object import ApiObject
from bridge.model.policies import StartPolicy
from bridge.model.record import Delta
from bridge.model.resource import Scope
from bridge.outbox import Outbox
from bridge.telemetry.facts import discard
from tests.kit.records import PODS

SHOP = Scope("shop")


def listed(name: str, evidence: Evidence, position: str | None, epoch: int) -> ChangeBatch:
    thing = ApiObject(f"shop/{name}", f"uid-{name}", "7", b"{}")
    return ChangeBatch(PODS, SHOP, [Change(Op.ADDED, evidence, thing)], position, epoch)


async def test_all_objects_until_the_end_of_the_first_list_are_sync(tmp_path: Path) -> None:
    async with await Outbox.open(tmp_path, {"sink": StartPolicy.NOW}, report=discard):
        pass
    (tmp_path / "outbox.db").write_bytes(b"no database" * 1000)

    async with await Outbox.open(tmp_path, {"sink": StartPolicy.NOW}, report=discard) as outbox:
        checkpoint, _ = await outbox.ledger.adopt(PODS, [SHOP])
        blank = checkpoint[SHOP]
        assert blank is not None
        await outbox.append(listed("a", Evidence.LISTED, None, blank.epoch))

    # What is remembered makes the next list a comparison.
    async with await Outbox.open(tmp_path, {"sink": StartPolicy.NOW}, report=discard) as outbox:
        await outbox.ledger.adopt(PODS, [SHOP])
        await outbox.append(listed("b", Evidence.RELISTED, "7", blank.epoch))
        await outbox.append(listed("c", Evidence.RELISTED, "8", blank.epoch))
        found = await outbox.read(0, 10)
    delivered = [(record.op, record.key) for record in found.items if isinstance(record, Delta)]
    assert delivered == [("sync", "shop/a"), ("sync", "shop/b"), ("added", "shop/c")]
