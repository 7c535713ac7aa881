"""``kubedelta rbac``: prints the rights that a configuration needs."""

from __future__ import annotations

import asyncio
from pathlib import Path

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
from bridge.cli.terminal import complain, say
from bridge.kube import ApiError, Catalogue, CredentialsError, connect
from bridge.plan.plan import Plan
from bridge.plan.plan_from_settings import plan_of


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
