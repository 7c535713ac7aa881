"""The log as a sink with a selection reads it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bridge.delivery.sink_feed import SelectedLog, view_of
from bridge.model.change import Change, ChangeBatch, Evidence, Op
from bridge.model.object import ApiObject
from bridge.model.policies import StartPolicy
from bridge.model.record import Delta, Selected
from bridge.model.resource import Scope
from bridge.outbox import Outbox
from bridge.outbox.log.statements import Decide
from tests.bridge.outbox.opened import opened
from tests.kit.records import PODS


async def append(outbox: Outbox, *names: str) -> None:
    changes = [
        Change(
            Op.ADDED, Evidence.WATCHED, ApiObject(f"shop/{name}", f"uid-{name}", "1", b'{"name":"%s"}' % name.encode())
        )
        for name in names
    ]
    await outbox.append(ChangeBatch(PODS, Scope(), changes, "1"))


def only(name: str, mask: int) -> Decide:
    """Takes objects of this name."""

    def decide(delta: Delta, was: int | None, before: Callable[[], bytes | None] | None) -> Selected:
        takes = mask if delta.key.endswith(name) else 0
        return Selected(takes, 0, 0, takes)

    return decide


async def test_a_record_for_other_sinks_is_read_without_its_body(tmp_path: Path) -> None:
    async with opened(tmp_path, {"chat": StartPolicy.NOW}, selecting=["chat"]) as outbox:
        await outbox.ledger.adopt(PODS, [Scope()])
        selection = outbox.selections.stored["chat"]
        outbox.selections.decide_by(only("b", selection.mask))
        await append(outbox, "a", "b", "c")

        found = await SelectedLog(outbox, selection).read(0, 10)
        bodies = [each.body for each in found.items if isinstance(each, Delta)]
        assert bodies == [b"", b'{"name":"b"}', b""]
        assert [view_of(selection)(each) for each in found.items] == [None, found.items[1], None]


async def test_records_before_the_first_selection_are_whole(tmp_path: Path) -> None:
    async with opened(tmp_path, {"chat": StartPolicy.NOW}) as outbox:
        await outbox.ledger.adopt(PODS, [Scope()])
        await append(outbox, "a")
    async with opened(tmp_path, {"chat": StartPolicy.NOW}, selecting=["chat"]) as outbox:
        selection = outbox.selections.stored["chat"]
        [record] = (await SelectedLog(outbox, selection).read(0, 10)).items
        assert isinstance(record, Delta)
        assert record.body == b'{"name":"a"}'
        assert view_of(selection)(record) is record
