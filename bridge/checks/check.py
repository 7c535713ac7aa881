"""Makes all checks of ``kubedelta check``: of this machine, the cluster, each resource and each sink; and forecasts the
deltas of a start. It delivers no records, and does not affect a running bridge.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from bridge.checks.expressions import check_selections
from bridge.checks.findings import CheckResult, Finding
from bridge.checks.machine import check_addresses, check_directory
from bridge.checks.noise import check_noise
from bridge.checks.rights import IDENTITY, VERBS, Right, election_rights, manifests, missing_of, rights_of, who_am_i
from bridge.kube import ApiError, Catalogue, CredentialsError, KubeClient, UnknownResource, connect, resolve_name
from bridge.model.admin import About
from bridge.model.answers import Failed, ListRequest, Refused
from bridge.model.change import Op
from bridge.model.policies import StartPolicy
from bridge.model.resource import Resource, Scope
from bridge.outbox import Damaged, StateError, StateInspection, UnknownFormat, covering, look_at, shard_in
from bridge.plan import cluster_identity
from bridge.plan.cluster_view import ClusterRefuses, ClusterUnavailable, ClusterView, digest_in, partition_of
from bridge.plan.difference import MOST_DELETES
from bridge.plan.entries import Resolution, resolve_wanted, wanted_scopes
from bridge.plan.plan import ElectionPlan, Plan, SinkPlan, Wanted
from bridge.plan.preflight import preflight
from bridge.telemetry.facts import Fact
from bridge.telemetry.facts.cluster import ConnectionInsecure
from sinks.base import ChecksDestinations, SinkUnavailable, WrongOption

MISSING_RIGHTS = "kubedelta-missing-rights"
"""The name of roles and bindings in the manifests. An operator's own role stays as it is."""
MOST_OBJECTS = 200_000
"""Of a resource: with more objects, there is no forecast."""
WAITING = "waiting"
"""In place of an op: records of the backlog."""
_NOT_FOUND = 404


async def check_all(plan: Plan, running: About | None, *, noise: float | None = None) -> AsyncIterator[Finding]:
    """Yields findings: of this machine first, then of the cluster and its resources, then of the sinks. ``running``:
    the bridge that runs on the state directory. ``noise``: the seconds for which updates are watched; None for no look
    at the noise."""
    mistakes = await asyncio.to_thread(preflight, plan)
    if plan.shard is not None:
        yield Finding("shard", CheckResult.RIGHT, f"this bridge has {plan.shard}")
    for finding in check_directory(plan, running):
        yield finding
    for finding in await check_addresses(plan, running):
        yield finding
    for subject, reason in mistakes:
        yield Finding(subject, CheckResult.WRONG, reason)
    for sink in plan.sinks:
        if sink.clear_text:
            yield Finding(f"sinks.{sink.name}", CheckResult.NOTE, sink.clear_text)
        if sink.caution:
            yield Finding(f"sinks.{sink.name}", CheckResult.NOTE, sink.caution)
    resources: Sequence[Resource] = ()
    facts: list[Fact] = []
    try:
        async with connect(plan.access, report=facts.append) as client:
            for fact in facts:
                if isinstance(fact, ConnectionInsecure):
                    yield Finding("cluster", CheckResult.NOTE, fact.reason)
            catalogue = None
            try:
                version = await client.version()
                catalogue = await client.discover()
            except ApiError as error:
                named = str(error) if client.server in str(error) else f"{client.server}: {error}"
                yield Finding("cluster", CheckResult.UNREACHABLE, f"{named} ({client.origin})")
            if catalogue is not None:
                found = f"{client.server} ({client.origin}) is Kubernetes {version}"
                yield Finding("cluster", CheckResult.RIGHT, found)
                resolution = resolve_wanted(plan.wanted, catalogue)
                resources = tuple(dict.fromkeys(resolution.desired.values()))
                async for finding in _check_cluster(plan, client, catalogue, resolution, noise):
                    yield finding
    except CredentialsError as error:
        yield _of_cluster(error)
    # A sink with wrong options would only fail with the same mistake once more.
    wrong = {subject.split(".")[1] for subject, _ in mistakes if subject.startswith("sinks.")}
    for findings in await asyncio.gather(
        *(_check_sink(sink, resources) for sink in plan.sinks if sink.name not in wrong)
    ):
        for finding in findings:
            yield finding


