"""Lists and watches a resource in a scope over HTTP. Failures of the server and of the network are values.

The bytes of a list go to a PageReader, those of a watch to Frames. Both return the objects that are complete, which are
passed on before the next bytes are read; every event takes this way, so it is on the hot path. Custom resources have
the version of a list behind its items, and until then the age of the list is unknown. So up to ``HELD`` bytes of such a
page are held. A longer one is requested again, smaller and past the server's cache.

A bridge that has a shard lists and watches the objects of that shard alone, whether the API server selects them or
sends all. KEP-5866 lets API servers select objects by a range of the FNV-1a hash of the uid. It is alpha, a watch does
not say whether its server selects, and servers behind an address may differ, so a bridge that relied on the server
alone would export objects twice, or never. Therefore every bridge drops the objects of other shards itself, as early as
it can (``wire.frames.ShardFrames``). The server is asked to select where a list of a single object, before each watch
and each list, echoes the selector: a small request every five to ten minutes. ``python -m benchmarks.shards`` prints
the cost of a dropped object.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from urllib.parse import quote

import httpx
from msgspec.structs import replace

from bridge.kube.gathering import Gathering, IdleTooLong, NotEnded, WatchBody
from bridge.kube.transport import REQUEST_ERRORS, RESPONSE, not_answered
from bridge.kube.wire.answering import error_of, pieces
from bridge.kube.wire.frames import Frames, ShardFrames
from bridge.kube.wire.pages import PageReader
from bridge.kube.wire.status import shortened
from bridge.model.answers import (
    Announced,
    Bookmark,
    Busy,
    ErrorAnswer,
    Expired,
    Failed,
    HungUp,
    ListAnswer,
    ListerWatcher,
    ListRequest,
    Match,
    Opened,
    Oversized,
    Page,
    Part,
    Refused,
    Silent,
    TakePart,
    Unsupported,
    WatchAnswer,
    WatchRequest,
)
from bridge.model.object import ApiObject
from bridge.model.primitives.shard import Shard, ShardBy
from bridge.model.resource import Resource, Scope
from bridge.telemetry.facts import Report, discard
from bridge.telemetry.facts.informer import ObjectLeftBare

IDLE_TIMEOUT = 90.0
"""Idle timeout in seconds. Bookmarks come every minute, so a longer silence shows a dead connection."""
ANSWER_TIMEOUT = 60.0
"""Answer timeout: seconds until an answer begins, and between two pieces of a list. Servers wait too: 3 s for a version
that they have not reached, and up to a minute in the queues of priority and fairness."""
HELD = 16 << 20
"""Bytes of objects held in memory until a list with its version at the end ends."""
METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
TOO_LONG = frozenset({414, 431})
"""Statuses for a URL or a header that the server, or a proxy, does not take."""
GRACE = 30.0
"""Grace in seconds: the server's time to end a watch after the ``timeoutSeconds`` of the request."""


