"""The ledger: exported objects, their informers, and their cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import apsw
import pytest

from bridge.model.admin import UnknownTarget
from bridge.model.change import Change, Evidence, Op
from bridge.model.object import ApiObject
from bridge.model.record import Delta, Record
from bridge.model.resource import Resource, Scope
from bridge.model.versions.version_table import Checkpoint
from bridge.outbox import OtherCluster, Outbox, store
from bridge.telemetry.facts import Fact
from tests.bridge.outbox.opened import crashed, everything, opened, story
from tests.kit.informed import Informed
from tests.kit.records import DEPLOYMENTS, PODS

ALL, SHOP, PROD = Scope(), Scope("shop"), Scope("prod")


async def adopted(outbox: Outbox, *scopes: Scope, resource: Resource = PODS) -> dict[Scope, Checkpoint | None]:
    known, _ = await outbox.ledger.adopt(resource, scopes)
    return dict(known)


async def checkpoint(outbox: Outbox, scope: Scope = ALL, resource: Resource = PODS) -> Checkpoint:
    found = (await adopted(outbox, scope, resource=resource))[scope]
    assert found is not None
    return found


def keys(checkpoint: Checkpoint | None) -> list[str]:
    return [] if checkpoint is None else sorted(checkpoint.objects)


# ── The cluster ──────────────────────────────────────────────────────────────


async def test_the_first_cluster_is_the_one(tmp_path: Path) -> None:
    for _ in range(2):
        async with opened(tmp_path) as outbox:
            assert await outbox.ledger.identify("uid-1", restart=False) is None
            assert (await outbox.check()).cluster == "uid-1"


async def test_another_cluster_is_refused_with_both_names(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        await outbox.ledger.identify("uid-1", restart=False)
        with pytest.raises(
            OtherCluster, match=r"uid uid-1; this cluster has the uid uid-2.*on_cluster_change: restart"
        ):
            await outbox.ledger.identify("uid-2", restart=False)
        assert await outbox.ledger.identify("uid-1", restart=False) is None


async def test_with_restart_another_cluster_begins_an_epoch_afresh(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        await outbox.ledger.identify("uid-1", restart=True)
        await (await Informed().begin(outbox)).exports(outbox, "added shop/web", position="100")

    async with opened(tmp_path) as outbox:
        assert await outbox.ledger.identify("uid-2", restart=True) == "uid-1"
        found = await checkpoint(outbox)
        assert keys(found) == ["shop/web"]
        assert (found.position, found.newest, found.epoch) == (None, None, 2)
        assert await outbox.ledger.identify("uid-2", restart=True) is None
        assert (await adopted(outbox, ALL))[ALL] == found


# ── Positions and epochs ─────────────────────────────────────────────────────


async def test_an_informer_without_exports_has_a_blank_checkpoint(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        assert await adopted(outbox, SHOP, PROD) == {SHOP: None, PROD: None}


async def test_the_position_is_of_the_same_transaction(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        informer = await Informed().begin(outbox)
        await informer.exports(outbox, "added shop/web", position="100")
        one = crashed(tmp_path, tmp_path / "one")
        await informer.exports(outbox, "updated shop/web", position="200")
        two = crashed(tmp_path, tmp_path / "two")

    for left, position, version in ((one, "100", "101"), (two, "200", "102")):
        async with opened(left) as outbox:
            found = await checkpoint(outbox)
            [known] = found.objects.values()
            assert (found.position, known.resource_version) == (position, version)


async def test_only_changes_without_a_position_clear_it(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        informer = await Informed().begin(outbox)
        await informer.exports(outbox, "added shop/web", position="100")
        await informer.exports(outbox, position=None)
    async with opened(tmp_path) as outbox:
        informer = await Informed().begin(outbox)
        found = await checkpoint(outbox)
        assert found.position == "100"
        await informer.exports(outbox, "updated shop/web", position=None)
    async with opened(tmp_path) as outbox:
        found = await checkpoint(outbox)
        assert found.position is None


async def test_a_position_without_a_change_is_saved_a_little_later(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        informer = await Informed().begin(outbox)
        await informer.exports(outbox, "added shop/web", position="100")
        await informer.exports(outbox, position="200")
        before = crashed(tmp_path, tmp_path / "before")
        await outbox.maintain()
        after = crashed(tmp_path, tmp_path / "after")

    for left, position in ((before, "100"), (after, "200")):
        async with opened(left) as outbox:
            found = await checkpoint(outbox)
            assert (found.position, found.newest) == (position, position if position == "200" else "101")


async def test_the_first_position_is_durable_though_nothing_is_there(tmp_path: Path) -> None:
    """After a crash, a list would take the place of what the bridge has watched since it was live."""
    async with opened(tmp_path) as outbox:
        informer = await Informed().begin(outbox)
        await informer.exports(outbox, position="100")
        empty = crashed(tmp_path, tmp_path / "empty")
        await informer.exports(outbox, "added shop/web", position=None)  # A page of a list.
        await informer.exports(outbox, position="200")
        listed = crashed(tmp_path, tmp_path / "listed")

    for left, position in ((empty, "100"), (listed, "200")):
        async with opened(left) as outbox:
            assert (await checkpoint(outbox)).position == position


async def test_what_was_reached_is_saved_at_the_end(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        informer = await Informed().begin(outbox)
        await informer.exports(outbox, position="100")
        await informer.exports(outbox, position="200")
    async with opened(tmp_path) as outbox:
        found = await checkpoint(outbox)
        assert found.position == "200"


async def test_the_newest_does_not_grow_by_deletes_and_resyncs(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        informer = await Informed(versions=iter([1, 999, 2])).begin(outbox)
        await informer.exports(outbox, "added shop/web", position="999")
        informer.epoch = 2
        await informer.exports(outbox, "sync shop/web", "deleted shop/web", position=None)
    async with opened(tmp_path) as outbox:
        found = await checkpoint(outbox)
        assert (found.newest, found.epoch) == (None, 2)


async def test_versions_run_backwards_begin_an_epoch_with_own_newest(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        informer = await Informed(versions=count(5000)).begin(outbox)
        await informer.exports(outbox, "added shop/web", position="6000")
        informer.epoch, informer.versions = 2, count(40)
        [delta] = await informer.exports(outbox, "updated shop/web", position="50")
        assert delta.epoch == 2
        assert delta.unique_id.startswith("2/")
    async with opened(tmp_path) as outbox:
        found = await checkpoint(outbox)
        assert (found.position, found.newest, found.epoch) == ("50", "50", 2)


async def test_an_epoch_is_saved_where_nothing_changed(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        informer = await Informed().begin(outbox)
        await informer.exports(outbox, "added shop/web", position="100")
        informer.epoch = 2
        await informer.exports(outbox, position="50")
    async with opened(tmp_path) as outbox:
        found = await checkpoint(outbox)
        assert (found.position, found.newest, found.epoch) == ("50", "50", 2)


# ── Watched scopes ───────────────────────────────────────────────────────────


async def shop_and_prod(directory: Path, *scopes: Scope) -> None:
    """Two objects in each namespace, exported by these informers."""
    async with opened(directory) as outbox:
        versions = count(100)
        await adopted(outbox, *scopes)
        for scope in scopes:
            informer = Informed(scope=scope, versions=versions)
            for namespace in ("shop", "prod"):
                if scope.namespace in (None, namespace):
                    await informer.exports(outbox, f"added {namespace}/a", f"added {namespace}/b", position="500")


async def test_the_same_scopes_go_on_where_they_were(tmp_path: Path) -> None:
    await shop_and_prod(tmp_path, SHOP, PROD)
    async with opened(tmp_path) as outbox:
        for scopes in ((SHOP, PROD), (PROD, SHOP)):
            found = await adopted(outbox, *scopes)
            assert {scope: (keys(each), each and each.position) for scope, each in found.items()} == {
                SHOP: (["shop/a", "shop/b"], "500"),
                PROD: (["prod/a", "prod/b"], "500"),
            }


async def test_another_selector_has_the_objects_and_begins_with_a_list(tmp_path: Path) -> None:
    await shop_and_prod(tmp_path, ALL)
    narrower = Scope(None, "tier=web")
    async with opened(tmp_path) as outbox:
        found, left = await outbox.ledger.adopt(PODS, [narrower])
        checkpoint = found[narrower]

        assert left == 0
        assert checkpoint is not None
        assert keys(checkpoint) == ["prod/a", "prod/b", "shop/a", "shop/b"]
        assert (checkpoint.position, checkpoint.newest) == (None, "500")
        assert len(await everything(outbox)) == 4


async def test_a_namespace_that_comes_begins_and_the_others_go_on(tmp_path: Path) -> None:
    await shop_and_prod(tmp_path, SHOP)
    async with opened(tmp_path) as outbox:
        found = await adopted(outbox, SHOP, PROD)

        assert keys(found[SHOP]) == ["shop/a", "shop/b"]
        assert found[PROD] is None
        assert (await checkpoint(outbox, SHOP)).position == "500"


async def test_a_vanished_namespace_is_deleted_in_order(tmp_path: Path) -> None:
    await shop_and_prod(tmp_path, SHOP, PROD)
    async with opened(tmp_path) as outbox:
        before = [record for record in await everything(outbox) if isinstance(record, Delta)]
        found, left = await outbox.ledger.adopt(PODS, [SHOP])
        exported = (await everything(outbox))[4:]

        assert left == 2
        assert list(found) == [SHOP]
        assert (await checkpoint(outbox, SHOP)).position == "500"
        assert story(exported) == ["deleted prod/a", "deleted prod/b"]
        lasts = {delta.key: delta for delta in before}
        for delta in exported:
            assert isinstance(delta, Delta)
            last = lasts[delta.key]
            assert (delta.body, delta.uid, delta.resource_version) == (last.body, last.uid, last.resource_version)
            assert delta.evidence == "unwatched"
        assert (await outbox.check()).problems == []
        assert (await outbox.check()).objects == 2


async def test_orphaned_objects_are_deleted_once_despite_a_kill(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        await (await Informed().begin(outbox)).exports(outbox, *(f"added prod/p{number}" for number in range(1200)))
    async with opened(tmp_path) as outbox, asyncio.TaskGroup() as tasks:
        adopting = tasks.create_task(outbox.ledger.adopt(PODS, [SHOP]))
        while outbox.last < 1201:  # noqa: ASYNC110  # the first part of the leavers
            await asyncio.sleep(0)
        left = crashed(tmp_path, tmp_path / "left")
        adopting.cancel()
    async with opened(left) as outbox:
        already = outbox.last - 1200
        _, rest = await outbox.ledger.adopt(PODS, [SHOP])
        exported = (await everything(outbox))[1200:]

        assert 0 < already < 1200
        assert rest == 1200 - already
        assert story(exported) == [f"deleted prod/p{number}" for number in range(1200)]


async def test_from_all_namespaces_to_one_and_back(tmp_path: Path) -> None:
    await shop_and_prod(tmp_path, ALL)
    async with opened(tmp_path) as outbox:
        found = await checkpoint(outbox, SHOP)
        assert keys(found) == ["shop/a", "shop/b"]
        assert found.position is None
    async with opened(tmp_path) as outbox:
        found = await checkpoint(outbox, ALL)
        assert keys(found) == ["shop/a", "shop/b"]
        assert found.position is None
        assert story(await everything(outbox))[4:] == ["deleted prod/a", "deleted prod/b"]
        assert (await outbox.check()).problems == []


async def test_two_informers_become_one(tmp_path: Path) -> None:
    await shop_and_prod(tmp_path, SHOP, PROD)
    async with opened(tmp_path) as outbox:
        found = await checkpoint(outbox, ALL)

        assert keys(found) == ["prod/a", "prod/b", "shop/a", "shop/b"]
        assert (found.position, found.newest) == (None, "500")
        assert (await outbox.check()).informers == 1


async def test_a_resource_no_longer_watched_leaves_alone(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        await (await Informed(PODS).begin(outbox)).exports(outbox, "added shop/a")
        await (await Informed(DEPLOYMENTS).begin(outbox)).exports(outbox, "added shop/a")
    async with opened(tmp_path) as outbox:
        assert {resource.name for resource in await outbox.ledger.resources()} == {"pods", "deployments.apps"}
        known, left = await outbox.ledger.adopt(PODS, ())

        assert (dict(known), left) == ({}, 1)
        assert [resource.name for resource in await outbox.ledger.resources()] == ["deployments.apps"]
        [_, _, gone] = await everything(outbox)
        assert isinstance(gone, Delta)
        assert (gone.op, gone.resource) == ("deleted", PODS)
        assert keys((await adopted(outbox, ALL, resource=DEPLOYMENTS))[ALL]) == ["shop/a"]


async def test_deletes_of_large_objects_leave_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batches: list[int] = []
    async with opened(tmp_path, committed=lambda deltas, _last: batches.append(len(deltas))) as outbox:
        informed = await Informed().begin(outbox)
        await informed.exports(outbox, "added shop/a", "added shop/b", "added shop/c", position="100")
        monkeypatch.setattr(store, "MOST_BYTES", 1)
        _, left = await outbox.ledger.adopt(PODS, ())
        assert (left, batches) == (3, [3, 1, 1, 1])


async def test_another_version_of_a_resource_resumes_at_its_position(tmp_path: Path) -> None:
    newer = Resource("apps", "v2", "deployments", "Deployment", True)
    async with opened(tmp_path) as outbox:
        await (await Informed(DEPLOYMENTS).begin(outbox)).exports(outbox, "added shop/a", position="500")
    async with opened(tmp_path) as outbox:
        informer = await Informed(newer).begin(outbox)
        assert list(informer.known) == ["shop/a"]
        [exported] = await informer.exports(outbox, "updated shop/a", position="600")
        first, second = await everything(outbox)

        assert exported.resource == newer
        assert isinstance(first, Delta)
        assert isinstance(second, Delta)
        assert (first.resource, second.resource) == (DEPLOYMENTS, newer)
        assert await outbox.ledger.resources() == [newer]


async def test_a_new_informer_does_not_inherit_a_position(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        went = await Informed(DEPLOYMENTS).begin(outbox)
        await went.exports(outbox, position="7000")
        async with outbox.ledger.removing(DEPLOYMENTS, ALL):
            pass
        await adopted(outbox, ALL)
        await outbox.maintain()

        assert (await adopted(outbox, ALL))[ALL] is None


async def test_an_unexported_resource_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        with pytest.raises(UnknownTarget, match="resources with records: none"):
            await outbox.ledger.kind_of("pods")
        await (await Informed().begin(outbox)).exports(outbox, "added shop/a")
        with pytest.raises(UnknownTarget, match="podz has no records; resources with records: pods"):
            await outbox.ledger.kind_of("podz")
        assert await outbox.ledger.kind_of("pods") == 1


# ── Appending ────────────────────────────────────────────────────────────────


async def test_many_informers_keep_their_own_order_in_one_log(tmp_path: Path) -> None:
    resources = [Resource("", "v1", f"things{number}", "Thing", True) for number in range(12)]
    committed: list[int] = []

    def commit(records: Sequence[Record], _last: int) -> None:
        committed.extend(record.sequence for record in records)

    async with opened(tmp_path, committed=commit) as outbox:
        informers = [await Informed(resource).begin(outbox) for resource in resources]

        async def export(informer: Informed) -> None:
            await informer.exports(outbox, "added shop/a", "added shop/b")
            for number in range(20):
                await informer.exports(outbox, f"updated shop/{'ab'[number % 2]}")

        async with asyncio.TaskGroup() as tasks:
            for informer in informers:
                tasks.create_task(export(informer))

        total = 12 * 22
        assert committed == list(range(1, total + 1))
        records = [record for record in await everything(outbox) if isinstance(record, Delta)]
        for resource in resources:
            versions = [int(each.resource_version) for each in records if each.resource == resource]
            assert versions == sorted(versions)
        assert (await outbox.check()).problems == []


async def test_an_append_whose_caller_is_cancelled_happened_or_did_not(tmp_path: Path) -> None:
    committed: list[int] = []
    async with opened(tmp_path, committed=lambda _records, last: committed.append(last)) as outbox:
        informer = await Informed().begin(outbox)
        await informer.exports(outbox, "added shop/a")
        async with asyncio.TaskGroup() as tasks:
            exporting = tasks.create_task(informer.exports(outbox, "added shop/b"))
            await asyncio.sleep(0)
            exporting.cancel()
        await informer.exports(outbox, "added shop/c")

        assert committed == [1, 2, 3]
        assert story(await everything(outbox)) == ["added shop/a", "added shop/b", "added shop/c"]
        assert (await outbox.check()).problems == []


async def test_after_a_bug_the_directory_is_let_go(tmp_path: Path) -> None:
    facts: list[Fact] = []
    outbox = await Outbox.open(tmp_path, {}, report=facts.append)
    informer = await Informed().begin(outbox)
    wrong = ApiObject("shop/a", None, "1", b"{}")  # type: ignore[arg-type]
    with pytest.raises(apsw.ConstraintError):
        await outbox.append(informer.batch([Change(Op.ADDED, Evidence.LISTED, wrong)], "7"))
    with pytest.raises(apsw.ConstraintError):
        await outbox.close()

    async with opened(tmp_path) as outbox:
        assert outbox.last == 0


async def test_replaced_bodies_leave_once_all_sinks_settled(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        informer = await Informed(padding=1000).begin(outbox)
        await informer.exports(outbox, "added shop/a", "added shop/b")
        for _ in range(5):
            await informer.exports(outbox, "updated shop/a")
        outbox.sinks["audit"].settle(outbox.last)
        await outbox.maintain()
        await informer.exports(outbox, "updated shop/b", "deleted shop/a")
        outbox.sinks["audit"].settle(outbox.last)
        await outbox.maintain()

        report = await outbox.check()
        assert (report.records, report.objects, report.problems) == (0, 1, [])
        assert b'"key":"shop/b"' in outbox.body(8)
