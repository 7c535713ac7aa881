"""Which cluster this is."""

from __future__ import annotations

import asyncio
import random
from typing import Annotated

import msgspec

from bridge.facts import ClusterChanged, ClusterUnidentified, DiscoveryFailed, Report
from bridge.kube import ApiError, CredentialsError, KubeClient
from bridge.kube.wire.objects import UNREADABLE
from bridge.kube.wire.status import shortened
from bridge.model.answers import Failed, Refused
from bridge.model.primitives.backoff import Backoff
from bridge.outbox.objects.ledger import Ledger

PATH = "/api/v1/namespaces/kube-system"
REFUSAL_DOUBTED = 15.0
"""Seconds that a refusal must last where the uid was read before: an API server that starts refuses everything until
its RBAC cache is filled."""


class _Metadata(msgspec.Struct):
    uid: Annotated[str, msgspec.Meta(min_length=1)]


class _Namespace(msgspec.Struct):
    metadata: _Metadata


async def read(client: KubeClient) -> str:
    """The uid of kube-system. Raises ApiError, also where something in front of the API server answers 200 with a page
    of its own, and CredentialsError."""
    body = await client.get(PATH)
    try:
        return msgspec.json.decode(body, type=_Namespace).metadata.uid
    except UNREADABLE as error:
        raise ApiError(f"GET {PATH}", Failed(shortened(f"the answer could not be read: {error}"))) from error


async def identify(client: KubeClient, ledger: Ledger, *, restart: bool, report: Report) -> None:
    """Ask until there is an answer, and compare it with what the state belongs to: nothing may be watched before. Where
    it may not be read, that is reported, and the state is taken for this cluster's. Raises OtherCluster."""
    backoff, now = Backoff(maximum=5.0), asyncio.get_running_loop().time
    doubted_until = now() + REFUSAL_DOUBTED if await ledger.is_identified() else now()
    while True:
        try:
            uid = await read(client)
        except (ApiError, CredentialsError) as error:
            refused = isinstance(error, ApiError) and isinstance(error.answer, Refused)
            if refused and now() >= doubted_until:
                report(ClusterUnidentified(f"namespaces/kube-system: {error}"))
                return
            delay = backoff.next(now(), random.random())
            report(DiscoveryFailed(f"namespaces/kube-system: {error}", delay))
            await asyncio.sleep(delay)
            continue
        was = await ledger.identify(uid, restart=restart)
        if was is not None:
            report(ClusterChanged(was, uid))
        return
