"""What large objects took goes back to the system."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

SCRIPT = """
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
        how: subprocess.run([sys.executable, "-c", SCRIPT, how], capture_output=True, check=True, text=True).stdout
        for how in ("tuned", "by itself")
    }

    assert int(printed["tuned"].split()[1]) < 20 << 20
    assert int(printed["by itself"].split()[1]) > 50 << 20
