"""Tokens that a command prints."""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path
from threading import Thread

import pytest

from sinks.base import WrongOption
from sinks.kafka.tokens import CommandTokens
from tests.kit.deadlines import BUSY

NOW = 1_800_000_000.0
"""Seconds since 1970."""


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


def tokens(*command: str, timeout: float = 30 * BUSY, clock: Clock | None = None) -> CommandTokens:
    return CommandTokens(command, timeout=timeout, extensions={"pool": "1"}, clock=clock or Clock())


def printing(text: str, *, then: str = "") -> CommandTokens:
    return tokens("sh", "-c", f"printf %s '{text}'; {then}")


def reason(source: CommandTokens) -> str:
    with pytest.raises(WrongOption) as wrong:
        source.read()
    assert source.error is wrong.value
    assert wrong.value.option == "token_command"
    return wrong.value.reason


@pytest.mark.parametrize(
    ("printed", "token"),
    [
        ('{"token": "t", "expires_at": "2027-01-15T08:00:10Z"}', ("t", NOW + 10, "")),
        ('{"token": "t", "expires_at": "2027-01-15T09:00:10+01:00"}', ("t", NOW + 10, "")),
        ('{"token": "t", "expires_at": 1800000010}', ("t", NOW + 10, "")),
        ('{"access_token": "t", "expires_in": 60, "token_type": "Bearer"}', ("t", NOW + 60, "")),
        ('{"token": "t", "expires_in": 60, "principal": "me"}\n', ("t", NOW + 60, "me")),
    ],
)
def test_a_token_and_its_end_are_read(printed: str, token: tuple[str, float, str]) -> None:
    assert printing(printed).read() == (*token, {"pool": "1"})


@pytest.mark.parametrize(
    ("printed", "complaint"),
    [
        ("", "printed no JSON object"),
        ("hush", "printed no JSON object"),
        ('["hush"]', "printed no JSON object"),
        ('{"token": "hush"', "printed no JSON object"),
        ("[" * 50_000, "printed no JSON object"),
        ('{"expires_in": 60}', "printed no token"),
        ('{"token": "hush\\n", "expires_in": 60}', "printed no token"),
        ('{"token": "hush"}', "printed no end of the token"),
        ('{"token": "hush", "expires_at": "2027-01-15T08:00:10"}', "printed no end of the token"),
        ('{"token": "hush", "expires_in": 0}', "printed a token that has ended 0 s ago"),
        ('{"token": "hush", "expires_at": "2027-01-15T07:59:00Z"}', "printed a token that has ended 60 s ago"),
    ],
)
def test_what_is_no_token_is_named_and_not_repeated(printed: str, complaint: str) -> None:
    found = reason(printing(printed))
    assert found.startswith(f"sh {complaint}")
    assert "hush" not in found


def test_a_command_runs_again_near_the_end_of_its_token(tmp_path: Path) -> None:
    clock = Clock()
    script = f"""echo run >> {tmp_path}/runs; echo '{{"token": "t", "expires_in": 100}}'"""
    source = tokens("sh", "-c", script, clock=clock)

    def runs() -> int:
        return len((tmp_path / "runs").read_text().splitlines())

    for _ in range(3):
        source.read()
    clock.now += 79
    source.refresh("")
    assert runs() == 1
    clock.now += 2
    assert source.read()[1] == NOW + 181
    assert runs() == 2


def test_threads_that_ask_at_once_share_a_run(tmp_path: Path) -> None:
    script = f"""echo run >> {tmp_path}/runs; sleep 0.2; echo '{{"token": "t", "expires_in": 100}}'"""
    source = tokens("sh", "-c", script)
    threads = [Thread(target=source.read) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (tmp_path / "runs").read_text() == "run\n"


def test_a_failed_run_leaves_its_words_to_the_debug_log(caplog: pytest.LogCaptureFixture) -> None:
    source = tokens("sh", "-c", "echo 'password: hush' >&2; exit 3")
    with caplog.at_level(logging.DEBUG, "kubedelta"):
        found = reason(source)

    assert found == "sh ended with 3; its standard error is logged at level debug"
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [("DEBUG", "sh: password: hush")]


def test_a_program_that_cannot_be_run_is_named(tmp_path: Path) -> None:
    assert reason(tokens(str(tmp_path / "none"))) == f"{tmp_path}/none cannot be run: No such file or directory"
    assert reason(tokens(str(tmp_path))) == f"{tmp_path} cannot be run: Permission denied"


def test_a_command_that_hangs_ends_with_its_children() -> None:
    began = time.monotonic()
    # The child keeps the pipes open.
    source = tokens("sh", "-c", "sleep 600 & echo $! >&2; sleep 600", timeout=0.3)

    assert reason(source) == "sh did not end within 0.3 s"
    assert time.monotonic() - began < 30 * BUSY


def test_a_command_that_prints_without_end_is_stopped() -> None:
    script = "import sys\nwhile True: sys.stdout.write('x' * 65536); sys.stderr.write('y' * 65536)"

    assert reason(tokens(sys.executable, "-c", script)) == f"{sys.executable} printed more than 64 KiB"
