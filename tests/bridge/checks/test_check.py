"""Findings where a run could not start, and the forecast of a start. A running bridge does not notice."""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from bridge.app.admin.client import running_on
from bridge.app.bridge import Bridge
from bridge.checks import check
from bridge.checks.check import check_all
from bridge.checks.findings import CheckResult, Finding
from bridge.kube import ClusterAccess
from bridge.model.formats.content import ContentRequest, Makes, OptionExpression
from bridge.model.policies import StartPolicy
from bridge.model.resource import Scope
from bridge.outbox import Retention
from bridge.outbox.errors import StateError
from bridge.plan import difference
from bridge.plan.plan import PagePlan, Plan, PlanRefused, SinkPlan, Wanted
from bridge.telemetry.facts import discard
from bridge.views.selection import SelectorText
from sinks.base import Claim
from tests.bridge.app.test_restart import life
from tests.kit.bridges import a_config_map
from tests.kit.deadlines import BUSY
from tests.kit.playground import Playground
from tests.kit.sinks import RecordingSink
from tests.kit.small_disk import CannotMount, mounted_small_disk

FILE = "/etc/kubedelta.yaml"
BY_NAMESPACE = (Wanted("configmaps", (Scope("default"), Scope("shop"))),)


NOWHERE = "http://127.0.0.1:1"


def a_sink(name: str = "sink", **more: Any) -> SinkPlan:
    return SinkPlan(**{"name": name, "type": "memory", "make": RecordingSink, "max_batch": 100, **more})


def a_plan(state: Path, server: str = NOWHERE, *wanted: Wanted, **more: Any) -> Plan:
    plan = Plan(
        cluster="test",
        access=ClusterAccess(server=server),
        wanted=wanted or (Wanted("configmaps"),),
        sinks=(a_sink(),),
        state=state,
        file=FILE,
    )
    return replace(plan, **more)


async def found(plan: Plan) -> dict[str, Finding]:
    """By subject; the worst of each."""
    order = list(CheckResult)
    findings: dict[str, Finding] = {}
    async for each in check_all(plan, await running_on(plan.state)):
        if each.subject not in findings or order.index(each.verdict) > order.index(findings[each.subject].verdict):
            findings[each.subject] = each
    return findings


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    return {each.name: (each.stat().st_ino, each.stat().st_mtime_ns) for each in folder.iterdir()}


# ── This machine ─────────────────────────────────────────────────────────────


async def test_a_read_only_state_directory_is_named_as_such(tmp_path: Path) -> None:
    """As ``readOnlyRootFilesystem`` makes it, where no volume is mounted."""
    try:
        with mounted_small_disk(tmp_path / "disk") as disk:
            disk.make_read_only()
            findings = await found(a_plan(disk.folder))
    except CannotMount as error:
        pytest.skip(f"no small disk can be mounted here: {error}")

    assert findings["state.directory"].detail == f"cannot write in {disk.folder}: Read-only file system"


@pytest.mark.parametrize("what", ["does not exist", "is not a directory"])
async def test_a_state_directory_that_is_none_is_wrong(tmp_path: Path, what: str) -> None:
    state = tmp_path / "state"
    if what == "is not a directory":
        state.touch()
    finding = (await found(a_plan(state)))["state.directory"]
    assert (finding.verdict, what in finding.detail) == (CheckResult.WRONG, True)


def a_link(path: Path) -> None:
    (path.parent / "elsewhere").write_text("a" * 64)
    path.symlink_to("elsewhere")


def a_foreign_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE a (b)")


IN_THE_WAY: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a database that is a link": ("outbox.db", a_link),
    "a database that is a directory": ("outbox.db", Path.mkdir),
    "a database of another program": ("outbox.db", a_foreign_database),
    "a lock that is a link": ("lock", a_link),
    "a key that is a link": ("redaction.key", a_link),
    "a socket that is a file": ("admin.sock", Path.touch),
    "a socket that is a directory": ("admin.sock", Path.mkdir),
}


@pytest.mark.parametrize(("name", "put"), IN_THE_WAY.values(), ids=IN_THE_WAY.keys())
async def test_what_lies_in_the_way_of_a_start_is_wrong(
    tmp_path: Path, name: str, put: Callable[[Path], object]
) -> None:
    put(tmp_path / name)
    async with Playground() as cluster:
        plan = a_plan(tmp_path, cluster.url)
        finding = (await found(plan))["state.directory"]
        assert (finding.verdict, name in finding.detail) == (CheckResult.WRONG, True)
        with pytest.raises(StateError, match=name):
            await Bridge(plan, discard).run()


