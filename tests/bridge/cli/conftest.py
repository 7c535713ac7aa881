"""The command line, with and without a process: what it prints and how it ends."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from tempfile import TemporaryFile
from typing import NamedTuple, TypeAlias

import pytest

from bridge.cli import main
from tests.kit.deadlines import BUSY
from tests.kit.fork_server import fork_server


class Ended(NamedTuple):
    code: int
    out: str
    err: str


def in_a_process(*words: str) -> Ended:
    """Runs a command line in a process of its own, to its end."""
    with TemporaryFile() as out, TemporaryFile() as err:
        code = fork_server().start(words, out.fileno(), err.fileno()).wait(60 * BUSY)
        out.seek(0)
        err.seek(0)
        return Ended(code, out.read().decode(), err.read().decode())


Command: TypeAlias = Callable[..., Awaitable[Ended]]
"""Takes the words of a command line."""


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("KUBEDELTA__")]:
        monkeypatch.delenv(name)


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command line in a thread, beside the servers of the test. A test starts a process (``in_a_process``) where
    signals, closed pipes or the end of the process matter."""

    async def run(*words: str) -> Ended:
        code = await asyncio.to_thread(main, words)
        return Ended(code, *capsys.readouterr())

    return run
