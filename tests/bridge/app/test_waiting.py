"""A reload that would have to wait is answered: before the first answer of the API server, and where the disk becomes
full while a change takes effect."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from bridge.app.live_change import Foreseen
from bridge.app.reloader import Reloader
from bridge.cli.settings import load_settings
from bridge.model.admin import DiskFull, ReloadRequest, UnknownTarget
from bridge.telemetry.facts import discard
from config.document import ConfigurationFile
from tests.kit.deadlines import BUSY

PLAIN = ReloadRequest()


@dataclass
class FillingRooms:
    """Rooms whose disk becomes full in the middle of a change, until ``room``. They are their own outbox and
    resources."""

    no_room: str = ""
    room: asyncio.Event = field(default_factory=asyncio.Event)
    applied: int = 0

    @property
    def outbox(self) -> FillingRooms:
        return self

    watched_resources = outbox

    async def wait_started(self) -> None:
        pass

    async def find_room(self) -> None:
        pass

    async def foresee(self, *_: Any) -> Foreseen:
        return Foreseen(None, {})  # type: ignore[arg-type]

    async def apply(self, *_: Any) -> None:
        self.no_room = "database or disk is full"
        await self.room.wait()
        self.no_room = ""
        self.applied += 1


async def test_a_change_that_a_full_disk_holds_up_is_answered(tmp_path: Path) -> None:
    path, rooms = tmp_path / "kubedelta.yaml", FillingRooms()
    reloader = a_reloader(path)
    write(path, "copy", "late")
    async with asyncio.timeout(30 * BUSY), asyncio.TaskGroup() as tasks:
        running = tasks.create_task(reloader.run(rooms))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        with pytest.raises(DiskFull, match="became full while a change took effect"):
            await reloader.reload(PLAIN)
        with pytest.raises(DiskFull):
            await reloader.reload(PLAIN)
        rooms.room.set()
        assert (await reloader.reload(PLAIN)).changes == []
        running.cancel()
    assert rooms.applied == 1
    assert (reloader.status.changed, reloader.status.unchanged) == (1, 1), "the second was never made"


async def test_a_command_before_the_first_answer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownTarget, match="first answer"):
        await a_reloader(tmp_path / "kubedelta.yaml").reload(PLAIN)


def a_reloader(path: Path) -> Reloader:
    """Of a file with the sink ``copy``."""
    write(path, "copy")
    load = partial(load_settings, path)
    return Reloader(ConfigurationFile(path), load(), load=load, use=lambda _: None, report=discard)


def write(path: Path, *sinks: str) -> None:
    files = {name: {"type": "file", "path": str(path.with_name(f"{name}.ndjson"))} for name in sinks}
    state = path.with_name("state")
    state.mkdir(exist_ok=True)
    config = {
        "cluster": {"name": "test", "server": "http://127.0.0.1:1"},
        "resources": ["pods"],
        "sinks": files,
        "state": {"directory": str(state)},
    }
    path.write_text(yaml.safe_dump(config))
