"""Says at the end of `make test` what failed: the groups run at once, and each prints pages before and after it.

`KUBEDELTA_FAILURES` names an existing folder. A run of pytest that has failures, or does not end, leaves a file in it.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

MOST = 6_000
"""Characters of one failure, from its end."""

REPORT = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    # Taken out of the environment: a pytest that a test starts may fail as it pleases.
    if folder := os.environ.pop("KUBEDELTA_FAILURES", None):
        config.stash[REPORT] = report = Path(folder) / f"{os.getpid()}"
        report.write_text(f"{_command(config)} did not end\n")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config) -> None:
    if (report := config.stash.get(REPORT, None)) is None:
        return
    failed = [each for kind in ("failed", "error") for each in terminalreporter.stats.get(kind, [])]
    if exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        report.unlink()
    else:
        reports = "".join(_report_of(each) for each in failed)
        report.write_text(f"{_command(config)} ended with {int(exitstatus)}, {len(failed)} failed\n{reports}")


def _command(config: pytest.Config) -> str:
    return shlex.join(["pytest", *map(str, config.invocation_params.args)])


def _report_of(failed: pytest.TestReport | pytest.CollectReport) -> str:
    text = "\n".join([failed.longreprtext, *(f"--- {title}\n{text}" for title, text in failed.sections)])
    return f"\n=== {failed.nodeid}\n{text[-MOST:]}\n"
