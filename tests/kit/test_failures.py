"""What a run of pytest leaves for the end of `make test`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.deadlines import BUSY

FAILS = "import sys\n\ndef test_it():\n    print('the broker said no')\n    assert 2 == 3\n\ndef test_other(): pass\n"
DIES = "import os\n\ndef test_it():\n    os._exit(3)\n"
OUTER = "import os\n\ndef test_it():\n    assert 'KUBEDELTA_FAILURES' not in os.environ\n"


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (FAILS, ["ended with 1, 1 failed", "test_case.py::test_it", "assert 2 == 3", "the broker said no"]),
        ("import nothing_of_this_name\n", ["ended with 2, 1 failed", "No module named 'nothing_of_this_name'"]),
        (DIES, ["did not end"]),
        (OUTER, []),
    ],
    ids=["a test fails", "a module cannot be imported", "the process dies", "all is well"],
)
def test_a_run_leaves_what_failed(module: str, expected: list[str], tmp_path: Path) -> None:
    (tmp_path / "test_case.py").write_text(module)
    (left := tmp_path / "failures").mkdir()
    command = [sys.executable, "-m", "pytest", "-p", "tests.kit.failures", "-c", os.devnull, str(tmp_path)]
    environment = os.environ | {"KUBEDELTA_FAILURES": str(left)}
    root = Path(__file__).parents[2]
    subprocess.run(command, cwd=root, env=environment, capture_output=True, timeout=60 * BUSY)
    report = "".join(each.read_text() for each in left.iterdir())
    assert [text for text in expected if text not in report] == []
    assert bool(report) == bool(expected)
