"""A changed configuration in a running bridge: what takes effect, and what no sink notices of it."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import count
from pathlib import Path

import pytest

from bridge.app import reloader
from bridge.model.status import SinkState
from bridge.telemetry.facts.delivery import SelectionChanged
from bridge.telemetry.facts.informer import ChangesIgnored
from bridge.telemetry.facts.outbox import SnapshotEnded
from bridge.telemetry.facts.process import ConfigurationReloaded
from tests.bridge.app.reloading import Reloading, reloading
from tests.bridge.app.test_restart import lists_and_watches
from tests.kit.bridges import a_config_map
from tests.kit.deadlines import BUSY, until
from tests.kit.received import Received, assert_in_order
from tests.kit.webhook_receiver import Answer, WebhookReceiver

WEB = [{"resource": "configmaps", "label_selector": "tier=web"}]
DATABASE = [{"resource": "configmaps", "label_selector": "tier=db"}]
EVERYWHERE = [{"resource": "configmaps"}]


def seed(run: Reloading, *names: str, **labels: str) -> None:
    for name in names:
        run.cluster.create("configmaps", a_config_map(name, **labels))


async def changed(run: Reloading, name: str, value: int) -> None:
    """A change that the sink ``copy`` has received."""
    run.cluster.patch("configmaps", name, {"data": {"value": str(value)}})
    await arrived(run)


async def arrived(run: Reloading) -> None:
    """The sink ``copy`` has the cluster's state, and no sink a backlog."""
    await run.until_held("copy", run.live("configmaps", namespace="default"))
    await run.until_settled()


def once(received: list[Received]) -> None:
    """No record is there twice, and the records of an object are in order."""
    assert [name for name, times in Counter(each.unique_id for each in received).items() if times > 1] == []
    assert_in_order(received, "the file")


# ── Sinks ────────────────────────────────────────────────────────────────────


async def test_a_new_sink_begins_with_a_snapshot_beside_others(tmp_path: Path) -> None:
    async with reloading(tmp_path) as run:
        seed(run, "a", "b")
        await changed(run, "a", 2)
        before = run.steps("copy")
        run.write_sinks(late=run.to_file("late"))
        assert await run.accepted() == ["sinks.late: added"]
        await run.until_held("late", run.live("configmaps", namespace="default"))
        await changed(run, "b", 3)
        await run.until_held("late", run.live("configmaps", namespace="default"))
        assert run.reported(SnapshotEnded)
        assert lists_and_watches(run.cluster) == (0, 1), "the informer went on"

    assert run.steps("copy") == [*before, "updated b"]


async def test_a_sink_goes_and_comes_back_with_its_backlog(tmp_path: Path) -> None:
    async with reloading(tmp_path) as run:
        run.write_sinks(other=run.to_file("other"))
        await run.accepted()
        seed(run, "a")
        await changed(run, "a", 2)
        run.write_sinks(other=None)
        assert await run.accepted() == ["sinks.other: removed"]
        assert [sink.name for sink in run.bridge.status().sinks] == ["copy"]
        size = run.path("other").stat().st_size
        await changed(run, "a", 3)
        await changed(run, "a", 4)
        assert run.path("other").stat().st_size == size
        run.write_sinks(other=run.to_file("other"))
        await run.accepted()
        await run.until_held("other", run.held("copy"))

    assert run.received("other") == run.received("copy")


async def test_records_in_flight_settle_before_a_sink_changes(tmp_path: Path, receiver: WebhookReceiver) -> None:
    held = asyncio.Event()
    hook = {"type": "webhook", "url": receiver.url}
    async with reloading(tmp_path, sinks={"hook": hook}) as run:
        receiver.answer = lambda _: Answer(wait=held)
        seed(run, "a")
        await until(lambda: run.bridge.status().sinks[0].state is SinkState.DELIVERING)
        run.write_sinks(hook={**hook, "window": 7}, copy=run.to_file("copy"))
        async with asyncio.TaskGroup() as tasks:
            reload = tasks.create_task(run.reload())
            await asyncio.wait([reload], timeout=0.3)
            assert not reload.done(), "a record is in flight"
            held.set()
        assert reload.result().changes == ["sinks.copy: added", "sinks.hook: changed: window"]
        run.cluster.patch("configmaps", "a", {"data": {"value": "2"}})
        await until(lambda: len(receiver.events) >= 2)

    assert [event["id"].rpartition("/")[2] for event in receiver.events] == ["added", "updated"]


