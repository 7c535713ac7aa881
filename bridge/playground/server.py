"""The playground: a Kubernetes API server inside the process, over real HTTP."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from random import Random
from typing import Self

from aiohttp import StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import RawRequestMessage
from aiohttp.web_protocol import RequestHandler

from bridge.playground.http.front import LARGEST_BODY, Front, Seen, Settings
from bridge.playground.misbehaviour import Misbehaviour
from bridge.playground.objects.builtin import BUILT_IN
from bridge.playground.objects.catalogue import Catalogue, Kind
from bridge.playground.objects.objects import Manifest, unpack
from bridge.playground.objects.state import VERSION_INFO, State
from bridge.playground.objects.store import Snapshot, Store
from bridge.playground.objects.validation import Precondition
from bridge.playground.objects.writes import Writes

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Playground:
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
        shortest_watch: float = 1800.0,
        patience: float = 0.5,
        watch_list: bool = True,
        compress_watch_lists: bool = False,
        seed: int | None = None,
        now: Callable[[], datetime] = _utc_now,
    ) -> None:
        """``tokens``: bearer token → user name; without any, nobody needs one. ``history``: changes that each resource
        remembers. ``bookmark_interval``, ``shortest_watch`` (where the client names no timeoutSeconds) and ``patience``
        (the wait for a version from the future; the real server waits 3) are in seconds. ``watch_list`` False: refuse
        sendInitialEvents, as servers without that feature do. ``compress_watch_lists``: as Kubernetes 1.37 does.
        ``seed``: the same uids and generated names every time."""
        store, catalogue = Store(history), Catalogue(BUILT_IN)
        writes = Writes(store, catalogue, Random(seed), now)
        self._state = State(store, catalogue, writes, VERSION_INFO, patience)
        self._news = asyncio.Event()
        store.listeners.add(self._news.set)
        self.misbehave = Misbehaviour(store, lambda name: catalogue.named(name).collection)
        settings = Settings(
            tokens=dict(tokens or {}),
            bookmark_interval=bookmark_interval,
            shortest_watch=shortest_watch,
            watch_list=watch_list,
            compress_watch_lists=compress_watch_lists,
        )
        self._front = Front(self._state, self.misbehave, settings, self._news.set)
        self.requests = self._front.requests
        """The last requests, oldest first."""
        self._port = port
        self._runner: web.ServerRunner | None = None
        self._placeholder: socket.socket | None = None
        for each in NAMESPACES:
            self.create("namespaces", {"metadata": {"name": each}}, manager="kube-apiserver")

    # ── Life ─────────────────────────────────────────────────────────────────

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    async def __aenter__(self) -> Self:
        await self._listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    async def _listen(self) -> None:
        if self._placeholder:
            self._placeholder.close()
            self._placeholder = None
        self._runner = web.ServerRunner(
            web.Server(self._front.handle, request_factory=_request, handler_cancellation=True, access_log=None),
            shutdown_timeout=0.1,
        )
        await self._runner.setup()
        bound = _bound(self._port)
        self._port = bound.getsockname()[1]
        await web.SockSite(self._runner, bound, backlog=1024).start()

    async def _close(self) -> None:
        self.misbehave.reset()
        if self._runner:
            await self._runner.cleanup()
            self._runner = None
        if self._placeholder:
            self._placeholder.close()
            self._placeholder = None

    @asynccontextmanager
    async def refusing_connections(self) -> AsyncIterator[None]:
        """Inside the block the server is down: open connections are dropped and new ones refused. Objects, history and
        port stay."""
        await self._close()
        # Bound and not listening: nobody else gets the port meanwhile, and who connects is refused.
        self._placeholder = _bound(self._port)
        try:
            yield
        finally:
            await self._listen()

    # ── Objects, in the process ──────────────────────────────────────────────

    def create(self, resource: str, manifest: Manifest, *, manager: str = "playground") -> Manifest:
        """``resource`` as kubectl names it: ``pods``, ``deployments.apps``. A manifest that lacks a namespace goes to
        ``default``; a namespace that does not exist is made first. Status is taken over too. Raises ApiError."""
        kind = self._kind(resource)
        namespace = ((manifest.get("metadata") or {}).get("namespace") or "default") if kind.namespaced else ""
        if namespace and namespace not in self._state.store.collection("namespaces").objects:
            self.create("namespaces", {"metadata": {"name": namespace}}, manager=manager)
        return unpack(kind, self._state.writes.create(kind, "", namespace, manifest, manager))

    def update(self, resource: str, manifest: Manifest, *, manager: str = "playground") -> Manifest:
        """Replace the whole object, status included. With a resourceVersion in it, that must be the current one;
        without, any is overwritten. Raises ApiError."""
        kind, metadata = self._kind(resource), manifest["metadata"]
        namespace = metadata.get("namespace") or "default"
        if not metadata.get("resourceVersion"):
            current = self._state.writes.find(kind, namespace, metadata["name"])
            manifest = {**manifest, "metadata": {**metadata, "resourceVersion": str(current.version)}}
        return unpack(kind, self._state.writes.update(kind, "", namespace, metadata["name"], manifest, manager))

    def patch(
        self, resource: str, name: str, patch: Manifest, *, namespace: str = "default", manager: str = "playground"
    ) -> Manifest:
        """Apply a JSON merge patch, to the status too. Raises ApiError."""
        kind = self._kind(resource)
        return unpack(kind, self._state.writes.patch(kind, "", namespace, name, patch, manager))

    def delete(
        self, resource: str, name: str, *, namespace: str = "default", uid: str = "", grace: int | None = 0
    ) -> Manifest:
        """The last state. Finalizers keep the object, as does ``grace`` (seconds; None for the pod's own) a pod that
        has a node. Raises ApiError."""
        kind = self._kind(resource)
        last, _ = self._state.writes.delete(kind, namespace, name, Precondition(uid=uid), grace)
        return unpack(kind, last)

    def get(self, resource: str, name: str, *, namespace: str = "default") -> Manifest:
        """Raises ApiError (404)."""
        kind = self._kind(resource)
        return unpack(kind, self._state.writes.find(kind, namespace, name))

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
    def catalogue(self) -> Catalogue:
        """The kinds served now."""
        return self._state.catalogue

    def snapshot(self) -> Snapshot:
        """All objects and the version, for ``restore``."""
        return self._state.store.snapshot()

    def restore(self, snapshot: Snapshot) -> None:
        """As if etcd were restored from a backup and the server started again: objects and versions are those of the
        snapshot, versions count on from there, no history is left, and open watches lose their connection."""
        self._state.store.restore(snapshot)
        self._state.writes.serve_stored_definitions()
        self.misbehave.reset()

    # ── What clients did ─────────────────────────────────────────────────────

    def seen(self, verb: str, resource: str) -> tuple[Seen, ...]:
        """The requests with that verb for that resource: ``server.seen("list", "pods")``."""
        return tuple(each for each in self.requests if (each.verb, each.resource) == (verb, resource))

    def open_watches(self, resource: str | None = None) -> int:
        """How many clients watch it now (None: anything)."""
        return self.misbehave.open_watches(resource)

    async def until(self, holds: Callable[[], bool], timeout: float = 10.0) -> None:
        """Wait until something holds; looked at when a request comes or a watch opens or ends, and after every change
        of an object. Raises TimeoutError after so many seconds."""
        async with asyncio.timeout(timeout):
            while not holds():
                self._news.clear()
                await self._news.wait()

    async def until_watched(self, resource: str, *, count: int = 1, timeout: float = 10.0) -> None:
        """Wait until so many watches of the resource are open. Raises TimeoutError."""
        await self.until(lambda: self.open_watches(resource) >= count, timeout)

    def _kind(self, resource: str) -> Kind:
        return self._state.catalogue.named(resource)


def _request(
    message: RawRequestMessage,
    payload: StreamReader,
    protocol: RequestHandler,
    writer: AbstractStreamWriter,
    task: asyncio.Task[None],
) -> web.BaseRequest:
    """As aiohttp makes it, with the real server's limit for bodies."""
    return web.BaseRequest(message, payload, protocol, writer, task, task.get_loop(), client_max_size=LARGEST_BODY)


def _bound(port: int) -> socket.socket:
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind(("127.0.0.1", port))
    return bound
