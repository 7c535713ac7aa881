"""Audit events as kube-apiserver writes them."""

from __future__ import annotations

import json
from typing import Any

UID = "0b5a3c1e-1111-4222-8333-444455556666"


def audit_event(verb: str = "update", **more: Any) -> dict[str, Any]:
    """Of a Deployment, at level Metadata, by a person; ``more`` replaces members."""
    return {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": "6f6a1f9c-0001",
        "stage": "ResponseComplete",
        "requestURI": "/apis/apps/v1/namespaces/shop/deployments/web",
        "verb": verb,
        "user": {"username": "ada", "groups": ["ops", "system:authenticated"]},
        "sourceIPs": ["203.0.113.7", "10.0.0.9"],
        "userAgent": "kubectl/v1.36.0",
        "objectRef": {"resource": "deployments", "namespace": "shop", "name": "web", "apiGroup": "apps"},
        "responseStatus": {"code": 200},
        "requestReceivedTimestamp": "2026-11-27T10:00:00.000000Z",
        "stageTimestamp": "2026-11-27T10:00:00.020000Z",
        **more,
    }


def answered(version: str, **metadata: Any) -> dict[str, Any]:
    """The member of an event at level RequestResponse: the object, with a secret in it."""
    thing = {"uid": UID, "resourceVersion": version, "name": "web", "namespace": "shop", **metadata}
    return {"level": "RequestResponse", "responseObject": {"kind": "Deployment", "metadata": thing, "spec": "hunter2"}}


def line(event: dict[str, Any]) -> bytes:
    return json.dumps(event).encode() + b"\n"
