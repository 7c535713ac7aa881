"""What ``kubedelta check`` tries before anything runs: the cluster, each resource, each sink. Delivers nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import StrEnum

from bridge.app.plan import Plan, SinkPlan, Wanted
from bridge.app.preflight import preflight
from bridge.facts import unheard
from bridge.kube import ApiError, Catalogue, CredentialsError, KubeClient, UnknownResource, connect, resolve_name
from bridge.model.resource import Resource, Scope
from sinks.base import SinkUnavailable, WrongOption

VERBS = ("list", "watch")


class Verdict(StrEnum):
    RIGHT = "ok"
    WRONG = "wrong"
    """The configuration, or a permission, must change."""
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class Finding:
    subject: str
    """``cluster``, ``resources: pods``, ``sinks.audit``."""
    verdict: Verdict
    detail: str

    def __str__(self) -> str:
        return f"{self.verdict:<11} {self.subject}: {self.detail}"


async def check_all(plan: Plan) -> AsyncIterator[Finding]:
    """Findings as they come: the cluster first, then its resources, then every sink."""
    mistakes = await asyncio.to_thread(preflight, plan)
    for subject, reason in mistakes:
        yield Finding(subject, Verdict.WRONG, reason)
    try:
        async with connect(plan.access, report=unheard) as client:
            async for finding in _check_cluster(plan, client):
                yield finding
    except CredentialsError as error:
        yield _of_cluster(error)
    wrong = {subject.split(".")[1] for subject, _ in mistakes}
    for finding in await asyncio.gather(*(_check_sink(sink) for sink in plan.sinks if sink.name not in wrong)):
        yield finding


async def _check_cluster(plan: Plan, client: KubeClient) -> AsyncIterator[Finding]:
    try:
        version = await client.version()
        catalogue = await client.discover()
    except ApiError as error:
        yield Finding("cluster", Verdict.UNREACHABLE, f"{client.server} ({client.origin}): {error}")
        return
    yield Finding("cluster", Verdict.RIGHT, f"{client.server} ({client.origin}) is Kubernetes {version}")
    for wanted in plan.wanted:
        yield await _check_resource(wanted, client, catalogue)


async def _check_resource(wanted: Wanted, client: KubeClient, catalogue: Catalogue) -> Finding:
    subject = f"resources: {wanted.name}"
    try:
        resources = resolve_name(wanted.name, catalogue)
    except UnknownResource as error:
        if wanted.is_wildcard:
            return Finding(subject, Verdict.RIGHT, f"covers nothing now; what appears is watched ({error.reason})")
        return Finding(subject, Verdict.WRONG, str(error))
    asked = [(resource, scope) for resource in resources for scope in wanted.scopes_of(resource)]
    try:
        refused = [text for resource, scope in asked if (text := await _refused(client, resource, scope))]
    except ApiError as error:
        return Finding(subject, Verdict.UNREACHABLE, str(error))
    if refused:
        return Finding(subject, Verdict.WRONG, f"RBAC must allow: {'; '.join(refused)}")
    return Finding(subject, Verdict.RIGHT, f"may {' and '.join(VERBS)} {len(asked)} of {len(asked)}")


async def _refused(client: KubeClient, resource: Resource, scope: Scope) -> str:
    missing = [verb for verb in VERBS if not await client.can_i(verb, resource, scope.namespace)]
    if not missing:
        return ""
    where = f"in namespace {scope.namespace}" if scope.namespace else "in the whole cluster"
    return f"{', '.join(missing)} {resource} {where}"


def _of_cluster(error: CredentialsError) -> Finding:
    subject, _, reason = str(error).partition(": ")
    if subject.startswith("cluster."):
        return Finding(subject, Verdict.WRONG, reason)
    return Finding("cluster", Verdict.WRONG, str(error))


async def _check_sink(plan: SinkPlan) -> Finding:
    subject = f"sinks.{plan.name}"
    sink = plan.make()
    try:
        return Finding(subject, Verdict.RIGHT, await sink.check())
    except WrongOption as error:
        return Finding(f"{subject}.{error.option}", Verdict.WRONG, error.reason)
    except SinkUnavailable as error:
        return Finding(subject, Verdict.UNREACHABLE, str(error))
    finally:
        await sink.close()
