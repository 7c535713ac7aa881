"""What an object is called, and who watches it, when its definition comes back otherwise or another entry means it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from bridge.kube import Catalogue, KubeClient
from bridge.model.formats.cloudevent import DELTA_ATTRIBUTES, CloudEvents
from bridge.model.policies import StartPolicy
from bridge.model.record import Delta
from bridge.model.resource import Scope
from bridge.outbox import Retention
from bridge.plan.plan import Wanted
from bridge.telemetry.facts.cluster import ScopeChanged
from tests.bridge.app import test_restart
from tests.bridge.app.test_bridge import DEFINITIONS, a_definition
from tests.kit.playground import Playground

WIDGETS = "widgets.example.test"
PATH = "/apis/example.test/v1"
EVERYWHERE = (Wanted(WIDGETS),)
TWO_NAMESPACES = (Wanted(WIDGETS, (Scope("default"), Scope("kube-public"))),)
life = partial(test_restart.life, retention=Retention(retain_age=3600.0))
"""What a sink has had is there for whoever reads the whole log."""
configured = pytest.mark.parametrize("wanted", [EVERYWHERE, TWO_NAMESPACES], ids=["everywhere", "two namespaces"])


def definition(*, scope: str = "Namespaced", kind: str = "Widget", version: str = "v1", short: str = "") -> Any:
    made = a_definition(version=version)
    made["spec"]["scope"] = scope
    made["spec"]["names"] |= {"kind": kind, "shortNames": [short] if short else []}
    return made


def widget(name: str, namespace: str | None = None) -> dict[str, Any]:
    return {"metadata": {"name": name} | ({"namespace": namespace} if namespace else {}), "spec": {}}


def replace(cluster: Playground, definition: Any) -> None:
    """At once: nobody can look in between."""
    cluster.delete(DEFINITIONS, WIDGETS)
    cluster.create(DEFINITIONS, definition)


def names_of(deltas: Sequence[Delta]) -> list[tuple[str, str, str]]:
    """Op, subject and partition key."""
    found = []
    for delta in deltas:
        values = dict(zip(DELTA_ATTRIBUTES, CloudEvents("test").attributes(delta), strict=True))
        found.append((delta.op.value, values["subject"], values["partitionkey"]))
    return found


class Named(NamedTuple):
    """An object, with its subject and partition key."""

    manifest: dict[str, Any]
    key: str
    names: tuple[str, str]


OF_SCOPE = {
    "Namespaced": Named(
        widget("w", "default"),
        "default/w",
        (f"{PATH}/namespaces/default/widgets/w", "test/example.test/widgets/default/w"),
    ),
    "Cluster": Named(widget("o"), "o", (f"{PATH}/widgets/o", "test/example.test/widgets/_/o")),
}


async def everything(directory: Path, cluster: Playground, wanted: tuple[Wanted, ...]) -> list[tuple[str, str, str]]:
    """The records of a sink that reads the whole log from the disk."""
    async with life(directory, cluster, wanted, name="auditor", start=StartPolicy.EARLIEST) as run:
        pass
    return names_of(run.sink.deltas)


@configured
@pytest.mark.parametrize("down", [False, True], ids=["while it runs", "while it is down"])
@pytest.mark.parametrize("scopes", [("Namespaced", "Cluster"), ("Cluster", "Namespaced")], ids=" then ".join)
async def test_a_definition_comes_back_with_another_scope(
    tmp_path: Path, wanted: tuple[Wanted, ...], scopes: tuple[str, str], down: bool
) -> None:
    former, later = (OF_SCOPE[scope] for scope in scopes)

    async with Playground(bookmark_interval=0.2) as cluster:

        def come_back() -> None:
            replace(cluster, definition(scope=scopes[1]))
            cluster.create(WIDGETS, later.manifest)

        async def until_exchanged(run: test_restart.Run) -> None:
            await run.sink.until(lambda sink: {f"deleted {former.key}", f"added {later.key}"} <= {*sink.delivered()})

        cluster.create(DEFINITIONS, definition(scope=scopes[0]))
        cluster.create(WIDGETS, former.manifest)
        async with life(tmp_path, cluster, wanted) as run:
            if not down:
                come_back()
                await until_exchanged(run)
        delivered = run.sink.deltas
        if down:
            come_back()
            async with life(tmp_path, cluster, wanted) as run:
                await until_exchanged(run)
            delivered = [*delivered, *run.sink.deltas]
        from_disk = await everything(tmp_path, cluster, wanted)

    assert names_of(delivered) == from_disk
    assert sorted(from_disk) == sorted([("added", *former.names), ("added", *later.names), ("deleted", *former.names)])


async def test_a_late_short_name_takes_its_part_from_the_wildcard(
    tmp_path: Path,
) -> None:
    wanted = (Wanted("*.example.test"), Wanted("wd", (Scope("default"),)))
    async with Playground(bookmark_interval=0.2) as cluster:
        cluster.create(DEFINITIONS, definition())
        cluster.create(WIDGETS, widget("kept", "default"))
        cluster.create(WIDGETS, widget("left", "kube-public"))
        async with life(tmp_path, cluster, wanted, ready=False) as run:
            await run.sink.until(lambda sink: len(sink.deltas) == 2)
            status = cluster.get(DEFINITIONS, WIDGETS)["status"]
            cluster.update(DEFINITIONS, {**definition(short="wd"), "status": status})
            await run.sink.until(lambda sink: "deleted kube-public/left" in sink.delivered())
            cluster.create(WIDGETS, widget("other", "kube-public"))
            cluster.create(WIDGETS, widget("new", "default"))
            await run.sink.until(lambda sink: "added default/new" in sink.delivered())
            cluster.update(DEFINITIONS, {**definition(), "status": status})
            await run.sink.until(
                lambda sink: {"added kube-public/left", "added kube-public/other"} <= set(sink.delivered())
            )
            cluster.delete(WIDGETS, "kept")
            await run.sink.until(lambda sink: "deleted default/kept" in sink.delivered())

    assert sorted(run.sink.delivered()) == [
        "added default/kept",
        "added default/new",
        "added kube-public/left",
        "added kube-public/left",
        "added kube-public/other",
        "deleted default/kept",
        "deleted kube-public/left",
    ]
    assert len({delta.unique_id for delta in run.sink.deltas}) == len(run.sink.deltas), "no id came twice"
    assert [fact.left for fact in run.reported(ScopeChanged)] == [1]


async def test_a_short_name_with_a_new_meaning_releases_the_old_one(tmp_path: Path) -> None:
    gadgets = a_definition("gadgets")
    gadgets["spec"]["names"]["shortNames"] = ["wd"]
    async with Playground(bookmark_interval=0.2) as cluster:
        cluster.create(DEFINITIONS, gadgets)
        cluster.create(DEFINITIONS, definition())
        cluster.create("gadgets.example.test", widget("gadget", "default"))
        cluster.create(WIDGETS, widget("widget", "default"))
        async with life(tmp_path, cluster, (Wanted("wd"),), ready=False) as run:
            await run.sink.until(lambda sink: sink.delivered() == ["added default/gadget"])
            for plural, new in (("gadgets", a_definition("gadgets")), ("widgets", definition(short="wd"))):
                status = cluster.get(DEFINITIONS, f"{plural}.example.test")["status"]
                cluster.update(DEFINITIONS, {**new, "status": status})
            await run.sink.until(
                lambda sink: {"deleted default/gadget", "added default/widget"} <= set(sink.delivered())
            )

    assert len(run.sink.deltas) == 3


async def test_a_short_name_missing_once_at_the_start_deletes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An API server that starts serves custom resources a moment later than the others."""
    discover, looks = KubeClient.discover, count()

    async def nothing_at_first(self: KubeClient, previous: Catalogue | None) -> Catalogue:
        return Catalogue() if not next(looks) else await discover(self, previous)

    async with Playground(bookmark_interval=0.2) as cluster:
        cluster.create(DEFINITIONS, definition(short="wd"))
        cluster.create(WIDGETS, widget("w", "default"))
        async with life(tmp_path, cluster, (Wanted("wd"),)):
            pass
        monkeypatch.setattr(KubeClient, "discover", nothing_at_first)
        async with life(tmp_path, cluster, (Wanted("wd"),)) as run:
            cluster.patch(WIDGETS, "w", {"spec": {"n": 2}})
            await run.sink.until(lambda sink: "updated default/w" in sink.delivered())

    assert run.sink.delivered() == ["updated default/w"]


