"""Says at the end of several runs of pytest what failed in them.

`KUBEDELTA_FAILURES` names a folder: `make test` runs its groups at once, and each prints pages before and after what
failed. A run that has failures, or does not end, leaves a file in it.

`KUBEDELTA_FAILED_ONCE` names a file: in `.ci/run` a test that fails runs once more (`--reruns 1`). A difference fails
twice; a test that passed the second time leaves its name and its failure.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

MOST = 6_000
"""Characters of one failure, from its end."""

REPORT = pytest.StashKey[Path]()
FAILED_ONCE = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    # Taken out of the environment: a pytest that a test starts may fail as it pleases.
    if folder := os.environ.pop("KUBEDELTA_FAILURES", None):
        config.stash[REPORT] = report = Path(folder) / f"{os.getpid()}"
        report.write_text(f"{_command(config)} did not end\n")
    if file := os.environ.pop("KUBEDELTA_FAILED_ONCE", None):
        config.stash[FAILED_ONCE] = Path(file)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config) -> None:
    stats = terminalreporter.stats
    failed = [*stats.get("failed", []), *stats.get("error", [])]
    if file := config.stash.get(FAILED_ONCE, None):
        twice = {each.nodeid for each in failed}
        once = [each for each in stats.get("rerun", []) if each.nodeid not in twice]
        with file.open("a") as lines:
            lines.writelines(f"FAILED ONCE, passed the second time: mend it: {_report_of(each)}" for each in once)
    if report := config.stash.get(REPORT, None):
        if exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            report.unlink()
        else:
            reports = "".join(f"\n=== {_report_of(each)}" for each in failed)
            report.write_text(f"{_command(config)} ended with {int(exitstatus)}, {len(failed)} failed\n{reports}")


def _command(config: pytest.Config) -> str:
    return shlex.join(["pytest", *map(str, config.invocation_params.args)])


def _report_of(failed: pytest.TestReport | pytest.CollectReport) -> str:
    text = "\n".join([failed.longreprtext, *(f"--- {title}\n{text}" for title, text in failed.sections)])
    return f"{failed.nodeid}\n{text[-MOST:]}\n"
