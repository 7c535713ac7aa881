"""Digests, and the newest ignored change, are in the state: after a restart the same changes are ignored."""

from __future__ import annotations

from pathlib import Path

from bridge.model.change import Change, ChangeBatch, Evidence, IgnoredChange, ObjectVersion, Op
from bridge.model.object import ApiObject
from bridge.model.resource import Scope
from bridge.model.versions import Checkpoint
from bridge.outbox import Outbox
from tests.bridge.outbox.opened import crashed, opened, rows_of
from tests.kit.records import PODS

ALL = Scope()
DIGEST = b"0123456789abcdef"


async def checkpoint(outbox: Outbox) -> Checkpoint:
    found, _ = await outbox.ledger.adopt(PODS, [ALL])
    known = found[ALL]
    assert known is not None
    return known


async def add(outbox: Outbox, digest: bytes = DIGEST) -> None:
    await outbox.ledger.adopt(PODS, [ALL])
    change = Change(Op.ADDED, Evidence.LISTED, ApiObject("shop/a", "u-1", "5", b"{}"), digest=digest)
    await outbox.append(ChangeBatch(PODS, ALL, [change], "6", ignoring="beats" if digest else ""))


async def pass_over(
    outbox: Outbox, version: str, *, position: str, epoch: int = 1, uid: str = "u-1", paths: str = "beats"
) -> None:
    ignored = IgnoredChange("shop/a", uid, version, paths)
    await outbox.append(ChangeBatch(PODS, ALL, [], position, epoch, ignoring=paths, ignored=ignored))
    await outbox.maintain()


async def test_a_digest_outlives_the_process(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        await add(outbox)
    async with opened(tmp_path) as outbox:
        assert (await checkpoint(outbox)).objects["shop/a"] == ObjectVersion("u-1", "5", 1, 0, DIGEST)


async def test_without_ignored_paths_the_state_has_no_digest(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        await add(outbox, b"")
    assert rows_of(tmp_path, "SELECT digest FROM ledger") == [(None,)]


async def test_the_newest_ignored_change_is_saved_with_its_position(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        await add(outbox)
        await pass_over(outbox, "8", position="9")
        killed = crashed(tmp_path, tmp_path / "killed")
    async with opened(killed) as outbox:
        found = await checkpoint(outbox)
        assert (found.position, found.ignored) == ("9", IgnoredChange("shop/a", "u-1", "8", "beats"))
        assert found.objects["shop/a"].resource_version == "5", "what was exported"
        await pass_over(outbox, "12", position="12")
    async with opened(killed) as outbox:
        assert (await checkpoint(outbox)).ignored == IgnoredChange("shop/a", "u-1", "12", "beats")


async def test_a_list_with_other_paths_forgets_the_ignored_change(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        await add(outbox)
        await pass_over(outbox, "8", position="9")
    async with opened(tmp_path) as outbox:
        await outbox.ledger.adopt(PODS, [ALL])
        await outbox.append(ChangeBatch(PODS, ALL, [], None, ignoring="others"))
        await outbox.maintain()
        assert (await checkpoint(outbox)).ignored is not None, "the list has not ended"
        await outbox.append(ChangeBatch(PODS, ALL, [], "20", ignoring="others"))
        await outbox.maintain()
        assert (await checkpoint(outbox)).ignored is None


async def test_a_new_epoch_forgets_the_ignored_changes(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        await add(outbox)
        await pass_over(outbox, "8", position="9")
        await outbox.ledger.discard_positions([(PODS, ALL)], restored=True)
    async with opened(tmp_path) as outbox:
        assert (await checkpoint(outbox)).ignored is None
