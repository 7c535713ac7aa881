"""Runs the playground: a Kubernetes API server inside the process, over real HTTP."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from typing import Self

from aiohttp import StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import RawRequestMessage
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import RequestHandler

from bridge.http.listener import Bounds, Connections
from bridge.playground.http.front import LARGEST_BODY, Front, FrontSettings, SeenRequest
from bridge.playground.http.streams import Faults, WatchStream
from bridge.playground.objects.builtin import BUILT_IN
from bridge.playground.objects.catalogue import Kind, ServedKinds
from bridge.playground.objects.objects import Manifest, unpack
from bridge.playground.objects.state import State
from bridge.playground.objects.store import StoreSnapshot
from bridge.telemetry.facts import discard

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_BOUNDS = Bounds(all=200, of_a_client=200)
"""Some systems let a process have 256 files. Each watch has a connection of its own."""


class _OfHandlers(logging.Filter):
    """aiohttp logs a traceback for each malformed request: whoever can connect would write on the terminal."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


_LOGGER = logging.getLogger("kubedelta.playground")
_LOGGER.addFilter(_OfHandlers())


def _utc_now() -> datetime:
    return datetime.now(UTC)


class ApiServer:
    """Listens on the loopback while its block runs."""

    def __init__(
        self,
        state: State,
        faults: Faults,
        settings: FrontSettings,
        *,
        port: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """``port``: 0 takes a free one. ``tls``: None for plain HTTP."""
        self._state = state
        self.watches: set[WatchStream] = set()
        """That clients have open now."""
        self._front = Front(state, faults, self.watches, settings)
        self.requests = self._front.requests
        """The last requests, oldest first."""
        self._port = port
        self._tls = tls
        self._connections: Connections
        self._listening = AsyncExitStack()

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self._port}"

    async def __aenter__(self) -> Self:
        await self._listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    async def _listen(self) -> None:
        # handler_cancellation: without it, the watch of a client that is gone goes on until its timeout.
        http = web.Server(
            self._answer, request_factory=_request, handler_cancellation=True, access_log=None, logger=_LOGGER
        )
        self._connections = Connections("playground", http, bounds=_BOUNDS, report=discard, tls=self._tls)
        self._listening.callback(self._connections.close)
        self._listening.push_async_callback(http.shutdown, 0.1)
        bound = bound_to(self._port)
        self._port = bound.getsockname()[1]
        loop = asyncio.get_running_loop()
        listening = await loop.create_server(self._connections.accept, sock=bound)
        self._listening.callback(listening.close)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Sends the answer whole, so that the connection knows when the next request is due."""
        connection = self._connections.of(request.protocol)
        if connection is None:
            return web.Response()  # It was cut a moment ago.
        connection.answer()
        response = await self._front.handle(request)
        with suppress(ConnectionError):
            await response.prepare(request)
            await response.write_eof()
            connection.await_request()
        return response

    async def _close(self) -> None:
        self._drop_watches()
        await self._listening.aclose()

    def _drop_watches(self) -> None:
        for watch in tuple(self.watches):
            watch.reset()


class Playground(ApiServer):
    """``async with Playground() as server:`` listens on a free port of the loopback until the block ends.

    Objects are changed over HTTP or by the methods here, which act at once and need no await.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        tokens: Mapping[str, str] | None = None,
        history: int = 4096,
        bookmark_interval: float = 60.0,
        version_wait: float = 0.5,
        watch_list: bool = True,
        compress_watch_lists: bool = False,
        seed: int | None = None,
        now: Callable[[], datetime] = _utc_now,
    ) -> None:
        """``tokens`` maps bearer tokens to user names; without tokens, requests need none. ``history`` is the number
        of changes kept for each resource.

        ``bookmark_interval`` and ``version_wait`` (for a version from the future; the real server waits 3) are in
        seconds. ``watch_list`` False refuses sendInitialEvents, as servers without that feature do.
        ``compress_watch_lists`` follows Kubernetes 1.37. ``seed`` fixes uids and generated names."""
        settings = FrontSettings(
            tokens=dict(tokens or {}),
            bookmark_interval=bookmark_interval,
            watch_list=watch_list,
            compress_watch_lists=compress_watch_lists,
        )
        state = State(BUILT_IN, history=history, version_wait=version_wait, seed=seed, now=now)
        super().__init__(state, self._faults(), settings, port=port)
        for each in NAMESPACES:
            self.create("namespaces", {"metadata": {"name": each}}, manager="kube-apiserver")

    # ── Objects, in the process ──────────────────────────────────────────────

    def create(self, resource: str, manifest: Manifest, *, manager: str = "playground") -> Manifest:
        """Creates an object, status included. ``resource`` is kubectl's name: ``pods``, ``deployments.apps``. The
        namespace defaults to ``default``, and is created if it does not exist. Raises StatusError."""
        kind = self._kind(resource)
        namespace = ((manifest.get("metadata") or {}).get("namespace") or "default") if kind.namespaced else ""
        if namespace and namespace not in self._state.store.collection("namespaces").objects:
            self.create("namespaces", {"metadata": {"name": namespace}}, manager=manager)
        return unpack(kind, self._state.create(kind, "", namespace, manifest, manager))

    def update(self, resource: str, manifest: Manifest, *, manager: str = "playground") -> Manifest:
        """Replaces the whole object, status included. A resourceVersion in the manifest must be current; without a
        resourceVersion, any version is overwritten. Raises StatusError."""
        kind, metadata = self._kind(resource), manifest["metadata"]
        namespace = metadata.get("namespace") or "default"
        if not metadata.get("resourceVersion"):
            current = self._state.find(kind, namespace, metadata["name"])
            manifest = {**manifest, "metadata": {**metadata, "resourceVersion": str(current.version)}}
        return unpack(kind, self._state.update(kind, "", namespace, metadata["name"], manifest, manager))

    def patch(
        self, resource: str, name: str, patch: Manifest, *, namespace: str = "default", manager: str = "playground"
    ) -> Manifest:
        """Applies a JSON merge patch, to the status too. Raises StatusError."""
        kind = self._kind(resource)
        return unpack(kind, self._state.patch(kind, "", namespace, name, patch, manager))

    def delete(
        self, resource: str, name: str, *, namespace: str = "default", uid: str = "", grace: int | None = 0
    ) -> Manifest:
        """Deletes an object, and returns its last state. Finalizers keep the object; ``grace`` (seconds; None for the
        pod's own) keeps a pod that has a node. Raises StatusError."""
        kind = self._kind(resource)
        last, _ = self._state.delete(kind, namespace, name, uid=uid, grace=grace)
        return unpack(kind, last)

    def get(self, resource: str, name: str, *, namespace: str = "default") -> Manifest:
        """Raises StatusError (404)."""
        kind = self._kind(resource)
        return unpack(kind, self._state.find(kind, namespace, name))

    def list(self, resource: str, *, namespace: str = "") -> list[Manifest]:
        """All objects, sorted by namespace and name."""
        kind = self._kind(resource)
        collection = self._state.store.collection(kind.collection)
        found = (collection.objects[key] for key in collection.keys)
        return [unpack(kind, each) for each in found if namespace in ("", each.namespace)]

    @property
    def version(self) -> str:
        """The newest resourceVersion of all."""
        return str(self._state.store.version)

    @property
    def catalogue(self) -> ServedKinds:
        """The kinds served now."""
        return self._state.catalogue

    def snapshot(self) -> StoreSnapshot:
        """All objects and the version, for ``restore``."""
        return self._state.store.snapshot()

    def restore(self, snapshot: StoreSnapshot) -> None:
        """Acts as a server whose etcd was restored from a backup: objects and versions come from the snapshot, later
        versions count on from there, the history is empty, and open watches lose their connection."""
        self._state.store.restore(snapshot)
        self._state.serve_stored_definitions()
        self._drop_watches()

    # ── Requests and watches of clients ──────────────────────────────────────

    def seen(self, verb: str, resource: str) -> tuple[SeenRequest, ...]:
        """The requests with that verb for that resource: ``server.seen("list", "pods")``."""
        return tuple(each for each in self.requests if (each.verb, each.resource) == (verb, resource))

    def _faults(self) -> Faults:
        """Overridden by the tests' server."""
        return Faults()

    def _kind(self, resource: str) -> Kind:
        return self._state.catalogue.named(resource)


def _request(
    message: RawRequestMessage,
    payload: StreamReader,
    protocol: RequestHandler,
    writer: AbstractStreamWriter,
    task: asyncio.Task[None],
) -> web.BaseRequest:
    """aiohttp's request, with the real server's limit for bodies."""
    return web.BaseRequest(message, payload, protocol, writer, task, task.get_loop(), client_max_size=LARGEST_BODY)


def bound_to(port: int) -> socket.socket:
    """A socket on the loopback that does not listen yet; 0 takes a free port."""
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind(("127.0.0.1", port))
    return bound
