"""The client of an API server for the other rooms: it makes ListerWatchers, reads the served resources, and reads,
writes and watches a single object by its name.

``connect`` opens it for a time, with one HTTP client and one window (``gathering``) for all of its watches. Failures of
lists, watches and requests for a named object are answers, because their callers go on after them; the other methods
raise ApiError.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from http import HTTPStatus
from pathlib import Path

import httpx
import msgspec

from bridge.kube.auth.access import SERVICE_ACCOUNT, ClusterAccess, find_connection
from bridge.kube.auth.connection import ClusterConnection, RenewedConnection
from bridge.kube.catalogue import Catalogue
from bridge.kube.discovery import discover
from bridge.kube.gathering import Gathering
from bridge.kube.lister_watcher import (
    ANSWER_TIMEOUT,
    IDLE_TIMEOUT,
    ApiListerWatcher,
    ShardListerWatcher,
    collection_path,
    segment,
)
from bridge.kube.transport import REQUEST_ERRORS, Api, http_client, not_answered
from bridge.kube.wire.answering import error_of, read_whole
from bridge.kube.wire.status import shortened
from bridge.model.answers import Conflict, ErrorAnswer, Failed, ListerWatcher, WatchAnswer, WatchRequest
from bridge.model.primitives.shard import Shard
from bridge.model.resource import Resource, Scope
from bridge.telemetry.facts import Report, discard
from bridge.telemetry.facts.cluster import ShardSelected

_LARGEST = 2 << 20
"""Bytes of an answer. The API server takes no larger object."""


class NamedObject:
    """Requests are independent of one another. None has a timeout but for connecting: the caller cancels."""

    def __init__(
        self, http: httpx.AsyncClient, resource: Resource, namespace: str, name: str, watcher: ListerWatcher
    ) -> None:
        """``watcher``: with a scope that has this object alone."""
        self._http = http
        self._collection = collection_path(resource, namespace)
        self._path = f"{self._collection}/{segment(name)}"
        self._watcher = watcher

    async def read(self) -> bytes | ErrorAnswer:
        """The newest state as JSON: a quorum read."""
        answer = await self._ask("GET", self._path)
        return Failed(answer.reason) if isinstance(answer, Conflict) else answer

    async def create(self, body: bytes) -> bytes | Conflict | ErrorAnswer:
        """The created object as JSON. Conflict if it exists."""
        return await self._ask("POST", self._collection, body)

    async def update(self, body: bytes) -> bytes | Conflict | ErrorAnswer:
        """The updated object as JSON. Conflict unless ``body`` has the current resourceVersion."""
        return await self._ask("PUT", self._path, body)

    def watch(self, request: WatchRequest) -> AbstractAsyncContextManager[AsyncIterator[WatchAnswer]]:
        """See ListerWatcher.watch."""
        return self._watcher.watch(request)

    async def _ask(self, method: str, path: str, body: bytes | None = None) -> bytes | Conflict | ErrorAnswer:
        headers = {"Content-Type": "application/json"} if body is not None else None
        try:
            async with self._http.stream(method, path, content=body, headers=headers) as response:
                failure = await error_of(response)
                if failure is None:
                    return await read_whole(response, _LARGEST)
                return Conflict(failure.reason) if response.status_code == HTTPStatus.CONFLICT else failure
        except REQUEST_ERRORS as error:
            return not_answered(error, self._http.base_url)


class _VersionInfo(msgspec.Struct, rename="camel"):
    git_version: str = ""


class _AccessReviewStatus(msgspec.Struct):
    allowed: bool = False


class _AccessReview(msgspec.Struct):
    status: _AccessReviewStatus = msgspec.field(default_factory=_AccessReviewStatus)


class _UserInfo(msgspec.Struct):
    username: str


class _SubjectReviewStatus(msgspec.Struct, rename="camel"):
    user_info: _UserInfo


class _SubjectReview(msgspec.Struct):
    status: _SubjectReviewStatus


class KubeClient:
    """Made by ``connect``. Lists and watches return failures as values; all other methods raise ApiError."""

    def __init__(
        self,
        connection: ClusterConnection,
        http: httpx.AsyncClient,
        *,
        report: Report,
        idle_timeout: float,
        answer_timeout: float,
        latency: float,
    ) -> None:
        self.server = str(connection.server)
        """The server's URL, for messages."""
        self.origin = connection.origin
        """The source of the connection's settings, for messages."""
        self._http = http
        self._api = Api(http)
        self._report = report
        self._idle_timeout = idle_timeout
        self._answer_timeout = answer_timeout
        self._compress = connection.compression
        self._gathering = Gathering(latency) if latency else None

    def lister_watcher(
        self,
        resource: Resource,
        scope: Scope,
        *,
        metadata_only: bool = False,
        managed_fields: bool = True,
        shard: Shard | None = None,
    ) -> ListerWatcher:
        """``metadata_only`` lists objects without spec and status. If ``managed_fields`` is False, they are cut out of
        objects as kube-apiserver writes them; the processor's pipeline strips the other objects. ``shard``: only
        objects of this shard. Reports ShardSelected."""
        of_all = ApiListerWatcher(
            self._http,
            resource,
            scope,
            idle_timeout=self._idle_timeout,
            answer_timeout=self._answer_timeout,
            compress=self._compress,
            metadata_only=metadata_only,
            managed_fields=managed_fields,
            gathering=self._gathering,
            shard=shard,
            report=self._report,
        )
        if shard is None:
            return of_all
        return ShardListerWatcher(of_all, shard, lambda selects: self._report(ShardSelected(resource, scope, selects)))

    def named_object(self, resource: Resource, namespace: str, name: str) -> NamedObject:
        """``namespace`` and ``name`` are DNS names, as the loader of the configuration ensures."""
        only = Scope(namespace, field_selector=f"metadata.name={name}")
        return NamedObject(self._http, resource, namespace, name, self.lister_watcher(resource, only))

    async def discover(self, previous: Catalogue | None = None) -> Catalogue:
        """The resources that the server serves now; ``previous`` itself if they are the same (two 304 answers).

        Reports GroupStale for a group whose server does not answer; its contents are kept from ``previous``.
        Raises ApiError.
        """
        return await discover(self._api, previous, self._report)

    async def version(self) -> str:
        """The server's version, such as ``v1.36.3``. Raises ApiError."""
        return shortened((await self._api.ask_for(_VersionInfo, "GET", "/version")).git_version)

    async def can_i(
        self, verb: str, *, group: str, resource: str, namespace: str | None = None, name: str = ""
    ) -> bool:
        """Asks the server with a SelfSubjectAccessReview whether we may. ``resource``: the plural; ``*`` there and in
        ``group`` means all. ``namespace`` None means all namespaces, an empty ``name`` all objects. Raises ApiError."""
        # Every authenticated user may create such reviews, by the default ClusterRole system:basic-user.
        attributes = {"verb": verb, "group": group, "resource": resource, "namespace": namespace or "", "name": name}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        return (await self._api.ask_for(_AccessReview, "POST", path, json=review)).status.allowed

    async def user_name(self) -> str:
        """The name of the authenticated user, by a SelfSubjectReview (KEP-3325, Kubernetes 1.28). Raises ApiError."""
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        return shortened((await self._api.ask_for(_SubjectReview, "POST", path, json=review)).status.user_info.username)

    async def get(self, path: str) -> bytes:
        """The JSON at an API path, at most LARGEST_DOCUMENT bytes. Raises ApiError."""
        return (await self._api.ask("GET", path)).body


@asynccontextmanager
async def connect(
    access: ClusterAccess,
    *,
    report: Report = discard,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
    idle_timeout: float = IDLE_TIMEOUT,
    answer_timeout: float = ANSWER_TIMEOUT,
    latency: float = 0.0,
) -> AsyncIterator[KubeClient]:
    """A client for the time of the context. Sends no request yet: ``version()`` shows whether the server answers.

    Raises CredentialsError if no server is configured, or if the configured credentials cannot be used.
    ``idle_timeout`` is the time without a byte after which a watch is given up, ``answer_timeout`` the time until an
    answer begins. Changes that come within ``latency`` of others wait for its end, and are passed on together, over all
    watches of the client; 0 turns that off. All are in seconds.
    """
    find = partial(find_connection, access, environ=environ, service_account=service_account, report=report)
    renewed = RenewedConnection(find, report=report)
    async with http_client(renewed) as http:
        yield KubeClient(
            renewed.connection,
            http,
            report=report,
            idle_timeout=idle_timeout,
            answer_timeout=answer_timeout,
            latency=latency,
        )
