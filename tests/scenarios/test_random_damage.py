"""500 seeds of damage to the state of a real bridge: none ends in a loop of starts that fail."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
import yaml

from bridge.outbox.integrity import find_damage
from bridge.outbox.storage.directory_lock import FILE
from bridge.playground import Playground
from tests.kit.damage import harm

OK, DAMAGED = 0, 74
OBJECTS = 60
AT_ONCE = 3
SEEDS = int(os.environ.get("SEEDS", "500"))


@dataclass(slots=True)
class Story:
    """What one seed led to."""

    what: str
    codes: list[int] = field(default_factory=list)
    """Exit codes of all starts, in order."""
    anew: bool = False
    left: str = ""
    """Damage that is there afterwards all the same: nobody has read that page yet."""


def _run(config: Path, log: Path) -> None:
    """``kubedelta run``, in a process that has imported everything already."""
    from bridge.cli import main

    with log.open("a") as said:
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
    signal.set_wakeup_fd(-1)
    sys.exit(main(["run", "-c", str(config)]))


class Bridge:
    """Its folder, and the processes that run on it one after the other. They are forked by one that has imported the
    bridge: starting one takes a tenth of what it takes with a fresh interpreter."""

    _forks = multiprocessing.get_context("forkserver")
    _forks.set_forkserver_preload(["bridge.cli.check", "sinks.file.sink", "bridge.app.bridge"])

    def __init__(self, folder: Path, server: str) -> None:
        self.folder = folder
        self.state = folder / "state"
        self.config = folder / "kubedelta.yaml"
        self.config.write_text(
            yaml.safe_dump(
                {
                    "cluster": {"name": "test", "server": server},
                    "resources": ["configmaps"],
                    "state": {"directory": str(self.state)},
                    "sinks": {"copy": {"type": "file", "path": str(folder / "deltas.ndjson"), "fsync": "never"}},
                    "telemetry": {"listen": "127.0.0.1:0"},
                }
            )
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[multiprocessing.process.BaseProcess]:
        process = self._forks.Process(target=_run, args=(self.config, self.folder / "log"))
        process.start()
        try:
            yield process
        finally:
            process.kill()
            await asyncio.to_thread(process.join)

    def delivered(self) -> list[dict[str, Any]]:
        file = self.folder / "deltas.ndjson"
        whole = file.read_text().rpartition("\n")[0] if file.exists() else ""
        return [json.loads(line) for line in whole.splitlines()]

    def log(self) -> str:
        return (self.folder / "log").read_text()


async def _until_received(bridge: Bridge, process: multiprocessing.process.BaseProcess, value: str) -> bool:
    """Whether the sink hears of the newest change before the process ends."""
    give_up = monotonic() + 60
    while process.is_alive():
        for each in reversed(bridge.delivered()):
            if each.get("data", {}).get("data", {}).get("value") == value:
                return True
        assert monotonic() < give_up, f"it runs and exports no records\n{bridge.log()[-2000:]}"
        await asyncio.sleep(0.02)
    return False


def _config_map(name: str, value: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default"}, "data": {"value": value, "padding": "x" * 1500}}


@asynccontextmanager
async def _states(folder: Path, cluster: Playground) -> AsyncIterator[dict[str, Path]]:
    """What a bridge leaves that ended politely, and one that was killed."""
    bridge = Bridge(folder, cluster.url)
    bridge.state.mkdir()
    found = {}
    for name, end in (("ended", signal.SIGTERM), ("killed", signal.SIGKILL)):
        async with bridge.running() as process:
            for number in range(OBJECTS):
                cluster.patch("configmaps", f"web-{number}", {"data": {"value": name}})
            assert await _until_received(bridge, process, name), bridge.log()
            os.kill(process.pid or 0, end)
            await asyncio.to_thread(process.join)
        found[name] = folder / name
        shutil.copytree(bridge.state, found[name], ignore=shutil.ignore_patterns("admin.sock"))
    yield found


async def _live(folder: Path, cluster: Playground, state: Path, seed: int) -> Story:
    """Damage it, and start it until it runs, exports changes and ends politely; three times at most."""
    bridge = Bridge(folder, cluster.url)
    shutil.copytree(state, bridge.state)
    story = Story(await asyncio.to_thread(harm, bridge.state, seed))
    while len(story.codes) < 3 and OK not in story.codes:
        value = f"{seed}-{len(story.codes)}"
        async with bridge.running() as process:
            cluster.patch("configmaps", f"web-{seed % OBJECTS}", {"data": {"value": value}})
            if await _until_received(bridge, process, value):
                process.terminate()
            await asyncio.to_thread(process.join, 30)
            story.codes.append(-1 if process.exitcode is None else process.exitcode)
    story.left = await asyncio.to_thread(find_damage, bridge.state / FILE)
    story.anew = any(bridge.state.glob("*.aside")) or '"kubedelta.gap.v1"' in str(bridge.delivered()[:1])
    return story


@pytest.mark.soak
@pytest.mark.timeout(3600)
async def test_whatever_the_damage_a_bridge_runs_at_the_second_start(tmp_path: Path) -> None:
    stories: list[Story] = []
    began = monotonic()
    async with Playground() as cluster:
        for number in range(OBJECTS):
            cluster.create("configmaps", _config_map(f"web-{number}", "first"))
        (tmp_path / "base").mkdir()
        async with _states(tmp_path / "base", cluster) as states:
            turns = asyncio.Semaphore(AT_ONCE)

            async def one(seed: int) -> None:
                async with turns:
                    folder = tmp_path / str(seed)
                    folder.mkdir()
                    state = states["ended" if seed % 2 else "killed"]
                    stories.append(await _live(folder, cluster, state, seed))
                    shutil.rmtree(folder)

            async with asyncio.TaskGroup() as tasks:
                for seed in range(SEEDS):
                    tasks.create_task(one(seed))

    ways = Counter((tuple(story.codes), story.anew, bool(story.left)) for story in stories)
    print(f"\n{len(stories)} seeds in {monotonic() - began:.0f} s: exit codes of the starts, and how often")
    for (codes, anew, left), count in ways.most_common():
        what = "began anew behind a Gap" if anew else "nothing to notice"
        what = "not noticed yet: it is in what nobody has read" if left else what
        print(f"{count:5}  {' then '.join(map(str, codes)):<12} {what}")
    wrong = [story for story in stories if story.codes not in ([OK], [DAMAGED, OK])]
    assert not wrong, wrong
