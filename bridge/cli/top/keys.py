"""Single keys of the terminal, without waiting for a line."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1bO.")
"""An arrow, or the like: no key of ours."""
_MOST = 64
"""Bytes of a read: a pasted text is no command."""


@contextmanager
def reading_keys(press: Callable[[str], None]) -> Iterator[None]:
    """Inside the context, ``press`` gets each key that is typed, on the event loop, and the terminal shows none.
    Without effect where standard input is no terminal, or belongs to another job."""
    try:
        descriptor = sys.stdin.fileno()
        before = termios.tcgetattr(descriptor)
    except (OSError, ValueError, termios.error):
        yield
        return
    if _in_background(descriptor):
        yield
        return
    loop = asyncio.get_running_loop()

    def read() -> None:
        typed = os.read(descriptor, _MOST)
        if not typed:
            loop.remove_reader(descriptor)
        for key in _SEQUENCE.sub("", typed.decode(errors="replace")):
            press(key)

    tty.setcbreak(descriptor)
    loop.add_reader(descriptor, read)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _in_background(descriptor: int) -> bool:
    """A change of the terminal would stop the process."""
    try:
        return os.tcgetpgrp(descriptor) != os.getpgrp()
    except OSError:  # It is no terminal of this session.
        return False
