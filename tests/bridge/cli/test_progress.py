"""Progress on the terminal: what it says, and where it does not."""

from __future__ import annotations

import asyncio
import io
import os
from pathlib import Path
from typing import Any

import pytest

from bridge.cli import admin_access as waiting
from bridge.cli.exits import Exit
from bridge.cli.run import show_first_lists
from bridge.cli.terminal import ProgressLine, progress, progress_text
from bridge.model.admin import UnknownTarget
from bridge.model.status import BridgeStatus, InformerState, InformerStatus, SinkState, SinkStatus
from tests.bridge.cli.conftest import Command
from tests.bridge.cli.test_verify import AT_ONCE, a_delta, cluster, config_map, write
from tests.kit.configurations import a_config
from tests.kit.fake_admin import FakeAdmin
from tests.kit.playground import Playground

__all__ = ["cluster"]


class Terminal(io.StringIO):
    """Remembers what is written. A terminal, unless a test says that it ``is_one`` no more."""

    is_one = True

    def isatty(self) -> bool:
        return self.is_one

    def lines(self) -> list[str]:
        """The bottom line, each time that it was drawn."""
        return [part for part in self.getvalue().split("\r\x1b[2K") if part]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    # Not sys.stderr itself, which pytest replaces once more before the test.
    monkeypatch.setattr("bridge.cli.terminal.ProgressLine", lambda _: ProgressLine(stream))
    return stream


@pytest.mark.parametrize(
    ("done", "total", "seconds", "text"),
    [
        (0, None, 3.0, "read  3s"),
        (1234, None, 0.5, "read  1,234"),
        (1000, None, 10.0, "read  1,000  100/s"),
        (500, 2000, 10.0, f"read  {'━' * 5}{'╌' * 15}   25%  500 of 2,000  50/s  30s left"),
        (2000, 2000, 10.0, f"read  {'━' * 20}  100%  2,000 of 2,000  200/s"),
        (2100, 2000, 10.0, f"read  {'━' * 20}  100%  2,100 of 2,000  210/s"),
    ],
)
def test_a_bar_has_its_rate_and_the_time_that_is_left(done: int, total: int | None, seconds: float, text: str) -> None:
    assert progress_text("read", done, total, seconds) == text


def test_the_line_is_drawn_not_too_often_and_goes_at_the_end() -> None:
    now = 0.0
    stream = Terminal()
    line = ProgressLine(stream, clock=lambda: now)
    for step in range(100):
        now = step / 100
        line.show("read", step)
    line.show("another", 1)
    assert len(stream.lines()) == 11
    line.clear()
    assert stream.getvalue().endswith("\r\x1b[2K")


def test_lines_of_the_log_stand_above() -> None:
    stream = Terminal()
    line = ProgressLine(stream)
    line.show("read", 1)
    line.write("a line of the log\n")
    line.write("another\n")
    assert stream.getvalue() == "\r\x1b[2Kread  1\r\x1b[2Ka line of the log\nanother\n"


def test_names_cannot_control_the_terminal() -> None:
    stream = Terminal()
    ProgressLine(stream).show("\x1b]0;owned\x07\n", 1, note="\x9b31m")
    assert stream.lines()[0].isprintable()


def test_a_narrow_terminal_has_a_line_that_fits(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((20, 5)))
    monkeypatch.setattr(terminal, "fileno", lambda: 2)
    with progress() as line:
        line.show("records read", 10, 20)
    assert len(terminal.lines()[0]) == 19


@pytest.mark.parametrize("why", ["no terminal", "dumb", "quiet"])
def test_nothing_is_drawn_elsewhere(terminal: Terminal, monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    terminal.is_one = why != "no terminal"
    if why == "dumb":
        monkeypatch.setenv("TERM", "dumb")
    with progress(quiet=why == "quiet") as line:
        line.show("read", 1)
    assert terminal.getvalue() == ""


async def test_verify_shows_both_sides(
    command: Command, cluster: Playground, tmp_path: Path, terminal: Terminal
) -> None:
    await write(tmp_path, [a_delta(1, config_map(cluster, "web"))])
    path = a_config(tmp_path, cluster.url)
    assert (await command("verify", "copy", "-c", str(path), *AT_ONCE)).code == Exit.OK
    shown = terminal.getvalue()
    assert "records read  1" in shown
    assert "configmaps listed  1" in shown
    terminal.truncate(0)
    assert (await command("verify", "copy", "-c", str(path), "--json", *AT_ONCE)).code == Exit.OK
    assert terminal.getvalue() == ""


def a_snapshot(*states: InformerState, **sink: Any) -> BridgeStatus:
    informers = tuple(
        InformerStatus(
            resource=f"r{number}", scope="", state=state, synced=state is InformerState.LIVE, live=False, objects=10
        )
        for number, state in enumerate(states)
    )
    return BridgeStatus(informers=informers, sinks=(SinkStatus(name="hook", type="w", state=SinkState.IDLE, **sink),))


async def test_first_lists_are_shown_until_all_are_done(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.cli.run._LOOK_EVERY", 0.0)
    listing, live, refused = InformerState.LISTING, InformerState.LIVE, InformerState.REFUSED
    snapshots = iter([a_snapshot(), a_snapshot(listing, live, refused), a_snapshot(live, live, refused)])
    await show_first_lists(lambda: next(snapshots), ProgressLine(terminal))
    assert terminal.lines() == ["objects listed  20  1 of 2 resources"]


async def test_a_replay_is_waited_for(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_LOOK_EVERY", 0.0)
    admin, left = FakeAdmin(), iter([30, 10, 0])

    async def status() -> BridgeStatus:
        count = next(left)
        return a_snapshot(backfill="replay" if count else "", backfill_left=count)

    monkeypatch.setattr(admin, "status", status)
    await waiting.replayed(admin, "hook", 40, quiet=False)
    assert "hook: records delivered again" in terminal.getvalue()
    assert " 10 of 40" in terminal.getvalue()
    assert next(left, None) is None


async def test_the_time_is_shown_where_no_end_is_known(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_LOOK_EVERY", 0.0)
    with pytest.raises(UnknownTarget), waiting.elapsed("checking the state", quiet=False):  # noqa: PT012
        while not terminal.getvalue():  # noqa: ASYNC110  # nothing announces it
            await asyncio.sleep(0)
        raise UnknownTarget("as it is")
    assert terminal.lines() == ["checking the state  0s"]
