"""Output of commands: results on standard output, errors on standard error.

Both are escaped, so that text from strangers cannot control the terminal.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from bridge.model.primitives.printable import escaped


def prepare_streams() -> None:
    """Escapes characters that the terminal's encoding does not have."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def say(text: str) -> None:
    """Prints to standard output. Raises BrokenPipeError if the reader closed the pipe."""
    print(escaped(text, keep="\n"))


def say_escaped(text: str) -> None:
    """Prints a text whose parts were escaped, and then coloured. Raises BrokenPipeError as ``say`` does."""
    print(text)


def complain(text: object) -> None:
    """Prints to standard error."""
    with suppress(BrokenPipeError):
        print(escaped(str(text), keep="\n"), file=sys.stderr, flush=True)


def flush() -> None:
    """Flushes standard output before the process ends. With a closed pipe the rest is discarded, since Python would
    print an error at exit."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()


def discard_output() -> None:
    """Redirects standard output to /dev/null."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
