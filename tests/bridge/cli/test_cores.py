"""Objects, keys and credentials are not written into core dumps."""

from __future__ import annotations

import resource
import subprocess
import sys

SCRIPT = """
import resource
from bridge.cli import main
main([])
print(resource.getrlimit(resource.RLIMIT_CORE))
"""


def test_no_command_leaves_a_core_dump_even_through_a_pipe() -> None:
    """1 byte: with 0, Linux still feeds a core_pattern that is a pipe."""
    printed = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, check=True, text=True)

    assert printed.stdout.splitlines()[-1] == "(1, 1)"


def test_a_limit_that_is_tighter_stays() -> None:
    printed = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        check=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
    )

    assert printed.stdout.splitlines()[-1] == "(0, 0)"