async def test_a_dead_destination_does_not_hold_its_repair_up(tmp_path: Path, receiver: WebhookReceiver) -> None:
    """The grace period is longer than the test's deadline."""
    hook = {"type": "webhook", "url": "http://127.0.0.1:9/"}
    async with reloading(tmp_path, sinks={"hook": hook}, shutdown_grace_seconds="10m") as run:
        run.cluster.create("configmaps", a_config_map("a"))
        await until(lambda: run.bridge.status().sinks[0].state is SinkState.WAITING)
        run.write_sinks(hook={**hook, "url": receiver.url})
        assert await run.accepted() == ["sinks.hook: changed: url"]
        await run.until_settled()

    assert [event["id"].rpartition("/")[2] for event in receiver.events] == ["added"]


async def test_a_snapshot_goes_on_when_its_sink_changes(tmp_path: Path, receiver: WebhookReceiver) -> None:
    """Half of it is delivered, and more of it is in flight and never answered."""
    names = [f"object-{number}" for number in range(40)]
    half, stuck = len(names) // 2, asyncio.Event()
    hook = {"type": "webhook", "url": receiver.url, "concurrency": 2}
    async with reloading(tmp_path, shutdown_grace_seconds="50ms") as run:
        seed(run, *names)
        await run.until_held("copy", run.live("configmaps", namespace="default"))
        receiver.answer = lambda _: Answer(wait=stuck) if len(receiver.events) >= half else Answer()
        run.write_sinks(hook=hook)
        await run.accepted()
        await until(lambda: len(receiver.events) >= half)
        run.write_sinks(hook={**hook, "window": 9})
        await run.accepted()
        receiver.answer = lambda _: Answer()
        await run.until_settled()
        stuck.set()

    added = [event["subject"].rpartition("/")[2] for event in receiver.events if event["id"].endswith("/added")]
    assert set(names) <= set(added)


async def test_a_sink_that_blocked_the_intake_can_be_removed(tmp_path: Path) -> None:
    blocked = {"type": "webhook", "url": "http://127.0.0.1:9/", "when_full": "block", "max_backlog": {"records": 2}}
    async with reloading(tmp_path, sinks={"hook": blocked, "copy": run_to(tmp_path, "copy")}) as run:
        numbers = count()
        async with asyncio.timeout(20 * BUSY):
            while not run.bridge.status().intake_blocked:
                seed(run, f"object-{next(numbers)}")
                await asyncio.sleep(0.02)
        run.write(sinks={"copy": run_to(tmp_path, "copy")}, resources=EVERYWHERE)
        assert await run.accepted() == ["sinks.hook: removed", "resources: changed: configmaps"]
        await run.until_held("copy", run.live("configmaps"))
        assert not run.bridge.status().intake_blocked


def run_to(folder: Path, name: str) -> dict[str, str]:
    return {"type": "file", "path": str(folder / f"{name}.ndjson")}


# ── Resources ────────────────────────────────────────────────────────────────


async def test_a_new_resource_is_listed_and_others_watch_on(tmp_path: Path) -> None:
    async with reloading(tmp_path) as run:
        seed(run, "a")
        run.cluster.create("serviceaccounts", {"metadata": {"name": "robot", "namespace": "default"}})
        await changed(run, "a", 2)
        before = lists_and_watches(run.cluster)
        run.write(resources=[*run.sections["resources"], "serviceaccounts"])
        assert await run.accepted() == ["resources: added: serviceaccounts"]
        await run.until_held("copy", run.live("configmaps", namespace="default") | run.live("serviceaccounts"))
        await changed_beside(run)
        assert lists_and_watches(run.cluster) == before

    once(run.received("copy"))


