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
from bridge.model.versions import Checkpoint
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


async def test_another_cluster_than_the_first_is_refused_with_both_names(tmp_path: Path) -> None:
    for _ in range(2):
        async with opened(tmp_path) as outbox:
            assert await outbox.ledger.identify("uid-1", restart=False) is None
            assert (await outbox.check()).cluster == "uid-1"
            with pytest.raises(
                OtherCluster, match=r"uid uid-1; this cluster has the uid uid-2.*on_cluster_change: restart"
            ):
                await outbox.ledger.identify("uid-2", restart=False)


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


async def test_the_position_is_of_the_same_transaction_or_saved_a_little_later(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        informer = await Informed().begin(outbox)
        await informer.exports(outbox, "added shop/web", position="200")
        first = crashed(tmp_path, tmp_path / "first")
        await informer.exports(outbox, "updated shop/web", position="300")
        second = crashed(tmp_path, tmp_path / "second")
        await informer.exports(outbox, position="400")  # Without a change.
        unsaved = crashed(tmp_path, tmp_path / "unsaved")
        await outbox.maintain()
        saved = crashed(tmp_path, tmp_path / "saved")

    crashes = ((first, "200", "101"), (second, "300", "102"), (unsaved, "300", "102"), (saved, "400", "102"))
    for left, position, version in crashes:
        async with opened(left) as outbox:
            found = await checkpoint(outbox)
            [known] = found.objects.values()
            assert (found.position, found.newest, known.resource_version) == (position, position, version)


@pytest.mark.parametrize(
    ("epoch", "steps", "position", "reached"),
    [
        (1, [], None, ("200", "200", 1)),
        (1, ["sync shop/web"], None, ("200", "200", 1)),
        (1, ["updated shop/web"], None, (None, "200", 1)),
        (1, ["deleted shop/web"], None, (None, "200", 1)),
        (1, [], "300", ("300", "300", 1)),
        (2, [], "50", ("50", "50", 2)),
        (2, ["sync shop/web", "deleted shop/web"], None, (None, None, 2)),
        (2, ["updated shop/web"], "50", ("50", "102", 2)),
    ],
)
async def test_only_changes_without_a_position_and_epochs_clear_it(
    tmp_path: Path, epoch: int, steps: list[str], position: str | None, reached: tuple[str | None, str | None, int]
) -> None:
    """Deletes and resyncs have a version of an earlier state, and an epoch has its own newest one."""
    async with opened(tmp_path) as outbox:
        assert await adopted(outbox, ALL) == {ALL: None}
        informer = Informed()
        await informer.exports(outbox, "added shop/web", position="200")
        informer.epoch = epoch
        deltas = await informer.exports(outbox, *steps, position=position)
        assert {each.epoch for each in deltas} <= {epoch}
    async with opened(tmp_path) as outbox:
        found = await checkpoint(outbox)
        assert (found.position, found.newest, found.epoch) == reached


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


# ── Watched scopes ───────────────────────────────────────────────────────────


NARROWER = Scope(None, "tier=web")
IN_SHOP, IN_PROD = ["shop/a", "shop/b"], ["prod/a", "prod/b"]


@pytest.mark.parametrize(
    ("was", "now", "left"),
    [
        ((SHOP, PROD), {PROD: (IN_PROD, "500"), SHOP: (IN_SHOP, "500")}, []),
        ((SHOP,), {SHOP: (IN_SHOP, "500"), PROD: ([], None)}, []),
        ((SHOP, PROD), {SHOP: (IN_SHOP, "500")}, IN_PROD),
        ((SHOP, PROD), {ALL: (IN_PROD + IN_SHOP, None)}, []),
        ((ALL,), {SHOP: (IN_SHOP, None)}, IN_PROD),
        ((ALL,), {NARROWER: (IN_PROD + IN_SHOP, None)}, []),
    ],
)
async def test_objects_go_to_the_scopes_that_cover_them_or_leave_in_order(
    tmp_path: Path, was: Sequence[Scope], now: dict[Scope, tuple[list[str], str | None]], left: list[str]
) -> None:
    """An informer that goes on has its position, another one begins with a list."""
    async with opened(tmp_path) as outbox:
        versions = count(100)
        await adopted(outbox, *was)
        for scope in was:
            informer = Informed(scope=scope, versions=versions)
            for namespace in ("shop", "prod"):
                if scope.namespace in (None, namespace):
                    await informer.exports(outbox, f"added {namespace}/a", f"added {namespace}/b", position="500")
    async with opened(tmp_path) as outbox:
        before = {each.key: each for each in await everything(outbox) if isinstance(each, Delta)}
        for leaving in (left, []):
            found, number = await outbox.ledger.adopt(PODS, [*now])
            assert number == len(leaving)
            assert {scope: (keys(each), each and each.position) for scope, each in found.items()} == now
            assert all(each.newest == "500" for each in found.values() if each is not None)

        exported = (await everything(outbox))[len(before) :]
        assert story(exported) == [f"deleted {key}" for key in left]
        for delta in exported:
            assert isinstance(delta, Delta)
            last = before[delta.key]
            assert (delta.body, delta.uid, delta.resource_version) == (last.body, last.uid, last.resource_version)
            assert delta.evidence == "unwatched"
        report = await outbox.check()
        assert (report.problems, report.objects, report.informers) == ([], len(before) - len(left), len(now))


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
