"""Identifies the cluster by the uid of the namespace kube-system, and compares it with that of the state.

A wrong kubeconfig would otherwise export every object as deleted. If the uid may not be read, the log says so once, and
the state is assumed to belong to this cluster.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Annotated

import msgspec

from bridge.kube import ApiError, CredentialsError, KubeClient
from bridge.kube.wire.objects import UNREADABLE
from bridge.kube.wire.status import shortened
from bridge.model.answers import Failed, Refused
from bridge.model.primitives.backoff import Backoff
from bridge.outbox import Ledger
from bridge.telemetry.facts import Report
from bridge.telemetry.facts.cluster import ClusterChanged, ClusterUnidentified, DiscoveryFailed

PATH = "/api/v1/namespaces/kube-system"
REFUSAL_DOUBTED = 15.0
"""Seconds that a refusal must last, if the uid was read before: a starting API server refuses every request until its
RBAC cache is filled."""


class _NamespaceMetadata(msgspec.Struct):
    uid: Annotated[str, msgspec.Meta(min_length=1, max_length=128)]


class _Namespace(msgspec.Struct):
    metadata: _NamespaceMetadata


async def read(client: KubeClient) -> str:
    """The uid of kube-system. Raises CredentialsError and ApiError, also for an answer 200 that is not a namespace, as
    a proxy in front of the API server may send."""
    body = await client.get(PATH)
    try:
        return msgspec.json.decode(body, type=_Namespace).metadata.uid
    except UNREADABLE as error:
        raise ApiError(f"GET {PATH}", Failed(shortened(f"the answer could not be read: {error}"))) from error


async def identify(
    client: KubeClient, ledger: Ledger, *, restart: bool, report: Report, held_up: Callable[[str], None]
) -> None:
    """Reads the uid, with retries, and compares it with the state's cluster, before the first watch. ``held_up`` is
    told why a retry is needed. If the uid may not be read, reports ClusterUnidentified and assumes the same cluster.
    Raises OtherCluster."""
    backoff, now = Backoff(maximum=5.0), asyncio.get_running_loop().time
    doubted_until = now() + REFUSAL_DOUBTED if await ledger.is_identified() else now()
    while True:
        try:
            uid = await read(client)
        except (ApiError, CredentialsError) as error:
            refused = isinstance(error, ApiError) and isinstance(error.answer, Refused)
            # A missing permission lasts, so the bridge goes on without the uid; any other failure is waited out.
            if refused and now() >= doubted_until:
                report(ClusterUnidentified(f"namespaces/kube-system: {error}"))
                return
            delay = backoff.next(now(), random.random())
            held_up(str(error))
            report(DiscoveryFailed(f"namespaces/kube-system: {error}", delay))
            await asyncio.sleep(delay)
            continue
        was = await ledger.identify(uid, restart=restart)
        if was is not None:
            report(ClusterChanged(was, uid))
        return