async def changed_beside(run: Reloading) -> None:
    run.cluster.patch("configmaps", "a", {"data": {"value": "3"}})
    await run.until_held("copy", run.live("configmaps", namespace="default") | run.live("serviceaccounts"))


async def test_objects_of_a_removed_resource_are_deleted(tmp_path: Path) -> None:
    both = [{"resource": "configmaps", "namespaces": ["default"]}, "serviceaccounts"]
    async with reloading(tmp_path, resources=both) as run:
        seed(run, "a")
        run.cluster.create("serviceaccounts", {"metadata": {"name": "robot", "namespace": "default"}})
        await run.until_held("copy", run.live("configmaps", namespace="default") | run.live("serviceaccounts"))
        run.write(resources=both[:1])
        done = await run.reload()
        assert (done.changes, done.problems) == (["resources: removed: serviceaccounts"], [])
        assert done.deletes == {"serviceaccounts": len(run.live("serviceaccounts"))}
        await run.until_held("copy", run.live("configmaps", namespace="default"))
        run.write(resources=both)
        await run.accepted()
        await run.until_held("copy", run.live("configmaps", namespace="default") | run.live("serviceaccounts"))

    once(run.received("copy"))


async def test_a_narrower_selector_deletes_what_it_leaves_out(tmp_path: Path) -> None:
    async with reloading(tmp_path) as run:
        seed(run, "a", "b", tier="web")
        seed(run, "c", tier="db")
        await run.until_held("copy", run.live("configmaps", namespace="default"))
        there = run.live("configmaps", namespace="default")
        run.write(resources=[{"resource": "configmaps", "namespaces": ["default"], "label_selector": "tier=web"}])
        done = await run.reload()
        # The cluster's own objects have no such label either.
        assert done.deletes == {"configmaps": len(there) - 2}
        await run.until_held("copy", {name: version for name, version in there.items() if name in ("a", "b")})

    once(run.received("copy"))


async def test_a_rule_of_redaction_holds_from_the_change_on(tmp_path: Path) -> None:
    async with reloading(tmp_path) as run:
        seed(run, "a")
        await changed(run, "a", 41)
        run.write(resources=[{"resource": "configmaps", "namespaces": ["default"], "redact": ["data.value"]}])
        await run.accepted()
        await changed(run, "a", 42)

    assert '"41"' in run.path("copy").read_text()
    assert '"42"' not in run.path("copy").read_text()


# ── Selections ───────────────────────────────────────────────────────────────


async def test_a_changed_selection_exports_the_difference_alone(tmp_path: Path) -> None:
    view = run_to(tmp_path, "view")
    sinks = {"copy": run_to(tmp_path, "copy"), "view": {**view, "select": WEB}}
    async with reloading(tmp_path, sinks=sinks) as run:
        seed(run, "web-1", "web-2", tier="web")
        seed(run, "db-1", tier="db")
        await arrived(run)
        for select, expected in ((DATABASE, {"db-1"}), (None, None), (WEB, {"web-1", "web-2"})):
            run.write_sinks(view={**view, "select": select} if select else view)
            assert await run.accepted() == ["sinks.view: changed: select"]
            there = run.live("configmaps", namespace="default")
            await run.until_held("view", {name: there[name] for name in expected or there})
            assert lists_and_watches(run.cluster)[0] == 0, "informers went on at their positions"
        seed(run, "web-3", tier="web")
        await arrived(run)

    once(run.received("view"))
    assert run.steps("copy") == ["added web-1", "added web-2", "added db-1", "added web-3"]
    assert [(fact.added, fact.deleted) for fact in run.reported(SelectionChanged)][1:] == [(1, 2), (2, 0), (0, 1)]


async def test_a_change_of_all_watches_leaves_the_bridge_ready(tmp_path: Path) -> None:
    view = run_to(tmp_path, "view")
    async with reloading(tmp_path, sinks={"copy": run_to(tmp_path, "copy"), "view": view}) as run:
        seed(run, "web-1", tier="web")
        await arrived(run)
        run.write_sinks(view={**view, "select": DATABASE})
        seen = set()
        async with asyncio.TaskGroup() as tasks:
            reload = tasks.create_task(run.accepted())
            while not reload.done() or not run.bridge.status().all_live:
                now = run.bridge.status()
                seen.add((now.ready, now.all_live))
                await asyncio.sleep(0)
        await run.until_settled()
        assert not run.bridge.status().changing
    assert seen == {(True, True), (True, False)}


