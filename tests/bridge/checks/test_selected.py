"""What a sink with a selection has to have: its matching objects, as far as its steps are sure."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from bridge.checks.verify import Verification, verify
from bridge.kube import ClusterAccess
from bridge.model.change import Op
from bridge.plan.plan import Plan, SinkPlan, Wanted
from bridge.views.selection import SelectorText
from tests.bridge.checks.test_verify import SOON, Destination, config_map
from tests.kit.deadlines import BUSY
from tests.kit.playground import Playground
from tests.kit.sinks import RecordingSink

ADDED, UPDATED, DELETED = Op.ADDED, Op.UPDATED, Op.DELETED
EVERY = {"new", "changed", "gone", "replaced", "newer"}


def entry(**options: Any) -> SelectorText:
    return SelectorText(**{"resource": "configmaps", **options})


async def compared(cluster: Playground, destination: Destination, *select: SelectorText, folder: Path) -> Verification:
    wanted, access = (Wanted("configmaps"), Wanted("secrets")), ClusterAccess(server=cluster.url)
    sink = SinkPlan(name="chat", type="fake", make=RecordingSink, max_batch=10, select=select)
    plan = Plan(cluster="prod", access=access, wanted=wanted, sinks=(sink,), state=folder)
    reader: Any = destination
    async with asyncio.timeout(30 * BUSY):
        return await verify(plan, sink, reader, settle=SOON)


def differ(cluster: Playground, destination: Destination) -> None:
    """A destination that differs in each way, by the names of the objects."""
    first = {name: cluster.create("configmaps", config_map(name)) for name in ("same", "changed", "gone", "replaced")}
    for each in first.values():
        destination.store(each)
    cluster.patch("configmaps", "changed", {"data": {"a": "b"}}, namespace="shop")
    for name in ("gone", "replaced"):
        cluster.delete("configmaps", name, namespace="shop")
    for name in ("replaced", "new"):
        cluster.create("configmaps", config_map(name))
    destination.store(cluster.create("configmaps", config_map("newer")), version="999999")


STEPS = (
    ([entry()], EVERY),
    ([entry(operations=[ADDED, UPDATED])], EVERY - {"gone"}),
    ([entry(operations=[ADDED, DELETED])], EVERY - {"changed"}),
    ([entry(operations=[UPDATED, DELETED])], EVERY - {"changed", "new"}),
    ([entry(operations=[ADDED])], EVERY - {"changed", "gone"}),
    ([entry(operations=[UPDATED])], {"newer"}),
    ([entry(when="op != 'updated'")], {"newer"}),
    ([entry(), entry(operations=[ADDED], label_selector="a=b")], EVERY - {"changed", "gone"}),
    ([entry(), entry(resource="secrets", operations=[ADDED])], EVERY),
)


@pytest.mark.parametrize(("select", "sought"), STEPS)
async def test_a_difference_counts_where_the_steps_are_sure(
    select: list[SelectorText], sought: set[str], tmp_path: Path
) -> None:
    destination = Destination()
    async with Playground() as cluster:
        differ(cluster, destination)
        found = await compared(cluster, destination, *select, folder=tmp_path)
    assert {each.key.rpartition("/")[2] for each in found.differences} == sought


async def test_findings_that_are_impossible_are_named(tmp_path: Path) -> None:
    select = entry(operations=[ADDED, DELETED]), entry(resource="secrets", when="op == 'added'")
    async with Playground() as cluster:
        found = await compared(cluster, Destination(), *select, folder=tmp_path)
    assert found.notes == (
        "the select of the sink chooses steps of configmaps, so these were not sought: old versions",
        (
            "the select of the sink chooses steps of secrets, so these were not sought: missing objects, old versions, "
            "deleted objects"
        ),
        "a torn line",
    )


async def test_objects_that_do_not_match_are_extra(tmp_path: Path) -> None:
    destination = Destination()
    async with Playground() as cluster:
        destination.store(cluster.create("configmaps", config_map("a", n="1")))
        destination.store(cluster.create("configmaps", config_map("b", n="9")))
        found = await compared(cluster, destination, entry(where="int(object.data.n) > 5"), folder=tmp_path)
    assert [(each.kind, each.key.rpartition("/")[2]) for each in found.differences] == [("extra", "a")]