def _of_cluster(error: CredentialsError) -> Finding:
    subject, _, reason = str(error).partition(": ")
    if subject.startswith("cluster."):
        return Finding(subject, CheckResult.WRONG, reason)
    return Finding("cluster", CheckResult.WRONG, str(error))


# ── The cluster ──────────────────────────────────────────────────────────────


async def _check_cluster(
    plan: Plan, client: KubeClient, catalogue: Catalogue, resolution: Resolution, noise: float | None
) -> AsyncIterator[Finding]:
    allowed = True
    election = plan.election if plan.election is not None and plan.election.namespace else None
    async for finding in _check_resources(plan.wanted, client, catalogue, resolution, election):
        allowed = allowed and finding.verdict in (CheckResult.RIGHT, CheckResult.NOTE)
        yield finding
    for namespace in dict.fromkeys(scope.namespace for wanted in plan.wanted for scope in wanted.scopes):
        if namespace is not None and await _is_missing(client, namespace):
            reason = "the namespace does not exist: the bridge exports its objects once it does"
            yield Finding(f"resources: namespaces: {namespace}", CheckResult.WRONG, reason)
    async for finding in check_selections(plan, client, catalogue, resolution, allowed=allowed):
        yield finding
    async for finding in _check_state(plan, client, catalogue, resolution, allowed=allowed):
        yield finding
    if noise is not None:
        reason = f"updates are watched for {noise:g} s, or until their watches end"
        yield Finding("noise", CheckResult.NOTE, reason)
        async for finding in check_noise(plan, client, catalogue, resolution, noise):
            yield finding


async def _is_missing(client: KubeClient, namespace: str) -> bool:
    """Whether the namespace is missing. False if the bridge may not read namespaces."""
    try:
        await client.get(f"/api/v1/namespaces/{namespace}")
    except ApiError as error:
        return isinstance(error.answer, Refused) and error.answer.status == _NOT_FOUND
    return False


# ── Each entry of ``resources``: served, granted, selectable ─────────────────


async def _check_resources(
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


# ── The state, compared with the cluster ─────────────────────────────────────


async def _check_state(
    plan: Plan, client: KubeClient, catalogue: Catalogue, resolution: Resolution, *, allowed: bool
) -> AsyncIterator[Finding]:
    """``allowed``: every resource may be listed; else there is no forecast."""
    try:
        with look_at(plan.state) as look:
            if look is None:
                return
            other = await _other_cluster(plan, client, look) or _other_shard(plan)
            if other is not None:
                yield other
            elif allowed:
                yield await _forecast(plan, client, catalogue, resolution, look)
    except Damaged as error:
        reason = (
            f"it is damaged ({error}): the next start moves it aside; sinks get a Gap record, then every object as sync"
        )
        yield Finding("state.directory", CheckResult.NOTE, reason)
    except UnknownFormat as error:
        yield Finding("state.directory", CheckResult.WRONG, str(error))
    except (StateError, OSError) as error:
        yield Finding("state", CheckResult.NOTE, f"no forecast of a start: {error}")


async def _other_cluster(plan: Plan, client: KubeClient, look: StateInspection) -> Finding | None:
    try:
        uid = await cluster_identity.read(client)
    except ApiError:
        return None
    if look.cluster in ("", uid):
        return None
    found = f"it belongs to the cluster whose namespace kube-system has the uid {look.cluster}; this cluster's is {uid}"
    if plan.restart_on_cluster_change:
        return Finding(
            "state.directory", CheckResult.NOTE, f"{found}: a start compares it with this cluster, in a new epoch"
        )
    return Finding("state.directory", CheckResult.WRONG, f"{found}: give each cluster a directory of its own")


def _other_shard(plan: Plan) -> Finding | None:
    if (was := shard_in(plan.state)) == plan.shard:
        return None
    reason = f"it has the objects of {was or 'all shards'}: give each shard a directory of its own"
    return Finding("state.directory", CheckResult.WRONG, reason)


async def _forecast(
    plan: Plan, client: KubeClient, catalogue: Catalogue, resolution: Resolution, look: StateInspection
) -> Finding:
    digests = partial(digest_in, plan, catalogue)
    view = ClusterView(plan.cluster, client, resolution.desired, most=MOST_OBJECTS, digest_in=digests, shard=plan.shard)
    try:
        changes = await _changes_of_start(plan, resolution, view, look)
    except (ClusterUnavailable, ClusterRefuses) as error:
        return Finding("state", CheckResult.NOTE, f"no forecast of a start: {error}")
    rows = _by_sink(changes, plan.sinks, look)
    left = changes.left.total()
    if left > MOST_DELETES:
        most = ", ".join(f"{count} {name}" for name, count in changes.left.most_common(5))
        reason = (
            f"a start would export {left} objects as deleted, because the configuration no longer covers them "
            f"({most}): restore the configuration, or begin with a new state directory"
        )
        return Finding("resources", CheckResult.WRONG, reason, rows)
    if not rows:
        return Finding("state", CheckResult.RIGHT, "a start would export no records: every sink is up to date")
    return Finding("state", CheckResult.NOTE if left else CheckResult.RIGHT, "a start would export at least:", rows)


@dataclass(slots=True)
class _Changes:
    """Number of objects by op. Several steps between two states of an object count once."""

    ops: Counter[Op] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)
    """Resource → deleted objects that the configuration no longer covers, or covers by other scopes."""


