"""Informers as a library: ``docs/library.md``."""

from __future__ import annotations

from bridge.delivery.workqueue import QueueShutDown, WorkQueue
from bridge.informer import (
    DeltaFIFO,
    FifoClosed,
    Lister,
    NotSyncedInTime,
    RecoveryLimits,
    RecoverySlots,
    SharedInformer,
    SharedInformerFactory,
    by_label,
    by_name,
    by_namespace,
)
from bridge.kube import ApiError, ClusterAccess, CredentialsError, KubeClient, UnknownResource, connect, resolve_name
from bridge.model.change import Change, Evidence, Op
from bridge.model.object import ApiObject
from bridge.model.resource import Resource, Scope

__all__ = [
    "ApiError",
    "ApiObject",
    "Change",
    "ClusterAccess",
    "CredentialsError",
    "DeltaFIFO",
    "Evidence",
    "FifoClosed",
    "KubeClient",
    "Lister",
    "NotSyncedInTime",
    "Op",
    "QueueShutDown",
    "RecoveryLimits",
    "RecoverySlots",
    "Resource",
    "Scope",
    "SharedInformer",
    "SharedInformerFactory",
    "UnknownResource",
    "WorkQueue",
    "by_label",
    "by_name",
    "by_namespace",
    "connect",
    "resolve_name",
]