class ApiListerWatcher:
    """The ListerWatcher of a resource in a scope. Requests are independent; any number may run at the same time."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        resource: Resource,
        scope: Scope,
        *,
        idle_timeout: float = IDLE_TIMEOUT,
        answer_timeout: float = ANSWER_TIMEOUT,
        grace: float = GRACE,
        compress: bool = False,
        metadata_only: bool = False,
        managed_fields: bool = True,
        gathering: Gathering | None = None,
        shard: Shard | None = None,
        report: Report = discard,
    ) -> None:
        """``idle_timeout``, ``answer_timeout`` and ``grace`` are in seconds. Without ``gathering``, changes are passed
        on as they come.

        ``compress`` lets the server compress lists: its encryption saves as much as the compression costs, and we save
        more than inflating costs. ``metadata_only`` lists objects without spec and status; a server without that
        feature sends whole objects. If ``managed_fields`` is False, they are cut out of objects in kube-apiserver's
        format. With ``shard``, watched objects of other shards may have no body: ShardListerWatcher drops them. Reports
        ObjectLeftBare."""
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
        self._idle_timeout = idle_timeout
        self._answer_timeout = answer_timeout
        self._grace = grace
        self._shard = shard
        self._gathering = gathering
        self._list_headers = {"Accept-Encoding": "gzip"} if compress else {}
        if metadata_only:
            self._list_headers["Accept"] = f"{METADATA_ONLY}, application/json"

    async def list(self, request: ListRequest, take: TakePart | None = None) -> ListAnswer:
        path, selectors = (self._path, self._selectors) if request.only is None else self._one(request.only)
        params = {**selectors, **list_parameters(request)}
        # A long list takes its time: only the time without a byte is bounded.
        timeout = httpx.Timeout(None, connect=self._http.timeout.connect, read=self._answer_timeout)
        try:
            async with self._http.stream(
                "GET", path, params=params, headers=self._list_headers, timeout=timeout
            ) as response:
                error = await error_of(response, unusual=request.only is not None)
                if error is not None and request.next_page is not None and response.status_code in TOO_LONG:
                    # A tenant's object stands behind the page. Without pages, its name is no part of any request.
                    return Expired(error.reason)
                return await self._page(response, take) if error is None else error
        except httpx.InvalidURL as error:
            # Names of RBAC's kinds, among others, may have any length.
            if request.only is not None:
                return Unsupported(shortened(f"no URL can hold its name: {error}"))
            if request.next_page is not None:
                return Expired(shortened(f"no URL can hold the continue token: {error}"))
            return not_answered(error, self._http.base_url)
        except REQUEST_ERRORS as error:
            return not_answered(error, self._http.base_url)

    async def _page(self, response: httpx.Response, take: TakePart | None) -> ListAnswer:
        reader = PageReader(self._resource, managed_fields=self._managed_fields)
        async with aclosing(pieces(response)) as body:
            async for piece in body:
                if reader.feed(piece):
                    self._report_bare(reader)
                    if take is not None and reader.version:
                        await take(Part(reader.take(), reader.version))
                if reader.failed is not None:
                    break
                if take is not None and reader.held > HELD:
                    return Oversized(f"the list has its version at its end, behind more than {HELD >> 20} MiB")
        page = reader.end()
        self._report_bare(reader)
        return page

    def _one(self, key: str) -> tuple[str, dict[str, str]]:
        """Path and selectors of a list with a single object. It stays within the scope, so the right to list the scope
        suffices."""
        namespace, _, name = key.rpartition("/")
        terms = [self._scope.field_selector, f"metadata.name={escaped(name)}"]
        try:
            path = collection_path(self._resource, namespace) if namespace else self._path
        except ValueError:  # Namespaces are the server's strings, and no path can hold this string.
            path = self._path
            terms.append(f"metadata.namespace={escaped(namespace)}")
        return path, {**self._selectors, "fieldSelector": ",".join(filter(None, terms))}

    @asynccontextmanager
    async def watch(self, request: WatchRequest) -> AsyncIterator[AsyncIterator[WatchAnswer]]:
        opened = await self._open(request)
        if not isinstance(opened, httpx.Response):
            yield _alone(opened)
            return
        try:
            async with aclosing(self._answers(opened, request)) as answers:
                yield answers
        finally:
            await opened.aclose()

    async def _open(self, request: WatchRequest) -> httpx.Response | ErrorAnswer:
        params = {**self._selectors, **watch_parameters(request)}
        try:
            asked = self._http.build_request("GET", self._path, params=params)
            # The stack closes the response on every way out but success.
            async with asyncio.timeout(self._answer_timeout), AsyncExitStack() as unless_opened:
                response = await self._http.send(asked, stream=True)
                unless_opened.push_async_callback(response.aclose)
                error = await error_of(response, unusual=request.initial_events)
                if error is not None:
                    return error
                encoding = response.headers.get("Content-Encoding", "identity")
                if encoding != "identity":
                    return Failed(shortened(f"the watch is encoded as {encoding}, which was not requested"))
                unless_opened.pop_all()
                return response
        except REQUEST_ERRORS as error:
            return not_answered(error, self._http.base_url)

    async def _answers(self, response: httpx.Response, request: WatchRequest) -> AsyncGenerator[WatchAnswer]:
        yield Opened()
        frames = self._frames(request)
        body = WatchBody(
            response.extensions[RESPONSE],
            self._gathering,
            at_once=request.initial_events,
            idle_timeout=self._idle_timeout,
            longest=request.timeout + self._grace,
        )
        try:
            while not frames.ended:
                try:
                    chunk = await body.read()
                except (IdleTooLong, NotEnded, *REQUEST_ERRORS) as error:
                    yield self._why_ended(error, request)
                    return
                if not chunk:
                    torn = frames.mid_line
                    yield HungUp(f"the stream ended{' in the middle of a line' if torn else ''}", torn=torn)
                    return
                for answer in frames.feed(chunk):
                    if isinstance(answer, Bookmark) and answer.initial_events_end:
                        body.gather()
                    yield answer
                if frames.left_bare:
                    self._report_bare(frames)
        finally:
            body.close()

    def _frames(self, request: WatchRequest) -> Frames:
        resource, initial_events, managed_fields = self._resource, request.initial_events, self._managed_fields
        if self._shard is not None:
            return ShardFrames(resource, self._shard, initial_events=initial_events, managed_fields=managed_fields)
        return Frames(resource, initial_events=initial_events, managed_fields=managed_fields)

    def _report_bare(self, reader: PageReader | Frames) -> None:
        for reason in reader.left_bare:
            self._report(ObjectLeftBare(self._resource, self._scope, reason))
        reader.left_bare.clear()

    def _why_ended(self, error: Exception, request: WatchRequest) -> HungUp | Silent:
        match error:
            case IdleTooLong():
                return Silent(self._idle_timeout)
            case NotEnded():
                return HungUp(f"the server did not end the watch after {request.timeout} seconds, as requested")
        return HungUp(shortened(f"the connection broke: {type(error).__name__}"), torn=True)


async def _alone(answer: WatchAnswer) -> AsyncGenerator[WatchAnswer]:
    """The answer as all that a watch says."""
    yield answer


# ── The URL of a list or a watch ─────────────────────────────────────────────


def list_parameters(request: ListRequest) -> dict[str, str]:
    """The query parameters of a list, or of a further page of it."""
    params = {"limit": str(request.limit)} if request.limit else {}
    if request.shard_selector:
        params["shardSelector"] = request.shard_selector
    if request.next_page is not None:
        # The token carries the version, and the API refuses both together.
        return {**params, "continue": request.next_page}
    if request.version:
        params["resourceVersion"] = request.version
    if request.version not in {"", "0"}:
        params["resourceVersionMatch"] = request.match
    return params


def watch_parameters(request: WatchRequest) -> dict[str, str]:
    """The query parameters of a watch."""
    params = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(request.timeout)}
    if request.version:
        params["resourceVersion"] = request.version
    if request.shard_selector:
        params["shardSelector"] = request.shard_selector
    if request.initial_events:
        params |= {"sendInitialEvents": "true", "resourceVersionMatch": Match.NOT_OLDER_THAN}
    return params


def collection_path(resource: Resource, namespace: str | None = None) -> str:
    """The path for lists and watches of a resource, in a namespace or in all. Raises ValueError for a name that no path
    can hold."""
    root = ("apis", resource.group) if resource.group else ("api",)
    within = ("namespaces", namespace) if namespace else ()
    return "".join(f"/{segment(each)}" for each in (*root, resource.version, *within, resource.plural))


def escaped(value: str) -> str:
    """A value, escaped for a field selector (apimachinery's ``fields.EscapeValue``)."""
    return re.sub(r"([\\,=])", r"\\\1", value)


def segment(text: str) -> str:
    """The text quoted as a single segment of a path. Raises ValueError for an empty text and for dots, which quoting
    does not protect: clients and proxies read them as a step up."""
    if text in {"", ".", ".."}:
        raise ValueError(f"{text!r} cannot be a segment of a path")
    return quote(text, safe="")


# ── The objects of a shard ───────────────────────────────────────────────────


def shard_selector(shard: Shard) -> str:
    """The API's shardSelector for a shard, as API servers write it into the lists that they have selected by it. Empty
    for a shard that they cannot select."""
    if shard.by is not ShardBy.UID:
        return ""
    return f"shardRange(object.metadata.uid, '{shard.start:#018x}', '{shard.end:#018x}')"


class ShardListerWatcher:
    """The ListerWatcher of a shard, over that of all objects.

    Objects of other shards are dropped here, even where the server selects. A watch gets a bookmark in place of the
    last changes that were dropped, so that its position moves on. Lists of a single object and of an earlier state have
    no selector, since they are few: there, an object of another shard under a name is as absent."""

    def __init__(
        self, source: ListerWatcher, shard: Shard, notice: Callable[[bool], None] = lambda _selects: None
    ) -> None:
        """``notice`` is called when it turns out whether the server selects, and when that changes."""
        self._source = source
        self._shard = shard
        self._selector = shard_selector(shard)
        self._notice = notice
        self._selects: bool | None = None
        """The server selected when it was asked last; None before the first time."""
        self._pages_selected = False
        """The list whose next page is requested was selected by the server."""
        self._rejected = False
        """The last request with the selector failed, perhaps because of the selector."""

    async def list(self, request: ListRequest, take: TakePart | None = None) -> ListAnswer:
        is_historical = request.only is not None or request.match is Match.EXACT
        if request.next_page is None and not is_historical:
            selected = await self._ask()
            if not isinstance(selected, bool):
                return selected
            self._pages_selected = selected
        if self._pages_selected and not is_historical:
            request = replace(request, shard_selector=self._selector)
        answer = await self._source.list(request, None if take is None else self._taking(take))
        if request.shard_selector:
            self._rejected = isinstance(answer, Failed | Unsupported)
        return replace(answer, objects=[*self._own(answer.objects)]) if isinstance(answer, Page) else answer

    def _taking(self, take: TakePart) -> TakePart:
        async def take_own(part: Part) -> None:
            if own := [*self._own(part.objects)]:
                await take(replace(part, objects=own))

        return take_own

    @asynccontextmanager
    async def watch(self, request: WatchRequest) -> AsyncIterator[AsyncIterator[WatchAnswer]]:
        selected = await self._ask()
        if not isinstance(selected, bool):
            yield _alone(selected)
            return
        if selected:
            request = replace(request, shard_selector=self._selector)
        async with (
            self._source.watch(request) as answers,
            aclosing(self._answers(answers, selected, initial=request.initial_events)) as own,
        ):
            yield own

    async def _answers(
        self, answers: AsyncIterator[WatchAnswer], selected: bool, *, initial: bool
    ) -> AsyncGenerator[WatchAnswer]:
        """``initial``: the events before the bookmark that ends them have no order, and so no position."""
        contains = self._shard.contains
        async for answer in answers:
            if not isinstance(answer, Announced):
                if isinstance(answer, Bookmark):
                    initial = initial and not answer.initial_events_end
                elif isinstance(answer, Failed | Unsupported):
                    self._rejected = selected
                yield answer
                continue
            own = [event for event in answer.events if contains(event[1].uid, event[1].key)]
            if own:
                yield answer if len(own) == len(answer.events) else Announced(own)
            _, last = answer.events[-1]
            if not initial and not (own and own[-1][1] is last):
                yield Bookmark(last.resource_version)

    def _own(self, objects: Sequence[ApiObject]) -> Iterator[ApiObject]:
        contains = self._shard.contains
        return (each for each in objects if contains(each.uid, each.key))

    async def _ask(self) -> bool | Busy | Refused:
        """Whether the next request has the selector: the server says in a list whether it selects. After a failure of a
        request with the selector, the next request has none. Answers that do not depend on the selector stand for those
        to the next request, which is not sent."""
        if self._rejected or not self._selector:
            self._rejected = False
            return False
        answer = await self._source.list(ListRequest(version="", limit=1, shard_selector=self._selector), _drop)
        if isinstance(answer, Busy | Refused):
            return answer
        if not isinstance(answer, Page):
            return False
        selects = answer.shard_selector == self._selector
        if selects is not self._selects:
            self._selects = selects
            self._notice(selects)
        return selects


async def _drop(part: Part) -> None:
    """Servers without limits send all of their objects."""
