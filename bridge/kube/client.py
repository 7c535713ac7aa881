"""One API server, as the rest of the bridge sees it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec

from bridge.facts import Report, unheard
from bridge.kube import discovery
from bridge.kube.access import ClusterAccess, Connection, resolve
from bridge.kube.api import Api
from bridge.kube.catalogue import Catalogue
from bridge.kube.in_cluster import SERVICE_ACCOUNT
from bridge.kube.lister_watcher import PATIENCE, SILENCE, ApiListerWatcher
from bridge.kube.transport import http_client
from bridge.model.resource import Resource, Scope


class _Version(msgspec.Struct, rename="camel"):
    git_version: str = ""


class _ReviewStatus(msgspec.Struct):
    allowed: bool = False


class _Review(msgspec.Struct):
    status: _ReviewStatus = msgspec.field(default_factory=_ReviewStatus)


class KubeClient:
    """Made by ``connect``. Lists and watches answer with values; everything else raises ApiError."""

    def __init__(
        self, connection: Connection, http: httpx.AsyncClient, *, report: Report, silence: float, patience: float
    ) -> None:
        self.server = str(connection.server)
        """Its URL, for messages."""
        self.origin = connection.origin
        """Where the way to it was found, for messages."""
        self._http = http
        self._api = Api(http)
        self._report = report
        self._silence = silence
        self._patience = patience
        self._compress = connection.compression

    def lister_watcher(
        self, resource: Resource, scope: Scope, *, metadata_only: bool = False, managed_fields: bool = True
    ) -> ApiListerWatcher:
        """``metadata_only``: for lists whose objects need no spec and no status. Without ``managed_fields``, objects
        come without them, as far as that is cheap: the pipeline strips what is left."""
        return ApiListerWatcher(
            self._http,
            resource,
            scope,
            silence=self._silence,
            patience=self._patience,
            compress=self._compress,
            metadata_only=metadata_only,
            managed_fields=managed_fields,
            report=self._report,
        )

    async def discover(self, previous: Catalogue | None = None) -> Catalogue:
        """What the server serves now: ``previous`` itself where nothing changed, which costs next to nothing.

        Reports GroupStale where the server cannot say; what ``previous`` knew of that group is kept.
        """
        return await discovery.discover(self._api, previous, self._report)

    async def version(self) -> str:
        """``v1.36.3``"""
        return (await self._api.ask_for(_Version, "GET", "/version")).git_version

    async def can_i(self, verb: str, resource: Resource, namespace: str | None = None) -> bool:
        """Whether RBAC (or whatever authorizes there) lets us; ``namespace`` None asks for all of them."""
        attributes = {
            "verb": verb,
            "group": resource.group,
            "version": resource.version,
            "resource": resource.plural,
            "namespace": namespace or "",
        }
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        return (await self._api.ask_for(_Review, "POST", path, json=review)).status.allowed

    async def get(self, path: str) -> bytes:
        """The JSON at an API path."""
        return (await self._api.ask("GET", path)).body

    async def post(self, path: str, json: Any) -> bytes:
        """The JSON that the server answers with."""
        return (await self._api.ask("POST", path, json=json)).body

    async def put(self, path: str, json: Any) -> bytes:
        """The JSON that the server answers with."""
        return (await self._api.ask("PUT", path, json=json)).body


@asynccontextmanager
async def connect(
    access: ClusterAccess,
    *,
    report: Report = unheard,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
    silence: float = SILENCE,
    patience: float = PATIENCE,
) -> AsyncIterator[KubeClient]:
    """A client for as long as the context lasts. Asks the server nothing yet: ``version()`` tells whether it is there.

    Raises CredentialsError where no way to a server is configured, or what is configured cannot work. ``silence``:
    seconds without a byte after which a watch is given up; ``patience``: seconds for an answer to begin.
    """
    connection = resolve(access, environ=environ, service_account=service_account, report=report)
    async with http_client(connection) as http:
        yield KubeClient(connection, http, report=report, silence=silence, patience=patience)
