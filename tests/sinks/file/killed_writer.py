"""A sink that is killed at every step of a rotation in turn: ``main(FOLDER)``, or ``main(FOLDER, "retaining")``.

Each fork writes to a folder of its own, and ends by SIGKILL right before step n: before a file is opened for writing,
forced onto the disk, renamed or removed, and within a compression. ``acknowledged`` in the folder has the number of the
last record of each acknowledged batch. The last fork ends by itself.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
from pathlib import Path
from typing import Any

from kubedelta_reader.sources.parts import parts_of

from sinks.base import ALL_STORED, SinkContext
from sinks.file import closed_parts
from sinks.file.options import FileOptions
from sinks.file.sink import FileSink
from tests.kit.records import changes

BATCH = 20
ROTATION = {"bytes": 8192}
RETAINING = {"bytes": 8192, "retain_parts": 1}
_STEPS = {"os.rename", "os.remove"}


def kill_before(last: int) -> None:
    steps = itertools.count(1)

    def step() -> None:
        if next(steps) == last:
            os.kill(os.getpid(), signal.SIGKILL)

    def audit(event: str, arguments: Any) -> None:
        if event in _STEPS or (event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_CREAT):
            step()

    fsync, chunk = os.fsync, closed_parts.ClosedParts._chunk

    def counted_fsync(fd: int) -> None:
        step()
        fsync(fd)

    def counted_chunk(self: Any, source: Any) -> bytes:
        step()
        return chunk(self, source)

    setattr(os, "fsync", counted_fsync)  # noqa: B010
    setattr(closed_parts, "_CHUNK", 3000)  # noqa: B010
    setattr(closed_parts.ClosedParts, "_chunk", counted_chunk)  # noqa: B010
    sys.addaudithook(audit)


async def write(folder: Path, last_step: int, rotation: dict[str, int]) -> None:
    path = folder / "deltas.ndjson"
    sink = FileSink("copy", FileOptions.model_validate({"path": path, "rotation": rotation}), cluster="prod")
    acknowledged = os.open(folder / "acknowledged", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    kill_before(last_step)
    await sink.open(SinkContext())
    for start in range(1, 4 * BATCH, BATCH):
        assert await sink.deliver(changes(BATCH, first=start)) == ALL_STORED
        os.write(acknowledged, b"%d\n" % (start + BATCH - 1))
        while _is_at_work(path, rotation):  # noqa: ASYNC110 (another thread's work)
            await asyncio.sleep(0.001)
    await sink.close()


def _is_at_work(path: Path, rotation: dict[str, int]) -> bool:
    parts = parts_of(path)
    return len(parts) > rotation.get("retain_parts", len(parts)) or any(not part.packed for part in parts)


def main(folder: str, how: str = "") -> None:
    for last_step in itertools.count(1):
        mine = Path(folder) / f"{last_step:03d}"
        mine.mkdir()
        if not (child := os.fork()):
            asyncio.run(write(mine, last_step, RETAINING if how else ROTATION))
            os._exit(0)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
            return