async def _changes_of_start(plan: Plan, resolution: Resolution, view: ClusterView, look: StateInspection) -> _Changes:
    """Forecasts the changes of a start. Raises ClusterUnavailable, ClusterRefuses and Damaged. Memory: the objects of
    one resource at a time."""
    found = _Changes()
    held = {resource.name: resource for resource in look.resources()}
    served = {resource.name: resource for resource in resolution.desired.values()}
    for name, resource in (served | held).items():
        scopes = [scope for each, scope in resolution.desired if each == name]
        if not scopes and wanted_scopes(plan.wanted, resource):
            # Configured and not served now: its objects are exported as deleted only after further discoveries.
            continue
        before = look.scopes(resource)
        # Other scopes are watched than before, so that a missing object may exist outside of them.
        narrowed = bool(before) and set(before) != set(scopes)
        live = await view.look({name}) if scopes else {}
        seen = set()
        for each in look.objects(resource):
            if covering(scopes, each.key) is None:
                found.ops[Op.DELETED] += 1
                found.left[name] += 1
                continue
            key = partition_of(plan.cluster, served[name], each.key)
            seen.add(key)
            now = live.get(key)
            if now is None or now.uid != each.uid:
                found.ops[Op.DELETED] += 1
                found.ops[Op.ADDED] += int(now is not None)
                found.left[name] += int(now is None and narrowed)
            elif now.resource_version != each.version and (each.digest is None or each.digest != view.digests.get(key)):
                found.ops[Op.UPDATED] += 1
        found.ops[Op.ADDED] += len(live.keys() - seen)
    # A unary plus drops the zeros of a Counter.
    found.left = +found.left
    return found


def _by_sink(changes: _Changes, sinks: Sequence[SinkPlan], look: StateInspection) -> list[tuple[str, str, int]]:
    """Rows of (sink, op, count), for counts above 0. A sink with a selection has its backlog only."""
    backlogs = look.backlogs()
    known = look.count()
    rows = []
    for sink in sinks:
        ops = Counter(changes.ops)
        if sink.name not in backlogs and sink.start is StartPolicy.SNAPSHOT:
            ops[Op.ADDED] += known
        if sink.select is not None:
            ops.clear()  # The forecast compares versions, and has no objects for expressions.
        if waiting := backlogs.get(sink.name, 0):
            rows.append((sink.name, WAITING, waiting))
        rows += [(sink.name, str(op), ops[op]) for op in Op if ops[op]]
    return rows


# ── Sinks ────────────────────────────────────────────────────────────────────


async def _check_sink(plan: SinkPlan, resources: Sequence[Resource]) -> list[Finding]:
    subject = f"sinks.{plan.name}"
    sink = plan.make()
    try:
        found = [Finding(subject, CheckResult.RIGHT, await sink.check())]
        if isinstance(sink, ChecksDestinations):
            found += [Finding(subject, CheckResult.WRONG, each) for each in await sink.check_destinations(resources)]
    except WrongOption as error:
        return [Finding(f"{subject}.{error.option}", CheckResult.WRONG, error.reason)]
    except SinkUnavailable as error:
        return [Finding(subject, CheckResult.UNREACHABLE, str(error))]
    else:
        return found
    finally:
        await sink.close()
