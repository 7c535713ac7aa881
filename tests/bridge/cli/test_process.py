"""What a command does to its process: no core dumps, and memory that goes back to the system."""

from __future__ import annotations

import platform
import resource
import subprocess
import sys
from functools import partial

import pytest

CORES = """
import resource
from bridge.cli import main
main([])
print(resource.getrlimit(resource.RLIMIT_CORE))
"""


@pytest.mark.parametrize(("before", "after"), [(None, "(1, 1)"), ((0, 0), "(0, 0)")])
def test_no_command_leaves_a_core_dump_even_through_a_pipe(before: tuple[int, int] | None, after: str) -> None:
    """1 byte: with 0, Linux still feeds a core_pattern that is a pipe. A limit that is tighter stays."""
    printed = subprocess.run(
        [sys.executable, "-c", CORES],
        capture_output=True,
        check=True,
        text=True,
        preexec_fn=None if before is None else partial(resource.setrlimit, resource.RLIMIT_CORE, before),
    )
    assert printed.stdout.splitlines()[-1] == after


MEMORY = """
import sys
from pathlib import Path
from bridge.cli.process import tune_memory

def held() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

if sys.argv[1] == "tuned":
    tune_memory()
for _ in range(2):
    large, small = [], []  # Ten megabytes stay.
    before = held()
    for _ in range(100):
        large.append(b"x" * (1 << 20))
        small.append(b"x" * 100_000)
    del large
    print(held() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no mallopt")
def test_memory_of_large_objects_goes_back_to_the_system() -> None:
    """Also in the second round, in which glibc by itself would take them from the heap."""
    printed = {
        how: subprocess.run([sys.executable, "-c", MEMORY, how], capture_output=True, check=True, text=True).stdout
        for how in ("tuned", "by itself")
    }

    assert int(printed["tuned"].split()[1]) < 20 << 20
    assert int(printed["by itself"].split()[1]) > 50 << 20
