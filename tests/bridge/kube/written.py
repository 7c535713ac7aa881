"""Objects, lines of watches and Statuses, as kube-apiserver writes them."""

from __future__ import annotations

import json
from typing import Any

INITIAL_EVENTS_END = {"k8s.io/initial-events-end": "true"}


def compact(value: Any) -> bytes:
    """As Go's encoder writes it: no spaces, and no escapes for what JSON allows in strings."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def pod(name: str = "web-1", version: str = "7", **more: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "shop", "uid": f"uid-{name}", "resourceVersion": version}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, **more}


def line(kind: str, thing: Any) -> bytes:
    return compact({"type": kind, "object": thing}) + b"\n"


def bookmark(version: str, **annotations: str) -> bytes:
    metadata = {"resourceVersion": version, "annotations": annotations}
    return line("BOOKMARK", {"kind": "Pod", "apiVersion": "v1", "metadata": metadata})


def status(code: int, reason: str = "", message: str = "", **details: Any) -> dict[str, Any]:
    found = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message}
    return {**found, "reason": reason, "details": details, "code": code}
