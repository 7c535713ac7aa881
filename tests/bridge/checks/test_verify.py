"""Comparing with a real API server, while both sides move."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, Self

import pytest
from kubedelta_reader import Record

from bridge.checks.compare import DifferenceKind
from bridge.checks.verify import Verification, verify
from bridge.kube import ClusterAccess
from bridge.model.answers import Busy, Expired, ListAnswer, ListRequest, Page
from bridge.model.change import Op
from bridge.model.formats.object_paths import partition_key
from bridge.model.object import ApiObject
from bridge.model.primitives.shard import Shard
from bridge.model.resource import Resource, Scope
from bridge.plan.cluster_view import PAGE, ClusterUnavailable, ClusterView
from bridge.plan.plan import Plan, SinkPlan, Wanted
from bridge.playground import StatusError
from bridge.views.selection import SelectorText
from sinks.base import SinkUnavailable
from sinks.reader import ReadFilter
from tests.kit.deadlines import BUSY
from tests.kit.playground import Playground
from tests.kit.records import PODS
from tests.kit.sinks import RecordingSink

SOON = 0.05
"""Seconds to settle, where what differs is to stay."""
LONG = 600.0
"""Seconds to settle, where nobody should have to wait for it."""


class Destination:
    """What a reader finds is put there by the test; each further reading may begin with something that happens."""

    def __init__(self) -> None:
        self.new: list[Record] = []
        self.before_reading: list[Callable[[], None]] = []
        self.sought: Sequence[ReadFilter] = ()
        self.closed = False
        self.notes: Sequence[str] = ("a torn line",)
        self.left: int | None = None

    async def open(self) -> str:
        return "a place, of the test"

    async def read(self, sought: Sequence[ReadFilter]) -> AsyncGenerator[Sequence[Record]]:
        self.sought = sought
        if self.before_reading:
            self.before_reading.pop(0)()
        new, self.new = self.new, []
        if new:
            yield new

    async def close(self) -> None:
        self.closed = True

    def store(self, manifest: dict[str, Any], op: Op = Op.UPDATED, version: str | None = None) -> None:
        metadata = manifest["metadata"]
        key = partition_key("prod", "", "configmaps", metadata["namespace"], metadata["name"])
        attributes = {
            "type": f"kubedelta.object.{op}.v1",
            "id": "1",
            "source": "/clusters/prod",
            "sequence": "1",
            "partitionkey": key,
            "op": op.value,
            "uid": metadata["uid"],
            "resourceversion": version or metadata["resourceVersion"],
        }
        self.new.append(Record(b"", {f"ce_{name}": value for name, value in attributes.items()}))


@pytest.fixture
async def cluster() -> AsyncIterator[Playground]:
    async with Playground() as server:
        yield server


@pytest.fixture
def destination() -> Destination:
    return Destination()


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "shop"}, "data": data}


async def compared(
    cluster: Playground,
    destination: Destination,
    *names: str,
    settle: float = SOON,
    namespaces: Sequence[str] = (),
    select: Sequence[SelectorText] | None = None,
) -> Verification:
    """Without a state of the bridge."""
    scopes = tuple(Scope(each) for each in namespaces) or (Scope(),)
    wanted = tuple(Wanted(name, scopes) for name in names or ("configmaps",))
    selecting = None if select is None else tuple(select)
    sink = SinkPlan(name="chat", type="fake", make=RecordingSink, max_batch=10, select=selecting)
    access = ClusterAccess(server=cluster.url)
    plan = Plan(cluster="prod", access=access, wanted=wanted, sinks=(sink,), state=Path("no state"))
    reader: Any = destination
    async with asyncio.timeout(30 * BUSY):
        return await verify(plan, sink, reader, settle=settle)


def reported(found: Verification) -> dict[str, DifferenceKind]:
    return {each.key: each.kind for each in found.differences}


async def test_equal_sides_are_found_equal_without_any_waiting(cluster: Playground, destination: Destination) -> None:
    for number in range(PAGE + 20):
        destination.store(cluster.create("configmaps", config_map(f"c{number}")))

    found = await compared(cluster, destination, settle=LONG)

    assert found.differences == []
    assert (found.live, found.stored, found.records) == (PAGE + 20,) * 3
    assert found.source == "a place, of the test"
    assert found.notes == ("a torn line",)
    assert destination.sought == (ReadFilter("", "v1", "configmaps", "ConfigMap", None),)
    assert destination.closed


@pytest.mark.parametrize("readings", [2, 6])
async def test_what_arrives_while_one_looks_is_no_difference(
    cluster: Playground, destination: Destination, monkeypatch: pytest.MonkeyPatch, readings: int
) -> None:
    monkeypatch.setattr("bridge.checks.verify._FIRST_PAUSE", 0.001)
    new, gone = (cluster.create("configmaps", config_map(name)) for name in ("new", "gone"))
    destination.store(gone)
    cluster.delete("configmaps", "gone", namespace="shop")

    def late() -> None:
        destination.store(new, Op.ADDED)
        destination.store(gone, Op.DELETED)

    destination.before_reading = [*[lambda: None] * readings, late]

    assert (await compared(cluster, destination, settle=LONG)).differences == []


async def test_what_happens_after_the_list_is_no_difference(cluster: Playground, destination: Destination) -> None:
    """The destination is ahead of what the first look at the cluster saw."""

    def ahead() -> None:
        destination.store(cluster.create("configmaps", config_map("after")), Op.ADDED)

    destination.before_reading = [lambda: None, ahead]

    assert (await compared(cluster, destination, settle=LONG)).differences == []


async def test_a_restless_object_is_equal_when_the_destination_follows(
    cluster: Playground, destination: Destination
) -> None:
    destination.store(cluster.create("configmaps", config_map("busy")))

    def goes_on() -> None:
        for beat in range(3):
            destination.store(cluster.patch("configmaps", "busy", {"data": {"beat": str(beat)}}, namespace="shop"))
        # And once more, behind the back of the destination.
        cluster.patch("configmaps", "busy", {"data": {"beat": "last"}}, namespace="shop")

    destination.before_reading = [lambda: None, *[goes_on] * 4]

    assert (await compared(cluster, destination, settle=LONG)).differences == []


async def test_only_the_configured_namespaces_are_compared(cluster: Playground, destination: Destination) -> None:
    cluster.create("configmaps", {"metadata": {"name": "theirs", "namespace": "bank"}})
    destination.store({"metadata": {"name": "old", "namespace": "bank", "uid": "u", "resourceVersion": "1"}})

    found = await compared(cluster, destination, "configmaps", "widgets.acme.io", namespaces=["shop"])

    assert found.differences == []
    assert found.uncovered == {"configmaps": 1}
    assert any("widgets.acme.io" in note for note in found.notes), "a name without a meaning"


class Answers:
    """A client whose lists have these answers, one after the other."""

    def __init__(self, *answers: ListAnswer) -> None:
        self._answers = list(answers)

    def lister_watcher(self, resource: Resource, scope: Scope, *, metadata_only: bool, shard: Shard | None) -> Self:
        assert metadata_only
        assert shard is None
        return self

    async def list(self, request: ListRequest) -> ListAnswer:
        return self._answers.pop(0)


def a_page(*names: str, more: bool = False) -> Page:
    objects = [ApiObject(f"shop/{name}", f"uid-{name}", "1", b"") for name in names]
    return Page(objects, "9", "go on" if more else None)


async def look(*answers: ListAnswer) -> set[str]:
    client: Any = Answers(*answers)
    return set(await ClusterView("prod", client, {(PODS.name, Scope()): PODS}).look())


async def test_a_list_goes_on_where_pages_expire_and_a_server_is_busy() -> None:
    found = await look(
        a_page("gone", "a", more=True), Expired("too old"), a_page("a", more=True), Busy("wait", after=0.0), a_page("b")
    )
    assert found == {"prod/core/pods/shop/a", "prod/core/pods/shop/b"}


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ([Expired("too old")] * 10, r"cannot list pods .*too old"),
        ([Page([], "9", None, ("no uid",))], "pods has objects that cannot be read: no uid"),
    ],
)
async def test_a_list_without_an_end_or_with_an_unreadable_object_is_none(
    answers: list[ListAnswer], reason: str
) -> None:
    with pytest.raises(ClusterUnavailable, match=reason):
        await look(*answers)


async def test_a_list_that_fails_is_never_taken_for_an_empty_cluster(
    cluster: Playground, destination: Destination
) -> None:
    async with cluster.refusing_connections():
        with pytest.raises(ClusterUnavailable, match=cluster.url):
            await compared(cluster, destination)
    assert destination.closed
    cluster.misbehave.fail(StatusError(500, "InternalError", "etcd is away"), "configmaps")
    with pytest.raises(ClusterUnavailable, match="cannot list configmaps"):
        await compared(cluster, destination)


async def test_a_destination_that_goes_away_is_reported(cluster: Playground, destination: Destination) -> None:
    cluster.create("configmaps", config_map("new"))

    def goes() -> None:
        raise SinkUnavailable("nobody there")

    destination.before_reading = [lambda: None, lambda: None, goes]
    with pytest.raises(SinkUnavailable, match="nobody there"):
        await compared(cluster, destination)
    assert destination.closed


# ── Sinks with a selection ───────────────────────────────────────────────────

ADDED, UPDATED, DELETED = Op.ADDED, Op.UPDATED, Op.DELETED
EVERY = {"new", "changed", "gone", "replaced", "newer"}


def entry(**options: Any) -> SelectorText:
    return SelectorText(**{"resource": "configmaps", **options})


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
    cluster: Playground, destination: Destination, select: list[SelectorText], sought: set[str]
) -> None:
    differ(cluster, destination)
    found = await compared(cluster, destination, "configmaps", "secrets", select=select)
    assert {each.key.rpartition("/")[2] for each in found.differences} == sought


async def test_findings_that_are_impossible_are_named(cluster: Playground, destination: Destination) -> None:
    select = [entry(operations=[ADDED, DELETED]), entry(resource="secrets", when="op == 'added'")]
    found = await compared(cluster, destination, "configmaps", "secrets", select=select)
    said = "the select of the sink chooses steps of {}, so these were not sought: {}"
    assert found.notes == (
        said.format("configmaps", "old versions"),
        said.format("secrets", "missing objects, old versions, deleted objects"),
        "a torn line",
    )


async def test_objects_that_do_not_match_are_extra(cluster: Playground, destination: Destination) -> None:
    destination.store(cluster.create("configmaps", config_map("a", n="1")))
    destination.store(cluster.create("configmaps", config_map("b", n="9")))
    found = await compared(cluster, destination, select=[entry(where="int(object.data.n) > 5")])
    assert [(each.kind, each.key.rpartition("/")[2]) for each in found.differences] == [("extra", "a")]
