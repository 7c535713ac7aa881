"""Checks each entry of ``resources``: whether the cluster serves it, grants it, and accepts its selectors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from bridge.checks.findings import CheckResult, Finding
from bridge.checks.rights import IDENTITY, VERBS, Right, election_rights, manifests, missing_of, rights_of, who_am_i
from bridge.kube import ApiError, Catalogue, KubeClient, UnknownResource, resolve_name
from bridge.model.answers import Failed, ListRequest, Refused
from bridge.model.resource import Resource, Scope
from bridge.plan.entries import Resolution
from bridge.plan.plan import ElectionPlan, Wanted

MISSING_RIGHTS = "kubedelta-missing-rights"
"""The name of roles and bindings in the manifests. An operator's own role stays as it is."""


async def check_resources(
    configured: Sequence[Wanted],
    client: KubeClient,
    catalogue: Catalogue,
    resolution: Resolution,
    election: ElectionPlan | None,
) -> AsyncIterator[Finding]:
    """Yields a finding for each entry and for the Lease, and findings for missing rights: the last has manifests that
    grant them. ``election``: None without one, and where its namespace is not known."""
    missing: list[Right] = []
    for wanted in configured:
        finding, of_entry = await _check_resource(wanted, client, catalogue, resolution)
        missing += of_entry
        yield finding
    try:
        unidentified = await missing_of(client, [IDENTITY])
        unelected = await missing_of(client, election_rights(election))
    except ApiError as error:
        yield Finding("cluster", CheckResult.UNREACHABLE, str(error))
        return
    if unidentified:
        reason = f"RBAC must allow: {IDENTITY}: its uid identifies the cluster of a state directory"
        yield Finding("cluster", CheckResult.WRONG, reason)
    if election is not None:
        yield _of_election(election, unelected)
    if missing := [*missing, *unelected, *unidentified]:
        yield await _to_apply(client, missing)


def _of_election(election: ElectionPlan, missing: Sequence[Right]) -> Finding:
    if missing:
        reason = f"RBAC must allow: {'; '.join(map(str, missing))}: replicas elect their leader by it"
        return Finding("election", CheckResult.WRONG, reason)
    found = f"may hold the Lease {election.namespace}/{election.lease}, as {election.name}"
    return Finding("election", CheckResult.RIGHT, found)


async def _check_resource(
    wanted: Wanted, client: KubeClient, catalogue: Catalogue, resolution: Resolution
) -> tuple[Finding, Sequence[Right]]:
    """Returns the finding, and the missing rights."""
    subject = f"resources: {wanted.name}"
    if wanted.name in resolution.twice:
        return Finding(subject, CheckResult.WRONG, resolution.unresolved[wanted.name]), ()
    try:
        resources = resolve_name(wanted.name, catalogue)
    except UnknownResource as error:
        if wanted.is_wildcard:
            reason = f"covers no resource now; later ones are watched ({error.reason})"
            return Finding(subject, CheckResult.RIGHT, reason), ()
        return Finding(subject, CheckResult.WRONG, error.reason), ()
    asked = [(resource, scope) for resource in resources for scope in wanted.scopes_of(resource)]
    rights = [Right.of(resource, scope) for resource, scope in asked]
    try:
        missing = await missing_of(client, rights)
    except ApiError as error:
        return Finding(subject, CheckResult.UNREACHABLE, str(error)), ()
    if missing:
        reason = f"RBAC must allow: {'; '.join(map(str, missing))}"
        needed = rights_of(wanted, catalogue) if wanted.is_wildcard else missing
        return Finding(subject, CheckResult.WRONG, reason), needed
    for resource, scope in asked:
        if (scope.label_selector or scope.field_selector) and (
            reason := await _not_selectable(client, resource, scope)
        ):
            return Finding(subject, CheckResult.WRONG, f"cannot list {resource} ({scope}): {reason}"), ()
    return Finding(subject, CheckResult.RIGHT, f"may {' and '.join(VERBS)} {len(asked)} of {len(asked)}"), ()


async def _to_apply(client: KubeClient, missing: Sequence[Right]) -> Finding:
    subject = await who_am_i(client)
    if subject is None:
        return Finding("cluster", CheckResult.NOTE, "`kubedelta rbac` prints all rights that the configuration needs")
    manifest = manifests(missing, name=MISSING_RIGHTS, subject=subject)
    return Finding("cluster", CheckResult.NOTE, "these manifests grant the missing rights:", manifest=manifest)


async def _not_selectable(client: KubeClient, resource: Resource, scope: Scope) -> str:
    """Why the API server rejects these selectors: the supported fields differ between resources. Empty if it accepts
    them, or fails otherwise."""
    match await client.lister_watcher(resource, scope, metadata_only=True).list(ListRequest(version="", limit=1)):
        case Refused(reason=reason) | Failed(reason=reason):
            return reason
        case _:
            return ""
