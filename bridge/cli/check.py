"""``kubedelta check``: prints what is wrong with a configuration before it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from bridge.app.admin.client import running_on
from bridge.checks.check import check_all
from bridge.checks.findings import CheckResult, Finding, NoisyPath
from bridge.cli.exits import Exit
from bridge.cli.settings import load_settings
from bridge.cli.terminal import say, shortened, table
from bridge.model.primitives.printable import escaped
from bridge.plan.plan import Plan
from bridge.plan.plan_from_settings import plan_of
from bridge.plan.preflight import wrong_in_file

_LONGEST_PATH = 120
_EXIT_OF = {
    CheckResult.RIGHT: Exit.OK,
    CheckResult.NOTE: Exit.OK,
    CheckResult.UNREACHABLE: Exit.UNAVAILABLE,
    CheckResult.WRONG: Exit.CONFIG,
}


def check(path: Path, *, offline: bool, noise: float | None) -> int:
    """Checks the file, and unless ``offline`` the machine, the cluster and the sinks. Delivers no records. ``noise``:
    seconds for which updates are watched, to find their noise; None for none."""
    plan = plan_of(load_settings(path), path)
    if offline and (mistakes := wrong_in_file(plan)):
        for option, reason in mistakes:
            say(str(Finding(option, CheckResult.WRONG, reason)))
        return Exit.CONFIG
    say(f"{CheckResult.RIGHT:<11} {path}: every option is valid")
    return Exit.OK if offline else asyncio.run(_check(plan, noise))


async def _check(plan: Plan, noise: float | None) -> int:
    worst = Exit.OK
    async for finding in check_all(plan, await running_on(plan.state), noise=noise):
        say(str(finding))
        if finding.rows:
            say(table(("SINK", "OP", "RECORDS"), [(sink, op, str(count)) for sink, op, count in finding.rows]))
        if finding.noise:
            say(_noise_table(finding.noise))
        if finding.manifest:
            say(finding.manifest)
        worst = max(worst, _EXIT_OF[finding.verdict])
    return worst


def _noise_table(noise: Sequence[NoisyPath]) -> str:
    rows = [
        (each.resource, shortened(escaped(each.path), _LONGEST_PATH), f"{each.per_second:.1f}", f"{each.share:.0%}")
        for each in noise
    ]
    return table(("RESOURCE", "PATH", "UPDATES/S", "SHARE"), rows)
