"""What happened, as the store remembers it: every version of every object, whoever was killed meanwhile.

A writer whose API server dies does not know whether its last change was made; a watch has holes where it broke off.
etcd knows, until it is compacted. The API server must run with `JSON_STORAGE`, and with `NO_COMPACTION` where a story
takes longer than its five minutes.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import httpx

from tests.cluster.kube_client import Manifest
from tests.cluster.servers import Etcd
from tests.cluster.servers.etcd import EVERYTHING
from tests.kit.deadlines import BUSY
from tests.kit.received import Version, as_it_leaves

JSON_STORAGE = "--storage-media-type=application/json"
NO_COMPACTION = "--etcd-compaction-interval=0"


@dataclass(frozen=True, slots=True)
class Happened:
    """One version of one object."""

    version: Version
    subject: str
    data: Manifest
    """The object after it, in the form in which it leaves the bridge; of a delete, as it was before."""

    @property
    def uid(self) -> str:
        return self.version.uid

    @property
    def number(self) -> int:
        return int(self.version.resource_version)

    def __str__(self) -> str:
        """Never the object: it may be a Secret."""
        return f"{self.version.op} {self.subject} @{self.version.resource_version} uid {self.version.uid}"

    __repr__ = __str__


async def history(etcd: Etcd, *prefixes: str, since: int, through: int) -> list[Happened]:
    """All that happened from one version to the other below these keys (`configmaps/shop/`), in its order. Raises
    RuntimeError where etcd has forgotten the first of them."""
    keys = tuple(f"/registry/{prefix}" for prefix in prefixes)
    found = []
    async with httpx.AsyncClient(base_url=etcd.url, trust_env=False, verify=False, timeout=60 * BUSY) as http:
        await asyncio.to_thread(etcd.advance)  # A watch says nothing until something happens behind the last.
        async with aclosing(_events(http, since)) as events:
            async for event in events:
                if int(event["kv"]["mod_revision"]) > through:
                    break
                key = base64.b64decode(event["kv"]["key"]).decode()
                if key.startswith(keys):
                    found.append(happened(key.removeprefix("/registry/"), event))
    return found


def happened(key: str, event: Mapping[str, Any]) -> Happened:
    """``key`` is that of the object: `configmaps/shop/web`; ``event`` is etcd's, as its JSON gateway has it."""
    now = event["kv"]
    deleted = event.get("type") == "DELETE"
    added = now.get("create_revision") == now["mod_revision"]
    thing = _decoded(event["prev_kv"]["value"] if deleted else now["value"])
    thing["metadata"]["resourceVersion"] = now["mod_revision"]
    plural, *namespace, name = key.split("/")
    root = f"/apis/{thing['apiVersion']}" if "/" in thing["apiVersion"] else f"/api/{thing['apiVersion']}"
    inside = f"/namespaces/{namespace[0]}" if namespace else ""
    op = "deleted" if deleted else "added" if added else "updated"
    version = Version(thing["metadata"]["uid"], now["mod_revision"], op)
    return Happened(version, f"{root}{inside}/{plural}/{name}", as_it_leaves(thing))


def _decoded(value: str) -> Manifest:
    stored = base64.b64decode(value)
    assert stored.startswith(b"{"), f"the API server must run with {JSON_STORAGE}"
    thing: Manifest = json.loads(stored)
    return thing


async def _events(http: httpx.AsyncClient, since: int) -> AsyncGenerator[Mapping[str, Any], None]:
    """https://etcd.io/docs/v3.6/dev-guide/api_grpc_gateway/. Does not end."""
    everything = {**EVERYTHING, "start_revision": since, "prev_kv": True}
    async with http.stream("POST", "/v3/watch", json={"create_request": everything}) as answer:
        async for line in answer.raise_for_status().aiter_lines():
            result = json.loads(line)["result"]
            if result.get("canceled"):
                forgotten = result.get("compact_revision")
                raise RuntimeError(f"the history since {since} cannot be read; it is forgotten up to {forgotten}")
            for event in result.get("events", ()):
                yield event
