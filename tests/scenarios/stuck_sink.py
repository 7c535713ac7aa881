"""A sink as another package would bring it, which takes one batch and never comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from bridge.model.record import Record
from sinks.base import Sink, SinkContext, SinkOptions, SinkType


class StuckOptions(SinkOptions):
    """Nothing can be set."""


class StuckSink:
    def __init__(self, name: str, options: StuckOptions, *, cluster: str) -> None:
        pass

    async def open(self, context: SinkContext) -> None:
        return

    async def deliver(self, batch: Sequence[Record]) -> NoReturn:
        await asyncio.Event().wait()
        raise AssertionError

    async def check(self) -> str:
        return "stuck"

    async def close(self) -> None:
        return


def _load() -> type[Sink]:
    return StuckSink


TYPE = SinkType("stuck", StuckOptions, _load, max_batch=100, summary="Never comes back")


def install(folder: Path) -> str:
    """Make of this module an installed package, as pip would leave it. Returns the PYTHONPATH that has it."""
    metadata = folder / "stuck_sink-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: stuck-sink\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[kubedelta.sinks]\nstuck = {__name__}:TYPE\n")
    repository = Path(__file__).parents[2]
    return f"{folder}:{repository}"
