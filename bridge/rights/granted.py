"""Asks the API server which rights the bridge has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from bridge.kube import ApiError, KubeClient
from bridge.rights.manifests import Subject
from bridge.rights.rights import Right


async def missing_of(client: KubeClient, rights: Iterable[Right]) -> list[Right]:
    """The rights that are not granted, each with its missing verbs. Raises ApiError."""
    missing = []
    for right in rights:
        verbs = [verb for verb in right.verbs if not await _may(client, verb, right)]
        if verbs:
            missing.append(replace(right, verbs=tuple(verbs)))
    return missing


async def who_am_i(client: KubeClient) -> Subject | None:
    """The account of the bridge's credentials; None where the API server does not say (Kubernetes before 1.28)."""
    try:
        return Subject.of_user(await client.user_name())
    except ApiError:
        return None


async def _may(client: KubeClient, verb: str, right: Right) -> bool:
    return await client.can_i(
        verb, group=right.group, resource=right.resource, namespace=right.namespace, name=right.name
    )
