"""A small client for tests to change and observe a cluster with. Independent of the bridge, so that it can judge it:
they share the names of resources alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager
from typing import Any, Self

import httpx
from httpx_aiohttp import AiohttpTransport
from httpx_aiohttp.transport import AiohttpResponseStream

from bridge.model.resource import Resource
from tests.cluster.servers import KubeApiServer
from tests.kit.deadlines import BUSY

Manifest = dict[str, Any]

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"

_RESPONSE = "aiohttp_response"
"""The extension of an answer with aiohttp's response."""


class KubeError(Exception):
    """The API server refused. `code` is the HTTP status, `reason` the Status' word for it."""

    def __init__(self, asked: str, code: int, reason: str, message: str) -> None:
        super().__init__(f"{asked}: {code} {reason}: {message}")
        self.code = code
        self.reason = reason


def manifest_of(resource: Resource, name: str, **fields: Any) -> Manifest:
    """An object with `fields` beside its metadata."""
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}, **fields}


class KubeClient:
    """Speaks JSON with one API server as one of its users. Paths are the API's own: `/api/v1/namespaces/shop/pods`.

    Query parameters are passed as they are called there: `labelSelector="a=b"`. Every method raises KubeError.
    """

    def __init__(self, server: KubeApiServer, user: str = "admin") -> None:
        self.server = server
        self.http = httpx.AsyncClient(
            base_url=server.url,
            headers={"Authorization": f"Bearer {server.token(user)}"},
            timeout=30 * BUSY,
            # A third of what httpx's own transport costs.
            transport=_Transport(verify=server.tls, trust_env=False),
            trust_env=False,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.aclose()

    async def get(self, path: str, **query: str | int) -> Manifest:
        """One object, a list, or whatever else is there."""
        return await self._ask("GET", path, query)

    async def create(self, path: str, body: Manifest, **query: str | int) -> Manifest:
        """POST to a collection."""
        return await self._ask("POST", path, query, body)

    async def replace(self, path: str, body: Manifest, **query: str | int) -> Manifest:
        return await self._ask("PUT", path, query, body)

    async def patch(self, path: str, body: Any, media_type: str = MERGE, **query: str | int) -> Manifest:
        return await self._ask("PATCH", path, query, body, media_type)

    async def delete(self, path: str, **query: str | int) -> Manifest:
        """Delete an object, or all of a collection."""
        return await self._ask("DELETE", path, query)

    async def watch(self, path: str, **query: str | int) -> AsyncGenerator[Manifest, None]:
        """The events of one watch until the server ends it; an ERROR event is raised."""
        # The server ends a watch within the hour; silence in between is no error.
        patient = httpx.Timeout(30, read=None)
        params = {"watch": 1, **query}
        async with self.http.stream("GET", path, params=params, timeout=patient) as answer:
            if not answer.is_success:
                await answer.aread()
                raise _error("GET", path, answer)
            with _cut_off(answer):
                async with aclosing(_lines(answer)) as lines:
                    async for line in lines:
                        event: Manifest = json.loads(line)
                        if event["type"] == "ERROR":
                            status = event["object"]
                            raise KubeError(f"watch {path}", status["code"], status["reason"], status["message"])
                        yield event

    async def wait_for(self, path: str, is_so: Callable[[list[Manifest]], bool], **query: str | int) -> list[Manifest]:
        """List and watch a collection until `is_so` of the objects in it, and return them.

        Raises TimeoutError.
        """
        objects: list[Manifest] = []
        try:
            async with asyncio.timeout(60 * BUSY), aclosing(self._states(path, **query)) as states:
                async for objects in states:
                    if is_so(objects):
                        return objects
        except TimeoutError:
            raise TimeoutError(f"{path}: not so after {60 * BUSY} s; it has {len(objects)} objects") from None
        raise AssertionError("states do not end")

    async def create_namespace(self, name: str, labels: Manifest | None = None) -> None:
        await self.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels or {}}})

    async def delete_namespace(self, name: str) -> None:
        """Delete a namespace with all that is in it, finalizers or not.

        Straight out of the store, because nobody else does it where no controller-manager runs.
        """
        await self.delete(f"/api/v1/namespaces/{name}")  # From here on nobody creates anything in it.
        await asyncio.to_thread(self.server.etcd.delete, f"/{name}/")
        await self.wait_for("/api/v1/namespaces", lambda found: not found, fieldSelector=f"metadata.name={name}")

    async def create_crd(
        self,
        group: str,
        plural: str = "widgets",
        kind: str = "Widget",
        *,
        version: str = "v1",
        namespaced: bool = True,
        schema: Manifest | None = None,
        **spec: Any,
    ) -> Resource:
        """Define a custom resource and wait until it is served: listed by discovery and by its own path.

        Without a schema, any field is kept. `spec` goes into the definition's spec.
        """
        resource = Resource(group, version, plural, kind, namespaced)
        kept: Manifest = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        serves = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema or kept}}
        scope = "Namespaced" if namespaced else "Cluster"
        names = {"plural": plural, "singular": kind.lower(), "kind": kind}
        definition = {
            "metadata": {"name": resource.name},
            "spec": {"group": group, "scope": scope, "names": names, "versions": [serves], **spec},
        }
        await self.create(_DEFINITIONS, definition)
        await self.wait_for(_DEFINITIONS, _is_established, fieldSelector=f"metadata.name={resource.name}")
        await self._wait_until_served(resource)
        return resource

    async def delete_crd(self, resource: Resource) -> None:
        """Delete the definition and wait until it and all objects of it are gone."""
        try:
            await self.delete(f"{_DEFINITIONS}/{resource.name}")
        except KubeError as error:
            if error.code != 404:
                raise
        await self.wait_for(_DEFINITIONS, lambda found: not found, fieldSelector=f"metadata.name={resource.name}")

    async def _ask(
        self,
        method: str,
        path: str,
        query: dict[str, str | int],
        body: Any = None,
        media_type: str = "application/json",
    ) -> Manifest:
        content = None if body is None else json.dumps(body)
        headers = {"Content-Type": media_type}
        answer = await self.http.request(method, path, params=query, content=content, headers=headers)
        if not answer.is_success:
            raise _error(method, path, answer)
        found: Manifest = answer.json()
        return found

    async def _states(self, path: str, **query: str | int) -> AsyncGenerator[list[Manifest], None]:
        """What the collection holds, now and after every change. Does not end."""
        while True:
            listed = await self.get(path, **query)
            objects = {each["metadata"]["uid"]: each for each in listed["items"]}
            yield [*objects.values()]
            version = listed["metadata"]["resourceVersion"]
            try:
                async with aclosing(self.watch(path, resourceVersion=version, **query)) as events:
                    async for event in events:
                        uid = event["object"]["metadata"]["uid"]
                        if event["type"] == "DELETED":
                            objects.pop(uid, None)
                        else:
                            objects[uid] = event["object"]
                        yield [*objects.values()]
            except KubeError as error:
                if error.code != 410:  # The version is forgotten: list again.
                    raise

    async def _wait_until_served(self, resource: Resource) -> None:
        """An established definition is served a moment later, by discovery and by its path each at its own time."""
        async with asyncio.timeout(30 * BUSY):
            while True:
                try:
                    served = await self.get(f"/apis/{resource.group}/{resource.version}")
                    await self.get(resource.path(), limit=1)
                    if any(each["name"] == resource.plural for each in served["resources"]):
                        return
                except KubeError as error:
                    if error.code not in {404, 503}:
                        raise
                await asyncio.sleep(0.02)  # Nothing announces it.


