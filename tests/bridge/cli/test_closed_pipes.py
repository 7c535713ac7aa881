"""Whoever reads only the beginning of what a command prints has had enough: nothing else is said. An output that cannot
be written is."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from bridge.model.policies import StartPolicy
from bridge.outbox import Outbox
from bridge.telemetry.facts import discard
from tests.kit.configurations import a_config
from tests.kit.deadlines import BUSY
from tests.kit.fork_server import fork_server


def read_no_further(*words: str, lines: int = 0) -> tuple[int, str]:
    """Exit code and standard error where the reader leaves after so many lines."""
    with TemporaryFile() as errors:
        reading, writing = os.pipe()
        process = fork_server().start(words, writing, errors.fileno())
        os.close(writing)
        with os.fdopen(reading, "rb") as out:
            for _ in range(lines):
                out.readline()
        code = process.wait(60 * BUSY)
        errors.seek(0)
        return code, errors.read().decode()


@pytest.mark.parametrize("lines", [0, 1])
def test_a_demo_ends_quietly(lines: int) -> None:
    assert read_no_further("demo", lines=lines) == (0, "")


@pytest.mark.parametrize(
    "words", ["--help", "--version", "schema", "schema --reference", "sinks"], ids=lambda words: words
)
def test_a_command_ends_quietly(words: str) -> None:
    assert read_no_further(*words.split()) == (0, "")


@pytest.mark.parametrize("words", ["cursors", "dead-letters list", "state check", "check --offline"])
async def test_a_command_that_looks_at_the_state_ends_quietly(tmp_path: Path, words: str) -> None:
    path = a_config(tmp_path)
    async with await Outbox.open(tmp_path / "state", {"copy": StartPolicy.NOW}, report=discard):
        pass
    assert await asyncio.to_thread(read_no_further, *words.split(), "-c", str(path)) == (0, "")


@pytest.mark.parametrize("words", ["schema", "sinks", "completion bash"])
def test_an_output_that_cannot_be_written_is_told_in_one_line(words: str) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    with TemporaryFile() as errors:
        process = fork_server().start(words.split(), full, errors.fileno())
        os.close(full)
        code = process.wait(60 * BUSY)
        errors.seek(0)
        assert (code, errors.read().decode()) == (69, "standard output: No space left on device\n")


def test_a_demo_with_an_impossible_rate_shows_the_real_rate() -> None:
    assert read_no_further("demo", "--rate", "10000", lines=51) == (0, "")
