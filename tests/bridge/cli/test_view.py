from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from bridge.cli.demo import Screen
from bridge.model.change import Evidence, Op
from tests.kit.records import a_delta

HOSTILE = "\x1b[2J\x9b31m\u202egnp\u2028\x07\x7f"


async def test_nothing_that_a_terminal_would_obey_is_drawn() -> None:
    for on_terminal in (False, True):
        drawn = io.StringIO()
        console = Console(file=drawn, force_terminal=on_terminal, width=200, color_system=None)
        Screen(console, Path()).show(a_delta(key=HOSTILE, op=Op.ADDED, evidence=Evidence.LISTED))
        text = drawn.getvalue()
        assert "[2J" in text
        assert {letter for letter in text if not letter.isprintable()} <= {"\n"}
