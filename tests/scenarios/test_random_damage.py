"""500 seeds of damage to the state of a real bridge: none ends in a loop of starts that fail."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

import pytest

from bridge.outbox.integrity import find_damage
from bridge.outbox.storage.directory_lock import FILE
from bridge.playground import Playground
from bridge.playground.manifests import config_map
from tests.cluster.servers.process import ServerFailed
from tests.kit.bridge_process import BridgeProcess
from tests.kit.damage import harm
from tests.kit.received import Received, ReceivedGap, from_file

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


def a_bridge(folder: Path, server: str) -> BridgeProcess:
    return BridgeProcess(
        folder,
        {
            "cluster": {"name": "test", "server": server},
            "resources": ["configmaps"],
            "sinks": {"copy": {"type": "file", "path": str(folder / "deltas.ndjson"), "fsync": "never"}},
        },
    )


async def _has_received(bridge: BridgeProcess, value: str) -> bool:
    """Whether the sink hears of the newest change before the process ends."""

    def is_there(_: object) -> bool:
        found = reversed(from_file(bridge.folder / "deltas.ndjson"))
        return any(isinstance(each, Received) and each.data["data"]["value"] == value for each in found)

    try:
        await bridge.until("it exports records", is_there)
    except ServerFailed:
        return False
    return True


async def _states(folder: Path, cluster: Playground) -> dict[str, Path]:
    """What a bridge leaves that ended politely, and one that was killed."""
    bridge = a_bridge(folder, cluster.url)
    found = {}
    for name, end in (("ended", bridge.stop), ("killed", bridge.kill9)):
        bridge.launch()
        for number in range(OBJECTS):
            cluster.patch("configmaps", f"web-{number}", {"data": {"value": name}})
        assert await _has_received(bridge, name), bridge.log_tail()
        await asyncio.to_thread(end)
        found[name] = folder / name
        shutil.copytree(bridge.state, found[name], ignore=shutil.ignore_patterns("admin.sock"))
    return found


async def _live(bridge: BridgeProcess, cluster: Playground, state: Path, seed: int) -> Story:
    """Damage it, and start it until it runs, exports changes and ends politely; three times at most."""
    shutil.rmtree(bridge.state)
    shutil.copytree(state, bridge.state)
    deltas = bridge.folder / "deltas.ndjson"
    deltas.unlink(missing_ok=True)
    story = Story(await asyncio.to_thread(harm, bridge.state, seed))
    while len(story.codes) < 3 and OK not in story.codes:
        value = f"{seed}-{len(story.codes)}"
        bridge.launch()
        cluster.patch("configmaps", f"web-{seed % OBJECTS}", {"data": {"value": value}})
        if await _has_received(bridge, value):
            os.kill(bridge.pid, signal.SIGTERM)
        story.codes.append(await asyncio.to_thread(bridge.wait))
    story.left = await asyncio.to_thread(find_damage, bridge.state / FILE)
    story.anew = any(bridge.state.glob("*.aside")) or any(
        isinstance(each, ReceivedGap) for each in from_file(deltas)[:1]
    )
    return story


@pytest.mark.soak
@pytest.mark.timeout(3600)
async def test_whatever_the_damage_a_bridge_runs_at_the_second_start(tmp_path: Path) -> None:
    stories: list[Story] = []
    began = monotonic()
    async with Playground() as cluster:
        for number in range(OBJECTS):
            cluster.create("configmaps", config_map(f"web-{number}", {"value": "first", "padding": "x" * 1500}))
        states = await _states(tmp_path / "base", cluster)
        seeds = iter(range(SEEDS))

        async def live(bridge: BridgeProcess) -> None:
            for seed in seeds:
                stories.append(await _live(bridge, cluster, states["ended" if seed % 2 else "killed"], seed))

        bridges = [a_bridge(tmp_path / str(number), cluster.url) for number in range(AT_ONCE)]
        try:
            async with asyncio.TaskGroup() as tasks:
                for bridge in bridges:
                    tasks.create_task(live(bridge))
        finally:
            for bridge in bridges:
                bridge.kill9()

    ways = Counter((tuple(story.codes), story.anew, bool(story.left)) for story in stories)
    print(f"\n{len(stories)} seeds in {monotonic() - began:.0f} s: exit codes of the starts, and how often")
    for (codes, anew, left), count in ways.most_common():
        what = "began anew behind a Gap" if anew else "nothing to notice"
        what = "not noticed yet: it is in what nobody has read" if left else what
        print(f"{count:5}  {' then '.join(map(str, codes)):<12} {what}")
    wrong = [story for story in stories if story.codes not in ([OK], [DAMAGED, OK])]
    assert not wrong, wrong
