"""``kubedelta check``: prints what is wrong with a configuration before it runs. ``kubedelta rbac``: prints the rights
that it needs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from bridge.app.admin.client import running_on
from bridge.checks.check import check_all
from bridge.checks.findings import CheckResult, Finding, NoisyPath
from bridge.checks.rights import (
    IDENTITY,
    Right,
    Subject,
    built_in_catalogue,
    election_rights,
    in_namespaces,
    is_built_in,
    is_written_out,
    manifests,
    rights_of,
)
from bridge.cli.exits import Exit
from bridge.cli.settings import load_settings
from bridge.cli.terminal import complain, say, shortened, table
from bridge.kube import ApiError, Catalogue, CredentialsError, connect
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


# ── rbac ─────────────────────────────────────────────────────────────────────


def rbac(path: Path, *, namespaced: bool, service_account: tuple[str, str], name: str) -> int:
    """Prints the rights that the file needs, bound to the service account (namespace, name). Asks the cluster only
    about entries that the names of Kubernetes' own resources leave open. ``namespaced``: only Roles, so an entry
    without namespaces is an error."""
    plan = plan_of(load_settings(path), path)
    rights = _needed(plan, asyncio.run(_catalogue(plan)), namespaced=namespaced)
    rights += election_rights(plan.election, service_account[0])
    namespace, account = service_account
    say(manifests(rights, name=name, subject=Subject(account, namespace)))
    return Exit.OK


async def _catalogue(plan: Plan) -> Catalogue:
    """Raises CredentialsError and ApiError where only the cluster knows the rights, and cannot be asked."""
    unknown = [wanted for wanted in plan.wanted if not is_built_in(wanted)]
    if not unknown:
        return built_in_catalogue()
    names = ", ".join(wanted.name for wanted in unknown)
    try:
        async with connect(plan.access) as client:
            return await client.discover()
    except (CredentialsError, ApiError) as error:
        if not all(map(is_written_out, unknown)):
            complain(
                f"resources: {names}: only the cluster knows this; Kubernetes' own resources need no cluster, and "
                "neither do others that are written as plural and group"
            )
            raise
        complain(f"note: {names} was not found on a cluster, and is taken for plural and group: {error}")
        return built_in_catalogue()


def _needed(plan: Plan, catalogue: Catalogue, *, namespaced: bool) -> list[Right]:
    rights: list[Right] = []
    for wanted in plan.wanted:
        of_entry = rights_of(wanted, catalogue)
        rights += in_namespaces(wanted.name, of_entry) if namespaced else of_entry
    return [*rights, *(in_namespaces("", [IDENTITY]) if namespaced else [IDENTITY])]