_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def _is_established(found: list[Manifest]) -> bool:
    # A fresh definition has conditions, and they are null.
    conditions = (each for crd in found for each in crd.get("status", {}).get("conditions") or ())
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


def _error(method: str, path: str, answer: httpx.Response) -> KubeError:
    try:
        status = answer.json()
        return KubeError(f"{method} {path}", answer.status_code, status["reason"], status["message"])
    except (ValueError, KeyError, TypeError):
        return KubeError(f"{method} {path}", answer.status_code, "Unknown", "the answer is no Status")


class _Transport(AiohttpTransport):
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = await super().handle_async_request(request)
        assert isinstance(answer.stream, AiohttpResponseStream)
        answer.extensions[_RESPONSE] = answer.stream._aiohttp_response
        return answer


@contextmanager
def _cut_off(answer: httpx.Response) -> Iterator[None]:
    """At the end, its connection is cut without TLS's closing alert: the server's answer to that might come after the
    event loop of the test, and the open connection would be a warning in some later test."""
    try:
        yield
    finally:
        connection = answer.extensions[_RESPONSE].connection
        if connection is not None and connection.transport is not None:
            connection.transport.abort()


async def _lines(answer: httpx.Response) -> AsyncGenerator[bytes, None]:
    """Split on \\n alone: httpx's own lines also end at U+2028, which may stand inside a JSON string."""
    rest = b""
    async for chunk in answer.aiter_bytes():
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line
