"""A changed configuration that a running bridge refuses: the former one stays in effect, whole."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from bridge.app.endpoints import readiness
from bridge.model.admin import UnknownTarget
from bridge.model.diagnosis import troubles_of
from bridge.model.status import SinkState
from bridge.outbox.storage.state_directory import StateDirectory
from bridge.telemetry.facts.process import ReloadRefused
from tests.bridge.app.reloading import Reloading, reloading
from tests.bridge.app.test_restart import lists_and_watches
from tests.kit.bridges import a_config_map
from tests.kit.deadlines import until
from tests.kit.webhook_receiver import Answer, WebhookReceiver

WEB = [{"resource": "configmaps", "label_selector": "tier=web"}]


async def refused(run: Reloading) -> list[str]:
    """Reloads a file that is refused; nothing changed. Returns the problems."""
    sinks, informers = run.bridge.status().sinks, lists_and_watches(run.cluster)
    done = await run.reload()
    assert done.changes == []
    assert done.problems
    assert list(run.reported(ReloadRefused)[-1].problems) == done.problems
    assert [sink.name for sink in run.bridge.status().sinks] == [sink.name for sink in sinks]
    assert lists_and_watches(run.cluster) == informers
    run.cluster.create("configmaps", a_config_map(f"after-{len(run.reported(ReloadRefused))}"))
    await run.until_held("copy", run.live("configmaps", namespace="default"))
    return done.problems


@pytest.mark.parametrize(
    ("sections", "option"),
    [
        ({"cluster": {"name": "other"}}, "cluster.name"),
        ({"state": {"directory": "elsewhere"}}, "state.directory"),
        ({"state": {"directory": "state", "retain": {"age": "1d"}}}, "state.retain.age"),
        ({"redaction": {"presets": []}}, "redaction.presets"),
        ({"telemetry": {"listen": "127.0.0.1:0"}}, "telemetry.listen"),
        ({"page": {"listen": "127.0.0.1:0"}}, "page.listen"),
        ({"shutdown_grace_seconds": "7s"}, "shutdown_grace_seconds"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_an_option_that_needs_a_restart_is_named(tmp_path: Path, sections: dict[str, Any], option: str) -> None:
    async with reloading(tmp_path) as run:
        changed = {name: {**_section(run, name), **value} if isinstance(value, dict) else value
                   for name, value in sections.items()}  # fmt: skip
        run.write(**changed, sinks={**run.sections["sinks"], "late": run.to_file("late")})
        [problem] = await refused(run)
        assert problem.startswith(f"{option}: ")
        assert "restart" in problem
        assert not run.path("late").exists()


async def test_the_first_sink_with_managers_needs_a_restart(tmp_path: Path) -> None:
    async with reloading(tmp_path) as run:
        run.write_sinks(late={**run.to_file("late"), "format": "row", "include": ["managers"]})
        [problem] = await refused(run)
        assert problem.startswith("sinks: include: managers needs a restart")


async def test_a_full_disk_refuses_a_change_before_it_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with reloading(tmp_path) as run:
        with monkeypatch.context() as disk:
            disk.setattr(StateDirectory, "free_bytes", lambda _: 4711)
            run.write_sinks(late=run.to_file("late"))
            done = await run.reload()
            assert done.changes == []
            assert "the disk of the state is full, nothing changed" in done.problems[0]
            assert "4711 bytes free" in done.problems[0]
            [trouble] = [each for each in troubles_of(run.bridge.status()) if each.subject == "configuration"]
            assert "tried again" in trouble.what
            assert [sink.name for sink in run.bridge.status().sinks] == ["copy"]
        assert await run.accepted() == ["sinks.late: added"]
        assert [each for each in troubles_of(run.bridge.status()) if each.subject == "configuration"] == []


def _section(run: Reloading, name: str) -> dict[str, Any]:
    return dict(run.sections.get(name, {}))


async def test_every_mistake_of_a_wrong_file_is_reported(tmp_path: Path) -> None:
    async with reloading(tmp_path) as run:
        run.write(colour="red", sinks={"copy": {"type": "file"}})
        problems = await refused(run)
        assert len(problems) == 2
        assert any("colour" in problem for problem in problems)
        assert any("sinks.copy.path" in problem for problem in problems)

        run.file.write_text("sinks: [")
        assert "not YAML" in (await refused(run))[0]
        run.file.unlink()
        assert "cannot be read" in (await refused(run))[0]


async def test_mistakes_that_a_start_finds_are_found(tmp_path: Path) -> None:
    async with reloading(tmp_path) as run:
        run.write_sinks(twin=run.to_file("copy"))
        assert "sinks.copy writes to the same" in (await refused(run))[0]
        run.write(sinks={"copy": run.to_file("copy", select=[{"resource": "configmaps", "where": "objekt.x"}])})
        assert "sinks.copy.select[0].where" in (await refused(run))[0]
        run.write(sinks={"copy": run.to_file("copy", select=[{"resource": "secrets"}])})
        assert "sinks.copy.select[0].resource" in (await refused(run))[0]
        run.write(sinks={"copy": run.to_file("copy")}, resources=["configmaps", {"resource": "cm"}])
        assert "configmaps means" in (await refused(run))[0]


async def test_a_refusal_is_seen_until_the_file_is_right(tmp_path: Path) -> None:
    async with reloading(tmp_path) as run:
        digest = run.reloader.status.digest
        assert f"[+] configuration in effect digest={digest}" in readiness(run.bridge.status())
        run.write(shutdown_grace_seconds="7s")
        await refused(run)
        assert "[!] configuration refused" in readiness(run.bridge.status())
        assert "shutdown_grace_seconds" in readiness(run.bridge.status())
        assert run.bridge.status().ready, "the bridge works"
        status = run.reloader.status
        assert (status.digest, status.refusals) == (digest, 1)
        run.write(shutdown_grace_seconds="5s")
        assert (await run.reload()).problems == []
        assert run.reloader.status.refused == ""
        assert run.reloader.status.digest == digest


# ── Deletes ──────────────────────────────────────────────────────────────────


async def test_many_deletes_need_a_confirmation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.app.live_change.MOST_DELETES", 3)
    both = [{"resource": "configmaps", "namespaces": ["default"]}, {"resource": "secrets", "namespaces": ["default"]}]
    async with reloading(tmp_path, resources=both) as run:
        for number in range(4):
            run.cluster.create("secrets", {"metadata": {"name": f"secret-{number}", "namespace": "default"}})
        await run.until_held("copy", run.live("configmaps", "secrets", namespace="default"))
        run.write(resources=both[:1])
        done = await run.reload()
        assert done.deletes == {"secrets": 4}
        assert "kubedelta reload --allow-deletes 4" in done.problems[0]
        assert (await run.reload(3)).problems, "fewer were confirmed"
        assert run.held("copy") == run.live("configmaps", "secrets", namespace="default")
        assert (await run.reload(4)).deletes == {"secrets": 4}
        await run.until_held("copy", run.live("configmaps", namespace="default"))


async def test_deletes_of_a_selection_count_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.app.live_change.MOST_DELETES", 1)
    async with reloading(tmp_path) as run:
        for number in range(2):
            run.cluster.create("configmaps", a_config_map(f"db-{number}", tier="db"))
        await run.until_held("copy", run.live("configmaps", namespace="default"))
        there = len(run.held("copy"))
        run.write(sinks={"copy": run.to_file("copy", select=WEB)})
        done = await run.reload()
        assert done.problems
        assert done.deletes == {"sinks.copy.select": there}
        assert (await run.reload(there)).problems == []
        await run.until_held("copy", {})


async def test_a_server_that_is_gone_is_asked_again_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.app.reloader.RETRY_AFTER", 0.1)
    selected = [{"resource": "configmaps", "namespaces": ["default"], "label_selector": "tier=web"}]
    async with reloading(tmp_path) as run:
        run.cluster.create("configmaps", a_config_map("a", tier="web"))
        await run.until_held("copy", run.live("configmaps", namespace="default"))
        run.write(resources=selected)
        async with run.cluster.refusing_connections():
            assert "cannot list" in (await run.reload()).problems[0]
        there = run.live("configmaps", namespace="default")
        await run.until_held("copy", {"a": there["a"]})


async def test_a_secret_may_be_mounted_later_than_the_option_that_names_it(
    tmp_path: Path, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge.app.reloader.RETRY_AFTER", 0.1)
    token = tmp_path / "token"
    async with reloading(tmp_path) as run:
        run.cluster.create("configmaps", a_config_map("a"))
        run.write_sinks(hook={"type": "webhook", "url": receiver.url, "bearer_token_file": str(token)})
        assert "sinks.hook.bearer_token_file: cannot read" in (await run.reload()).problems[0]
        [trouble] = [each for each in troubles_of(run.bridge.status()) if each.subject == "configuration"]
        assert "is tried again every half minute" in trouble.what

        token.write_text("secret")
        await until(lambda: receiver.events)
        assert run.reloader.status.refused == ""


async def test_a_mistake_in_the_file_is_not_tried_again(tmp_path: Path) -> None:
    async with reloading(tmp_path) as run:
        token = str(tmp_path / "token")
        hook = {"type": "webhook", "url": "https://127.0.0.1:1", "bearer_token_file": token, "data": "object..name"}
        run.write_sinks(hook=hook)
        assert len((await run.reload()).problems) == 2
        assert not run.reloader.status.tried_again


async def test_an_end_during_a_reload_is_polite(tmp_path: Path, receiver: WebhookReceiver) -> None:
    """The reload waits for a record in flight, whose answer never comes."""
    stuck = asyncio.Event()
    receiver.answer = lambda _: Answer(wait=stuck)
    hook = {"type": "webhook", "url": receiver.url}
    async with reloading(tmp_path, sinks={"hook": hook}, shutdown_grace_seconds="200ms") as run:
        run.cluster.create("configmaps", a_config_map("a"))
        await until(lambda: run.bridge.status().sinks[0].state is SinkState.DELIVERING)
        run.write(sinks={"hook": {**hook, "window": 7}})
        async with asyncio.TaskGroup() as tasks:
            reload = tasks.create_task(_given_up(run))
            await asyncio.sleep(0)
            run.bridge.stop()
        stuck.set()
    assert "the bridge ends" in reload.result()


async def _given_up(run: Reloading) -> str:
    with pytest.raises(UnknownTarget) as given_up:
        await run.reload()
    return str(given_up.value)
