"""What runs of pytest leave for the end of `make test` and of `.ci/run`."""

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
PASSES_LATER = "tries = []\n\ndef test_it():\n    tries.append(1)\n    assert len(tries) > 1\n"


def run(folder: Path, module: str, *arguments: str, **environment: Path) -> None:
    (folder / "test_case.py").write_text(module)
    command = [sys.executable, "-m", "pytest", "-p", "tests.kit.failures", "-c", os.devnull, *arguments, str(folder)]
    root = Path(__file__).parents[2]
    variables = os.environ | {name: str(path) for name, path in environment.items()}
    subprocess.run(command, cwd=root, env=variables, capture_output=True, timeout=60 * BUSY)


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
    (left := tmp_path / "failures").mkdir()
    run(tmp_path, module, KUBEDELTA_FAILURES=left)
    report = "".join(each.read_text() for each in left.iterdir())
    assert [text for text in expected if text not in report] == []
    assert bool(report) == bool(expected)


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (PASSES_LATER, ["FAILED ONCE, passed the second time: mend it: test_case.py::test_it\n", "assert 1 > 1"]),
        (FAILS, []),
        ("def test_it(): pass\n", []),
    ],
    ids=["it passes later", "it fails twice", "all is well"],
)
def test_a_test_that_passes_the_second_time_is_named(module: str, expected: list[str], tmp_path: Path) -> None:
    (left := tmp_path / "failed-once").touch()
    run(tmp_path, module, "--rootdir", str(tmp_path), "--reruns", "1", KUBEDELTA_FAILED_ONCE=left)
    report = left.read_text()
    assert [text for text in expected if text not in report] == []
    assert bool(report) == bool(expected)
