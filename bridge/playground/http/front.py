"""Receives requests: authenticates the user, resolves the path, and answers."""

from __future__ import annotations

import gzip
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from aiohttp import web

from bridge.playground.http import errors, handlers
from bridge.playground.http.errors import PathNotFound, StatusError
from bridge.playground.http.handlers import ListOptions, WholeResponse
from bridge.playground.http.requests import DocumentPath, Target, accepted_form, demand_acceptable, resolve
from bridge.playground.http.streams import (
    DISCOVERY,
    Faults,
    Watch,
    WatchStream,
    error_line,
    wanted_version,
)
from bridge.playground.objects.columns import TableForm
from bridge.playground.objects.state import State

LARGEST_BODY = 3 * 1024 * 1024
"""Bytes of a request."""

_GZIP_FROM = 128 * 1024
"""Bytes from which an answer is compressed, if the client accepts gzip (apiserver's defaultGzipThresholdBytes)."""

_CACHE = {"Cache-Control": "no-cache, private"}
_PUBLIC = {"/healthz", "/livez", "/readyz", "/version"}


@dataclass(frozen=True, slots=True)
class SeenRequest:
    """A recorded request, without its credentials."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    verb: str = ""
    """RBAC's verb; "" for a path of a document."""
    resource: str = ""
    """kubectl's name."""
    namespace: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontSettings:
    """``Playground`` documents them."""

    tokens: Mapping[str, str]
    bookmark_interval: float = 60.0
    watch_list: bool = True
    compress_watch_lists: bool = False
    recorded: int = 10_000
    """The last requests that are kept."""


class Front:
    """Answers every request. ``watches`` has the watches that are open now."""

    def __init__(self, state: State, faults: Faults, watches: set[WatchStream], settings: FrontSettings) -> None:
        self.requests: deque[SeenRequest] = deque(maxlen=settings.recorded)
        self._state = state
        self._faults = faults
        self._watches = watches
        self._settings = settings

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            try:
                asked = self._resolve(request)
            except (PathNotFound, StatusError):
                self._user(request)  # What is served is nobody's business without a token.
                raise
            user = self._user(request)
            if isinstance(asked, DocumentPath):
                return await self._document(request, asked)
            return await self._resource(request, asked, user)
        except StatusError as error:
            return _respond(handlers.failure(error))
        except PathNotFound:
            return _respond(handlers.path_not_found())
        except web.HTTPRequestEntityTooLarge:
            return _respond(handlers.failure(errors.too_large(LARGEST_BODY)))

    def _resolve(self, request: web.BaseRequest) -> DocumentPath | Target:
        """Resolves and records the request. Requests that fail are recorded too. Raises PathNotFound, StatusError."""
        who: tuple[str, ...] = ()
        try:
            asked = resolve(self._state.catalogue, request.method, request.path, request.query)
            if isinstance(asked, Target):
                who = (asked.verb, asked.kind.name, asked.namespace, asked.name)
            return asked
        finally:
            # Requests are printed by failing tests: no token may be among them.
            headers = {name: value for name, value in request.headers.items() if name.lower() != "authorization"}
            self.requests.append(SeenRequest(request.method, request.path, dict(request.query), headers, *who))

    def _user(self, request: web.BaseRequest) -> str:
        """The user of the request's token. Raises StatusError (401)."""
        tokens = self._settings.tokens
        if not tokens or request.path in _PUBLIC:
            return "kubernetes-admin"
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        user = tokens.get(token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            raise errors.unauthorized()
        return user

    async def _document(self, request: web.BaseRequest, asked: DocumentPath) -> web.StreamResponse:
        if wrong := await self._faults.instead(DISCOVERY, "get"):
            return _respond(wrong)
        if asked.parts[:1] in (("api",), ("apis",)):
            demand_acceptable(request, discovers=len(asked.parts) == 1)
        return self._answer(request, handlers.document(self._state, request, asked), DISCOVERY, "get")

    async def _resource(self, request: web.BaseRequest, asked: Target, user: str) -> web.StreamResponse:
        kind = asked.kind
        if wrong := await self._faults.instead(kind.name, asked.verb):
            return _respond(wrong)
        if self._faults.forbids(kind.name, asked.verb, spend=True):
            raise errors.forbidden(user, asked.verb, kind.group, kind.plural, asked.namespace, asked.name)
        as_table = accepted_form(request)
        form = TableForm.asked(as_table, kind, asked.version, request.query, self._state.now) if as_table else None
        if asked.verb == "watch":
            return await self._watch(request, asked, form)
        answer = await handlers.resource(self._state, partial(self._faults.forbids, spend=False), request, asked, form)
        return self._answer(request, answer, kind.name, asked.verb)

    async def _watch(self, request: web.BaseRequest, asked: Target, form: TableForm | None) -> web.StreamResponse:
        options = ListOptions.parse(asked.kind, request.query, watch=True)
        if options.initial_events is not None and not self._settings.watch_list:
            raise _watch_list_refused()
        wanted = wanted_version(options)
        compress = self._settings.compress_watch_lists and bool(options.initial_events) and _accepts_gzip(request)
        response = await self._open_stream(request, asked, compress=compress)
        try:
            await self._state.reached(wanted)
            watch = Watch(self._state.store, asked, options, form)
        except StatusError as error:
            # The watch is accepted (200 was sent), so the error is sent as an ERROR event.
            await response.write(error_line(error))
            return response
        stream = WatchStream(request, response, watch, self._faults, compress)
        self._watches.add(stream)
        try:
            await stream.run(options.timeout, self._settings.bookmark_interval)
        finally:
            self._watches.discard(stream)
        return response

    async def _open_stream(self, request: web.BaseRequest, asked: Target, *, compress: bool) -> web.StreamResponse:
        mislabel = self._faults.content_type(asked.kind.name, "watch")
        headers = {**_CACHE, "Content-Type": mislabel or "application/json"}
        if compress:
            headers["Content-Encoding"] = "gzip"
        response = web.StreamResponse(headers=headers)
        response.enable_chunked_encoding()
        await response.prepare(request)
        return response

    def _answer(self, request: web.BaseRequest, answer: WholeResponse, resource: str, verb: str) -> web.Response:
        response = _respond(answer)
        if mislabel := self._faults.content_type(resource, verb):
            response.headers["Content-Type"] = mislabel
        if len(answer.body) > _GZIP_FROM and verb in ("get", "list") and _accepts_gzip(request):
            response.body = gzip.compress(answer.body, 1)
            response.headers.update({"Content-Encoding": "gzip", "Vary": "Accept-Encoding"})
        return response


def _respond(answer: WholeResponse) -> web.Response:
    typed = {"Content-Type": answer.content_type} if answer.content_type else {}
    return web.Response(body=answer.body, status=answer.status, headers={**_CACHE, **typed, **dict(answer.headers)})


def _accepts_gzip(request: web.BaseRequest) -> bool:
    return "gzip" in request.headers.get("Accept-Encoding", "")


def _watch_list_refused() -> StatusError:
    why = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
    cause = ("FieldValueForbidden", f"Forbidden: {why}", "sendInitialEvents")
    return errors.invalid("meta.k8s.io", "ListOptions", "", [cause])
