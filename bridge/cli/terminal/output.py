"""Where commands print: standard output for the answer, standard error for why there is none.

Both go through one filter: a terminal obeys nothing that a stranger wrote.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from bridge.model.primitives.printable import escaped


def prepare_streams() -> None:
    """A terminal that cannot show a character gets its escape."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def say(text: str) -> None:
    """Raises BrokenPipeError where nobody reads any more."""
    print(escaped(text, keep="\n"))


def complain(text: object) -> None:
    with suppress(BrokenPipeError):
        print(escaped(str(text), keep="\n"), file=sys.stderr, flush=True)


def flush() -> None:
    """Before the process ends. Where nobody reads any more, the rest is thrown away: Python would complain of it."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()


def discard_output() -> None:
    """From here on standard output leads nowhere."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