async def test_a_directory_that_another_process_holds_is_wrong(tmp_path: Path) -> None:
    holder = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(holder, fcntl.LOCK_EX)
        finding = (await found(a_plan(tmp_path)))["state.directory"]
    finally:
        os.close(holder)
    assert (finding.verdict, finding.detail) == (
        CheckResult.WRONG,
        f"{tmp_path} is held by another process: only one bridge may use it",
    )


async def test_a_running_bridge_is_a_note_whatever_its_file(tmp_path: Path) -> None:
    """A file is checked before it replaces the one in effect."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = listening.getsockname()
        async with Playground() as cluster, life(tmp_path, cluster, file=FILE, listen=address) as run:
            before = listing(tmp_path)
            mine = await found(a_plan(tmp_path, cluster.url, listen=address))
            other = await found(a_plan(tmp_path, cluster.url, listen=address, file="/etc/other.yaml"))
            assert listing(tmp_path).keys() == before.keys()
            cluster.create("configmaps", a_config_map("later"))
            await run.sink.until(lambda sink: any(each.key == "default/later" for each in sink.deltas))

    for subject in ("state.directory", "telemetry.listen"):
        assert (mine[subject].verdict, other[subject].verdict) == (CheckResult.NOTE, CheckResult.NOTE)
    assert f"(process {os.getpid()}, with this file)" in mine["state.directory"].detail
    assert f"(process {os.getpid()}, with {FILE})" in other["state.directory"].detail
    assert other["resources: configmaps"].verdict is CheckResult.RIGHT


async def test_an_address_that_is_taken_is_wrong(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = listening.getsockname()
        taken = await found(a_plan(tmp_path, listen=address, page=PagePlan(*address)))
    free = await found(a_plan(tmp_path, page=PagePlan("127.0.0.1", 0)))
    for subject in ("telemetry.listen", "page.listen"):
        assert taken[subject].verdict is CheckResult.WRONG
        assert "address already in use" in taken[subject].detail.lower()
    assert free["page.listen"].verdict is CheckResult.RIGHT


async def test_a_disk_without_the_room_that_is_kept_free_is_wrong(tmp_path: Path) -> None:
    findings = await found(a_plan(tmp_path, retention=Retention(min_free=1 << 62)))
    assert findings["state.min_free_bytes"].verdict is CheckResult.WRONG


async def test_two_sinks_that_must_be_alone_at_one_place_are_wrong(tmp_path: Path) -> None:
    sinks = tuple(a_sink(name, claims=lambda: [Claim("file 1", "/deltas", True)]) for name in ("one", "two"))
    finding = (await found(a_plan(tmp_path, sinks=sinks)))["sinks.two"]
    assert (finding.verdict, finding.detail) == (
        CheckResult.WRONG,
        "sinks.one writes to the same: /deltas; give each its own",
    )


async def test_what_options_give_up_is_a_note_and_no_fault(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret-token")
    hook = a_sink("hook", clear_text="url is http://: read")
    live = a_sink("live", caution="mode is core: at most once")
    async with Playground() as cluster:
        access = ClusterAccess(server=cluster.url, token_file=token)
        plan = a_plan(tmp_path, sinks=(hook, live), access=access)
        notes = [each async for each in check_all(plan, None) if each.verdict is not CheckResult.RIGHT]
    assert [(each.subject, each.verdict) for each in notes] == [
        ("sinks.hook", CheckResult.NOTE),
        ("sinks.live", CheckResult.NOTE),
        ("cluster", CheckResult.NOTE),
    ]
    assert notes[1].detail == "mode is core: at most once"
    assert "plain HTTP" in notes[2].detail


# ── The cluster ──────────────────────────────────────────────────────────────


async def test_two_names_of_one_resource_are_wrong_for_check_and_run(tmp_path: Path) -> None:
    async with Playground() as cluster:
        plan = a_plan(tmp_path, cluster.url, Wanted("configmaps"), Wanted("cm"))
        finding = (await found(plan))["resources: cm"]
        with pytest.raises(PlanRefused, match="resources: cm: configmaps means configmaps as well"):
            async with asyncio.timeout(10 * BUSY):
                await Bridge(plan, discard).run()
    assert (finding.verdict, "configmaps means configmaps as well" in finding.detail) == (CheckResult.WRONG, True)


async def test_a_selector_that_the_server_does_not_take_is_wrong(tmp_path: Path) -> None:
    async with Playground() as cluster:
        by_name = Wanted("pods", (Scope(field_selector="metadata.name=web"),))
        taken = (await found(a_plan(tmp_path, cluster.url, by_name)))["resources: pods"]
        by_colour = Wanted("pods", (Scope(field_selector="spec.colour=red"),))
        refused = (await found(a_plan(tmp_path, cluster.url, by_colour)))["resources: pods"]
    assert (taken.verdict, refused.verdict) == (CheckResult.RIGHT, CheckResult.WRONG)
    assert "spec.colour" in refused.detail


async def test_a_namespace_that_does_not_exist_is_wrong(tmp_path: Path) -> None:
    async with Playground() as cluster:
        findings = await found(a_plan(tmp_path, cluster.url, Wanted("pods", (Scope("default"), Scope("nowhere")))))
    assert findings["resources: pods"].verdict is CheckResult.RIGHT
    assert "resources: namespaces: default" not in findings
    assert findings["resources: namespaces: nowhere"].verdict is CheckResult.WRONG


async def test_another_clusters_state_is_wrong_unless_it_is_compared(tmp_path: Path) -> None:
    async with Playground() as cluster, life(tmp_path, cluster):
        pass
    async with Playground() as other:
        refused = (await found(a_plan(tmp_path, other.url)))["state.directory"]
        taken = (await found(a_plan(tmp_path, other.url, restart_on_cluster_change=True)))["state.directory"]
    assert (refused.verdict, taken.verdict) == (CheckResult.WRONG, CheckResult.NOTE)
    assert "belongs to the cluster whose namespace kube-system" in refused.detail


# ── The forecast of a start ──────────────────────────────────────────────────


async def test_a_check_counts_changes_by_sink_and_writes_nothing(tmp_path: Path) -> None:
    """Of a bridge that is stopped, and of one that runs."""
    async with Playground() as cluster:
        for name in ("same", "changed", "gone"):
            cluster.create("configmaps", a_config_map(name))
        for name in ("a", "b"):
            cluster.create("configmaps", a_config_map(name, namespace="shop"))
        async with life(tmp_path, cluster, BY_NAMESPACE):
            running = (await found(a_plan(tmp_path, cluster.url, *BY_NAMESPACE)))["state"]
        cluster.delete("configmaps", "gone")
        cluster.patch("configmaps", "changed", {"data": {"value": "2"}})
        cluster.create("configmaps", a_config_map("new"))
        before = listing(tmp_path)
        sinks = (a_sink(), a_sink("new"), a_sink("late", start=StartPolicy.NOW))
        plan = a_plan(tmp_path, cluster.url, Wanted("configmaps", (Scope("default"),)), sinks=sinks)
        stopped = (await found(plan))["state"]
        assert listing(tmp_path) == before

    assert running.verdict is CheckResult.RIGHT
    assert {op for _, op, _ in running.rows} <= {check.WAITING}, "what is settled is saved a moment later"
    ours = [("added", 1), ("updated", 1), ("deleted", 3)]
    of_new = [("added", 6), *ours[1:]]
    assert list(stopped.rows) == [
        (sink, *each) for sink, rows in (("sink", ours), ("new", of_new), ("late", ours)) for each in rows
    ]
    assert stopped.verdict is CheckResult.NOTE, "two objects would leave because the configuration changed"


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (Wanted("secrets"), "5 objects as deleted"),
        (Wanted("configmaps", (Scope("shop"),)), "4 objects as deleted"),
        (Wanted("configmaps", (Scope(label_selector="tier=web"),)), "4 objects as deleted"),
    ],
)
async def test_too_many_deletes_by_configuration_are_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: Wanted, said: str
) -> None:
    monkeypatch.setattr(check, "MOST_DELETES", 3)
    async with Playground() as cluster:
        for name in ("a", "b", "c", "d"):
            cluster.create("configmaps", a_config_map(name))
        cluster.create("configmaps", a_config_map("e", namespace="shop", tier="web"))
        everywhere = (Wanted("configmaps"),)
        async with life(tmp_path, cluster, everywhere):
            pass
        findings = await found(a_plan(tmp_path, cluster.url, wanted))
        unchanged = await found(a_plan(tmp_path, cluster.url, *everywhere))
    assert (findings["resources"].verdict, said in findings["resources"].detail) == (CheckResult.WRONG, True)
    assert "resources" not in unchanged


async def test_deletes_that_happened_are_no_fault_of_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "MOST_DELETES", 1)
    async with Playground() as cluster:
        for name in ("a", "b", "c"):
            cluster.create("configmaps", a_config_map(name))
        async with life(tmp_path, cluster):
            pass
        plan = a_plan(tmp_path, cluster.url, Wanted("configmaps", (Scope("default"),)))
        monkeypatch.setattr(check, "MOST_OBJECTS", 2)
        too_many = (await found(plan))["state"]
        for name in ("a", "b", "c"):
            cluster.delete("configmaps", name)
        finding = (await found(plan))["state"]
    assert (finding.rows, finding.verdict) == ([("sink", "deleted", 3)], CheckResult.RIGHT)
    assert (too_many.verdict, "there are more than 2 configmaps" in too_many.detail) == (CheckResult.NOTE, True)


def test_the_bound_of_deletes_is_a_thousand() -> None:
    assert difference.MOST_DELETES == 1000


def a_selecting_sink(*entries: SelectorText) -> SinkPlan:
    return a_sink("chat", select=entries)


async def test_expressions_are_evaluated_on_the_live_objects(tmp_path: Path) -> None:
    entry = SelectorText(
        resource="cm",
        namespaces=["default"],
        where="object.data.value == '1'",
        when="object.data.value != oldObject.data.value",
    )
    async with Playground() as cluster:
        for name, value in {"a": "1", "b": "2"}.items():
            cluster.create("configmaps", a_config_map(name, value))
        cluster.create("configmaps", {"metadata": {"name": "empty", "namespace": "default"}})
        cluster.create("configmaps", a_config_map("elsewhere", namespace="shop"))
        findings = await found(a_plan(tmp_path, cluster.url, sinks=(a_selecting_sink(entry),)))

    where, when = findings["sinks.chat.select[0].where"], findings["sinks.chat.select[0].when"]
    assert where.verdict is CheckResult.NOTE
    assert where.detail == (
        "of 3 live objects, it is true for 1 (default/a), false for 1 (default/b), and fails on 1 (default/empty: the "
        'member "data" is missing)'
    )
    assert "false for 1 (default/a), and fails on 1 (default/empty" in when.detail


async def test_content_is_evaluated_on_the_objects_of_its_sink(tmp_path: Path) -> None:
    data = OptionExpression("data", "{'value': object.data.value, 'old': oldObject}", Makes.DATA)
    text = OptionExpression("url", "object.metadata.name", Makes.TEXT, 9)
    chat = a_selecting_sink(SelectorText(resource="cm", namespaces=["default"]))
    sinks = (
        replace(chat, content=ContentRequest((data,))),
        replace(chat, name="all", select=None, content=ContentRequest((text,))),
    )
    async with Playground() as cluster:
        cluster.create("configmaps", a_config_map("a"))
        cluster.create("configmaps", {"metadata": {"name": "empty", "namespace": "default"}})
        cluster.create("configmaps", a_config_map("elsewhere", namespace="shop"))
        findings = await found(a_plan(tmp_path, cluster.url, sinks=sinks))

    chat_data, every_url = findings["sinks.chat.data"], findings["sinks.all.url {object.metadata.name}"]
    assert chat_data.verdict is CheckResult.NOTE
    assert chat_data.detail == (
        'of 2 live objects, it has no value on 1 (default/empty: the member "data" is missing): their records would'
        " become dead letters"
    )
    assert (every_url.verdict, every_url.detail) == (CheckResult.RIGHT, "it has a value on each of 3 live objects")


async def test_a_mistake_in_content_is_wrong(tmp_path: Path) -> None:
    data = OptionExpression("data", "objct.x", Makes.DATA)
    sink = a_sink("chat", content=ContentRequest((data,)))
    finding = (await found(a_plan(tmp_path, sinks=(sink,))))["sinks.chat.data"]
    assert finding.verdict is CheckResult.WRONG
    assert finding.detail.startswith('column 1: unknown name "objct"; did you mean "object"?')


async def test_an_entry_that_means_no_watched_resource_is_wrong(tmp_path: Path) -> None:
    async with Playground() as cluster:
        sinks = (a_selecting_sink(SelectorText(resource="configmap.apps"), SelectorText(resource="*")),)
        findings = await found(a_plan(tmp_path, cluster.url, sinks=sinks))

    assert findings["sinks.chat.select[0].resource"].verdict is CheckResult.WRONG
    assert 'did you mean "configmaps"?' in findings["sinks.chat.select[0].resource"].detail
    assert "sinks.chat.select[1].resource" not in findings
