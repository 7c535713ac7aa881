"""The command line, with and without a process: what it prints and how it ends."""

from __future__ import annotations

import asyncio
import importlib
import os
import pkgutil
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import pytest

import bridge.cli
from bridge.cli import main
from bridge.cli.exits import Exit
from bridge.model.record import Record
from tests.kit.commands import Ended
from tests.sinks.file.test_reading_for_verify import write

# A command imports its module when it is first used. What a test has patched would stay in a module that is imported
# meanwhile.
for module in pkgutil.iter_modules(bridge.cli.__path__, "bridge.cli."):
    importlib.import_module(module.name)

Command: TypeAlias = Callable[..., Awaitable[Ended]]
"""Takes the words of a command line."""
BuildHistory: TypeAlias = Callable[[Sequence[Record]], Awaitable[Ended]]
"""Makes ``k8s.db`` in the folder of the test, which commands ask by default, of these records of a file sink."""


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("KUBEDELTA_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command line in a thread, beside the servers of the test. A test starts a process (``in_a_process``) where
    signals, closed pipes or the end of the process matter."""

    async def run(*words: str) -> Ended:
        code = await asyncio.to_thread(main, words)
        return Ended(code, *capsys.readouterr())

    return run


@pytest.fixture
def build_history(tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> BuildHistory:
    async def build(records: Sequence[Record]) -> Ended:
        await write(tmp_path / "deltas.ndjson", records)
        monkeypatch.setenv("KUBEDELTA_HISTORY", str(tmp_path / "k8s.db"))
        ended = await command("history", "build", "--from", str(tmp_path / "deltas.ndjson"))
        assert ended.code == Exit.OK, ended.err
        return ended

    return build