async def test_a_new_sink_with_a_selection_begins_with_it(tmp_path: Path) -> None:
    async with reloading(tmp_path) as run:
        seed(run, "web-1", tier="web")
        seed(run, "db-1", tier="db")
        await arrived(run)
        run.write_sinks(view=run.to_file("view", select=WEB))
        await run.accepted()
        run.cluster.patch("configmaps", "db-1", {"metadata": {"labels": {"tier": "web"}}})
        await arrived(run)

    assert run.steps("view") == ["added web-1", "added db-1"]


# ── Options of the process ───────────────────────────────────────────────────


async def test_the_level_of_the_log_changes(tmp_path: Path) -> None:
    async with reloading(tmp_path) as run:
        run.write(telemetry={"log_level": "debug"})
        assert await run.accepted() == ["telemetry.log_level: debug"]
        assert run.used[-1].telemetry.log_level == "debug"


async def test_a_file_with_equal_values_changes_nothing(tmp_path: Path) -> None:
    async with reloading(tmp_path) as run:
        run.write(latency="10ms")
        assert await run.accepted() == []
        assert run.reported(ConfigurationReloaded)[-1].changes == ()


@pytest.mark.parametrize("trigger", ["file", "SIGHUP"])
async def test_a_change_is_noticed_without_a_command(
    tmp_path: Path, trigger: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reloader, "LOOK_EVERY", 0.2)
    monkeypatch.setattr(reloader, "SETTLE", 0.05)
    async with reloading(tmp_path) as run:
        run.write_sinks(late=run.to_file("late"))
        if trigger == "SIGHUP":
            run.reloader.request(trigger)
        await until(lambda: run.reported(ConfigurationReloaded))
        assert [(fact.trigger, fact.added) for fact in run.reported(ConfigurationReloaded)] == [(trigger, ("late",))]


async def test_ignored_changes_begin_and_end_while_it_runs(tmp_path: Path) -> None:
    def beat(value: str) -> None:
        run.cluster.patch("configmaps", "a", {"data": {"beat": value}})

    entry = {"resource": "configmaps", "namespaces": ["default"]}
    async with reloading(tmp_path) as run:
        seed(run, "a")
        run.write(resources=[{**entry, "ignore_changes": ["data.beat"]}])
        assert await run.accepted() == ["resources: changed: configmaps"]
        beat("1")  # The state from before the option has no digest.
        await arrived(run)
        exported = run.steps("copy")
        beat("2")
        await until(lambda: run.reported(ChangesIgnored))
        assert run.steps("copy") == exported
        run.write(resources=[entry])
        assert await run.accepted() == ["resources: changed: configmaps"]
        await arrived(run)

    assert run.steps("copy") == [*exported, "updated a"], "the state that was ignored"


async def test_the_recovery_of_steps_begins_and_ends_while_it_runs(tmp_path: Path) -> None:
    def change_unseen() -> None:
        for value in ("2", "3"):
            run.cluster.patch("configmaps", "a", {"data": {"value": value}})
        run.cluster.misbehave.restart()  # Before any watch has sent a change.

    entry = {"resource": "configmaps", "namespaces": ["default"]}
    async with reloading(tmp_path) as run:
        seed(run, "a")
        await arrived(run)
        watches = len(run.cluster.seen("watch", "configmaps"))
        run.write(resources=[{**entry, "recover_steps": False}])
        assert await run.accepted() == ["resources: changed: configmaps"]
        assert len(run.cluster.seen("watch", "configmaps")) == watches, "no informer ends"
        before = run.steps("copy")
        change_unseen()
        await arrived(run)
        relisted = run.steps("copy")
        run.write(resources=[entry])
        await run.accepted()
        change_unseen()
        await arrived(run)

    assert relisted == [*before, "updated a"], "the newest state alone"
    assert run.steps("copy") == [*relisted, "updated a", "updated a"]
