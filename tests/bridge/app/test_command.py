"""``kubedelta reload`` and ``status`` beside a bridge: what took effect, what is refused, and what fails since."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bridge.cli import main
from bridge.cli.exits import Exit
from tests.bridge.app.reloading import Reloading, reloading
from tests.cluster.servers.ports import reserve_port
from tests.kit.commands import Ended
from tests.kit.deadlines import until


async def kubedelta(run: Reloading, capsys: pytest.CaptureFixture[str], *words: str) -> Ended:
    code = await asyncio.to_thread(main, [*words, "-c", str(run.file)])
    return Ended(code, *capsys.readouterr())


async def test_a_resource_without_rights_fails_a_reload(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with reloading(tmp_path) as run:
        run.cluster.misbehave.forbid("secrets")
        run.write(resources=[*run.sections["resources"], "secrets", "pods"])
        code, out, err = await kubedelta(run, capsys, "reload")
        assert code == Exit.NO
        assert out.splitlines() == ["resources: added: secrets, pods", f"{run.file} is in effect"]
        assert "fails since: resources.secrets: the API server refuses the bridge" in err
        assert "pods" not in err

        code, out, _ = await kubedelta(run, capsys, "status")
        assert code == Exit.NO
        assert "resources.secrets: the API server refuses the bridge" in out
        assert f"kubedelta check -c {run.file}" in out


async def test_a_destination_that_is_away_fails_a_reload(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with reloading(tmp_path) as run:
        run.cluster.create("configmaps", {"metadata": {"name": "a", "namespace": "default"}})
        await until(lambda: run.bridge.status().sinks[0].delivered)
        run.write_sinks(hook={"type": "webhook", "url": f"http://127.0.0.1:{reserve_port()}/"})
        code, out, err = await kubedelta(run, capsys, "reload")
        assert "sinks.hook: added" in out
        assert code == Exit.NO
        assert "fails since: sinks.hook: deliveries fail" in err


@pytest.mark.parametrize("mistake", ["x: 1\n", "sinks: [\n"])
async def test_a_typo_is_refused_and_the_former_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], mistake: str
) -> None:
    async with reloading(tmp_path) as run:
        with run.file.open("a") as file:
            file.write(mistake)
        code, out, err = await kubedelta(run, capsys, "reload")
        assert (code, out) == (Exit.NO, "")
        assert err.startswith("refused; the former configuration stays in effect:\n")
        assert "kubedelta.yaml:" in err
        code, out, _ = await kubedelta(run, capsys, "status")
        assert code == Exit.NO
        assert out.count("configuration: ") == 1, "the bridge has refused it"


async def test_a_reload_that_works_is_0_and_status_agrees(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with reloading(tmp_path) as run:
        run.write_sinks(late=run.to_file("late"))
        assert (await kubedelta(run, capsys, "status")).out.count("is not in effect yet") == 1
        code, out, err = await kubedelta(run, capsys, "reload")
        assert (code, err) == (Exit.OK, "")
        assert out.splitlines() == ["sinks.late: added", f"{run.file} is in effect"]
        found = await kubedelta(run, capsys, "status")
        assert found.code == Exit.OK, found.out
