"""The command line, with and without a process: what it prints and how it ends."""

from __future__ import annotations

import asyncio
import importlib
import os
import pkgutil
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import pytest

import bridge.cli
from bridge.cli import main
from tests.kit.commands import Ended

# A command imports its module when it is first used. What a test has patched would stay in a module that is imported
# meanwhile.
for module in pkgutil.iter_modules(bridge.cli.__path__, "bridge.cli."):
    importlib.import_module(module.name)

Command: TypeAlias = Callable[..., Awaitable[Ended]]
"""Takes the words of a command line."""


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