async def test_a_redefined_kind_is_exported_and_old_deletes_keep_it(
    tmp_path: Path,
) -> None:
    async with Playground(bookmark_interval=0.2) as cluster:
        cluster.create(DEFINITIONS, definition())
        cluster.create(WIDGETS, widget("w", "default"))
        async with life(tmp_path, cluster, EVERYWHERE) as run:
            replace(cluster, definition(kind="Gadget"))
            await run.sink.until(lambda sink: "deleted default/w" in sink.delivered())
            for number in count():
                cluster.create(WIDGETS, widget(f"new-{number}", "default"))
                await run.sink.until(lambda sink: f"added default/new-{number}" in sink.delivered())  # noqa: B023
                if run.sink.deltas[-1].resource.kind == "Gadget":
                    break

    deleted = next(delta for delta in run.sink.deltas if delta.op == "deleted")
    assert deleted.resource.kind == "Widget"


async def test_deletes_of_a_vanishing_version_keep_that_version(tmp_path: Path) -> None:
    async with Playground(bookmark_interval=0.2) as cluster:
        cluster.create(DEFINITIONS, definition(version="v1beta1"))
        cluster.create(WIDGETS, widget("w", "default"))
        async with life(tmp_path, cluster, EVERYWHERE):
            pass
        replace(cluster, definition(version="v1"))
        cluster.create(WIDGETS, widget("new", "default"))
        async with life(tmp_path, cluster, EVERYWHERE) as run:
            await run.sink.until(lambda sink: len(sink.deltas) == 2)

    assert sorted((delta.op, delta.key, delta.resource.version) for delta in run.sink.deltas) == [
        ("added", "default/new", "v1"),
        ("deleted", "default/w", "v1beta1"),
    ]


async def test_two_entries_may_watch_a_resource_in_two_versions(tmp_path: Path) -> None:
    wanted = (
        Wanted("widgets.v1.example.test", (Scope("default"),)),
        Wanted("widgets.v1beta1.example.test", (Scope("kube-public"),)),
    )
    both = definition()
    both["spec"]["versions"].append({**both["spec"]["versions"][0], "name": "v1beta1", "storage": False})
    async with Playground(bookmark_interval=0.2) as cluster:
        cluster.create(DEFINITIONS, both)
        cluster.create(WIDGETS, widget("a", "default"))
        cluster.create(WIDGETS, widget("b", "kube-public"))
        async with life(tmp_path, cluster, wanted) as run:
            await run.sink.until(lambda sink: len(sink.deltas) == 2)

    assert {(delta.key, delta.resource.version) for delta in run.sink.deltas} == {
        ("default/a", "v1"),
        ("kube-public/b", "v1beta1"),
    }
