"""Lists and watches one resource in one scope over HTTP. Every answer, of the server or of the network, is a value.

Hot.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager

import httpx

from bridge.facts import ObjectLeftBare, Report, unheard
from bridge.kube.answering import refusal
from bridge.kube.errors import CredentialsError
from bridge.kube.frames import Frames
from bridge.kube.inflate import pieces
from bridge.kube.pages import PageReader
from bridge.kube.paths import collection_path, escaped
from bridge.kube.status import shortened
from bridge.kube.transport import NETWORK_ERRORS, not_answered
from bridge.model.answers import (
    Failed,
    HungUp,
    ListAnswer,
    ListRequest,
    Match,
    Opened,
    Oversized,
    Part,
    Silent,
    TakePart,
    Trouble,
    Unsupported,
    WatchAnswer,
    WatchRequest,
)
from bridge.model.resource import Resource, Scope

SILENCE = 90.0
"""Seconds. Bookmarks come every minute, so nothing for this long means that nobody is there."""
PATIENCE = 60.0
"""Seconds for an answer to begin, and between two pieces of a list. Servers wait too: 3 s for a version they have not
reached, and up to a minute in the queues of priority and fairness."""
HELD = 16 << 20
"""Bytes of objects that are held until their list says its version, where it does not begin with it."""
METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
OVERTIME = 30.0
"""Seconds after the timeout it was asked to keep, for a server to end a watch by itself."""


class ApiListerWatcher:
    """One resource in one scope. Requests are independent of each other; any number may be under way."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        resource: Resource,
        scope: Scope,
        *,
        silence: float = SILENCE,
        patience: float = PATIENCE,
        overtime: float = OVERTIME,
        compress: bool = False,
        metadata_only: bool = False,
        managed_fields: bool = True,
        report: Report = unheard,
    ) -> None:
        """``silence``, ``patience`` and ``overtime`` are in seconds; ``compress`` lets the server compress lists,
        which costs it nothing on balance (less to encrypt) and us less than reading ten times the bytes.
        ``metadata_only`` asks for lists without spec and status; a server that cannot do so sends whole objects.
        Without ``managed_fields`` these are cut out as soon as they are seen, where the server writes them as
        kube-apiserver does. Reports ObjectLeftBare."""
        self._http = http
        self._resource = resource
        self._scope = scope
        self._report = report
        self._managed_fields = managed_fields
        self._path = collection_path(resource, scope.namespace if resource.namespaced else None)
        self._selectors = {
            name: selector
            for name, selector in (("labelSelector", scope.label_selector), ("fieldSelector", scope.field_selector))
            if selector
        }
        self._silence = silence
        self._patience = patience
        self._overtime = overtime
        self._list_headers = {"Accept-Encoding": "gzip"} if compress else {}
        if metadata_only:
            self._list_headers["Accept"] = f"{METADATA_ONLY}, application/json"

    async def list(self, request: ListRequest, take: TakePart | None = None) -> ListAnswer:
        path, selectors = (self._path, self._selectors) if request.only is None else self._one(request.only)
        params = {**selectors, **_list_params(request)}
        # A list is told in one go: what counts is the time without any byte, not the time it takes.
        timeout = httpx.Timeout(None, connect=self._http.timeout.connect, read=self._patience)
        try:
            async with self._http.stream(
                "GET", path, params=params, headers=self._list_headers, timeout=timeout
            ) as response:
                trouble = await refusal(response, unusual=request.only is not None)
                return await self._page(response, take) if trouble is None else trouble
        except httpx.InvalidURL as error:
            # RBAC's names, for one, may have any length.
            if request.only is not None:
                return Unsupported(shortened(f"no URL can hold its name: {error}"))
            return not_answered(error, self._http.base_url)
        except CredentialsError as error:
            return Failed(shortened(str(error)))
        except NETWORK_ERRORS as error:
            return not_answered(error, self._http.base_url)

    async def _page(self, response: httpx.Response, take: TakePart | None) -> ListAnswer:
        reader = PageReader(self._resource, managed_fields=self._managed_fields)
        async with aclosing(pieces(response)) as body:
            async for piece in body:
                if reader.feed(piece):
                    self._tell_of_bare(reader)
                    if take is not None and reader.version:
                        await take(Part(reader.take(), reader.version))
                if reader.failed is not None:
                    break
                if take is not None and reader.held > HELD:
                    return Oversized(f"the list says its version at its end, and has more than {HELD >> 20} MiB before")
        page = reader.end()
        self._tell_of_bare(reader)
        return page

    def _one(self, key: str) -> tuple[str, dict[str, str]]:
        """Path and selectors of a list of one object: where it may be, whoever may list the scope may list it."""
        namespace, _, name = key.rpartition("/")
        terms = [self._scope.field_selector, f"metadata.name={escaped(name)}"]
        try:
            path = collection_path(self._resource, namespace) if namespace else self._path
        except ValueError:  # A namespace is what the server says; no path can hold this one.
            path = self._path
            terms.append(f"metadata.namespace={escaped(namespace)}")
        return path, {**self._selectors, "fieldSelector": ",".join(filter(None, terms))}

    def watch(self, request: WatchRequest) -> AbstractAsyncContextManager[AsyncIterator[WatchAnswer]]:
        return self._watch(request)

    @asynccontextmanager
    async def _watch(self, request: WatchRequest) -> AsyncIterator[AsyncIterator[WatchAnswer]]:
        opened = await self._open(request)
        if not isinstance(opened, httpx.Response):
            yield _alone(opened)
            return
        try:
            async with aclosing(self._told(opened, request)) as answers:
                yield answers
        finally:
            await opened.aclose()

    async def _open(self, request: WatchRequest) -> httpx.Response | Trouble:
        params = {**self._selectors, **_watch_params(request)}
        try:
            asked = self._http.build_request("GET", self._path, params=params)
            async with asyncio.timeout(self._patience), AsyncExitStack() as unless_opened:
                response = await self._http.send(asked, stream=True)
                unless_opened.push_async_callback(response.aclose)
                trouble = await refusal(response, unusual=request.initial_events)
                if trouble is not None:
                    return trouble
                encoding = response.headers.get("Content-Encoding", "identity")
                if encoding != "identity":
                    return Failed(shortened(f"the watch came as {encoding}, which was not asked for"))
                unless_opened.pop_all()
                return response
        except CredentialsError as error:
            return Failed(shortened(str(error)))
        except NETWORK_ERRORS as error:
            return not_answered(error, self._http.base_url)

    async def _told(self, response: httpx.Response, request: WatchRequest) -> AsyncGenerator[WatchAnswer]:
        yield Opened()
        frames = Frames(self._resource, initial_events=request.initial_events, managed_fields=self._managed_fields)
        now = asyncio.get_running_loop().time
        overdue = now() + request.timeout + self._overtime
        chunks = response.aiter_raw()
        while not frames.ended:
            try:
                async with asyncio.timeout_at(min(overdue, now() + self._silence)) as limit:
                    chunk = await anext(chunks)
            except StopAsyncIteration:
                if frames.mid_line:
                    yield HungUp("the stream ended in the middle of a line", torn=True)
                else:
                    yield HungUp("the stream ended")
                return
            except NETWORK_ERRORS as error:
                yield self._why_nothing_came(error, limit, overdue, request)
                return
            for answer in frames.feed(chunk):
                yield answer
            if frames.left_bare:
                self._tell_of_bare(frames)

    def _tell_of_bare(self, reader: PageReader | Frames) -> None:
        for reason in reader.left_bare:
            self._report(ObjectLeftBare(self._resource, self._scope, reason))
        reader.left_bare.clear()

    def _why_nothing_came(
        self, error: Exception, limit: asyncio.Timeout, overdue: float, request: WatchRequest
    ) -> HungUp | Silent:
        if not limit.expired():  # A TimeoutError is also what TCP says of a peer that went away.
            return HungUp(shortened(f"the connection broke: {type(error.__cause__ or error).__name__}"), torn=True)
        if limit.when() == overdue:
            return HungUp(f"the server did not end the watch after the {request.timeout} seconds it was given")
        return Silent(self._silence)


async def _alone(answer: WatchAnswer) -> AsyncGenerator[WatchAnswer]:
    yield answer


def _list_params(request: ListRequest) -> dict[str, str]:
    params = {"limit": str(request.limit)} if request.limit else {}
    if request.next_page is not None:
        return {**params, "continue": request.next_page}
    if request.version:
        params["resourceVersion"] = request.version
    if request.version not in {"", "0"}:
        params["resourceVersionMatch"] = request.match
    return params


def _watch_params(request: WatchRequest) -> dict[str, str]:
    params = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(request.timeout)}
    if request.version:
        params["resourceVersion"] = request.version
    if request.initial_events:
        params |= {"sendInitialEvents": "true", "resourceVersionMatch": Match.NOT_OLDER_THAN}
    return params
