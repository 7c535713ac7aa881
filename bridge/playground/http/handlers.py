"""Answers requests for documents, reads and writes; watches are in ``streams``.

The query of a list or a watch is validated as apimachinery's ``ValidateListOptions`` does. A list comes in pages at a
version, with continue tokens between them (apiserver's ``storage/continue.go``). Writes go to ``objects.state``. Each
failure is a StatusError, or PathNotFound outside of the API.
"""

from __future__ import annotations

import base64
import posixpath
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

import msgspec
from aiohttp import web

from bridge.model.selector import LabelSelector, SelectorError
from bridge.playground.http import discovery, errors
from bridge.playground.http.errors import PathNotFound, StatusError, bad_request, encode, expired, invalid
from bridge.playground.http.requests import (
    ACCESS_REVIEWS,
    DocumentPath,
    Target,
    accepted_types,
    decoded,
    demand_metadata,
    manifest_of,
    unknown_version,
)
from bridge.playground.objects.catalogue import Kind
from bridge.playground.objects.columns import TableForm
from bridge.playground.objects.objects import Manifest, body, list_item, unpack
from bridge.playground.objects.state import State
from bridge.playground.objects.store import Forgotten, ObjectStore, Range, StoredObject

Forbids: TypeAlias = Callable[[str, str], bool]
"""Whether RBAC refuses a verb on a resource: (kubectl's name of the resource, verb)."""
_VERSION_INFO = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": "v1.36.3+playground",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "",
}
_STRATEGIC = "application/strategic-merge-patch+json"
_MERGE_PATCHES = ("application/merge-patch+json", _STRATEGIC)


@dataclass(frozen=True, slots=True)
class WholeResponse:
    """A whole response."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


def failure(error: StatusError) -> WholeResponse:
    headers = () if error.retry_after is None else (("Retry-After", str(error.retry_after)),)
    return WholeResponse(error.body(), error.code, headers=headers)


def path_not_found() -> WholeResponse:
    return WholeResponse(
        b"404 page not found\n", 404, "text/plain; charset=utf-8", (("X-Content-Type-Options", "nosniff"),)
    )


def document(state: State, request: web.BaseRequest, asked: DocumentPath) -> WholeResponse:
    """Discovery, health and version. Raises PathNotFound, StatusError."""
    match asked.parts:
        case ("healthz" | "readyz" | "livez",):
            return WholeResponse(b"ok", 200, "text/plain; charset=utf-8", (("X-Content-Type-Options", "nosniff"),))
        case ("version",):
            return WholeResponse(msgspec.json.format(encode(_VERSION_INFO), indent=2))
        case ("api" | "apis",):
            return _api_root(state, request, core=asked.parts == ("api",))
        case ("apis", group) if state.catalogue.versions(group):
            return _json(discovery.api_group(state.catalogue, group))
        case ("api", version):
            return _json(_resources(state, "", version))
        case ("apis", group, version) if state.catalogue.versions(group):
            return _json(_resources(state, group, version))
        case _:
            raise PathNotFound


def _resources(state: State, group: str, version: str) -> dict[str, Any]:
    if version not in state.catalogue.versions(group):
        raise unknown_version(state.catalogue, group)
    return discovery.api_resource_list(state.catalogue, group, version)


def _api_root(state: State, request: web.BaseRequest, *, core: bool) -> WholeResponse:
    """/api or /apis, aggregated if the client accepts that."""
    if discovery.AGGREGATED in accepted_types(request):
        text, tag = discovery.aggregated(state.catalogue, core=core)
        headers = (("ETag", tag), ("Vary", "Accept"), ("Cache-Control", "public"))
        if request.headers.get("If-None-Match") == tag:
            return WholeResponse(b"", 304, "", headers)
        return WholeResponse(text, 200, discovery.AGGREGATED, headers)
    if core:
        return _json(discovery.api_versions(request.host))
    return _json(discovery.api_group_list(state.catalogue))


async def resource(
    state: State, forbids: Forbids, request: web.BaseRequest, target: Target, form: TableForm | None
) -> WholeResponse:
    """Answers all verbs but watch. ``form``: of reads; None for plain JSON. Raises StatusError."""
    manager = request.query.get("fieldManager") or request.headers.get("User-Agent", "unknown").partition("/")[0]
    match target.verb:
        case "get":
            return await _get(state, request, target, form)
        case "list":
            return await _list(state, request, target, form)
        case "create" if target.kind.name == ACCESS_REVIEWS:
            return _review(forbids, target, await manifest_of(request, target))
        case "create" if not target.kind.watchable:
            return _json(_echo(target, await manifest_of(request, target)), 201)
        case "create":
            return _create(state, target, await manifest_of(request, target), manager)
        case "update":
            return _update(state, target, await manifest_of(request, target), manager)
        case "patch":
            return await _patch(state, request, target, manager)
        case "delete":
            return await _delete(state, request, target)
        case _:
            return _delete_collection(state, request, target)


async def _get(state: State, request: web.BaseRequest, target: Target, form: TableForm | None) -> WholeResponse:
    version = ListOptions.parse(
        target.kind, {"watch": "1"} | {k: v for k, v in request.query.items() if k == "resourceVersion"}
    )
    await state.reached(version.version_number())
    found = state.find(target.kind, target.namespace, target.name)
    if form is not None:
        return WholeResponse(form.of_one(body(target.kind, found, target.version)) + b"\n")
    return _object(target, found)


async def _list(state: State, request: web.BaseRequest, target: Target, form: TableForm | None) -> WholeResponse:
    options = ListOptions.parse(target.kind, request.query, watch=False)
    await state.reached(wanted_version(options))
    page = list_page(state.store, target.kind, target.namespace, options)
    if form is not None:
        manifests = (unpack(target.kind, each, target.version) for each in page.objects)
        return WholeResponse(form.of(manifests, page.metadata()) + b"\n")
    return WholeResponse(page.body(target.kind, target.version))


def _create(state: State, target: Target, manifest: Manifest, manager: str) -> WholeResponse:
    if target.kind.has_status(target.version):
        manifest = {name: value for name, value in manifest.items() if name != "status"}
        # A client cannot set the status by create. Pods get a status from their strategy, before any kubelet acts.
        if target.kind.name == "pods":
            manifest["status"] = {"phase": "Pending", "qosClass": "BestEffort"}
    made = state.create(target.kind, target.version, target.namespace, manifest, manager)
    return _object(target, made, 201)


def _update(state: State, target: Target, manifest: Manifest, manager: str) -> WholeResponse:
    named = (manifest.get("metadata") or {}).get("name", "")
    if named != target.name:
        why = f"the name of the object ({named}) does not match the name on the URL ({target.name})"
        raise errors.bad_request(why)
    changed = state.update(
        target.kind, target.version, target.namespace, target.name, manifest, manager, status=_which(target)
    )
    return _object(target, changed)


async def _patch(state: State, request: web.BaseRequest, target: Target, manager: str) -> WholeResponse:
    # Two different texts for 415, as on the real server: the handlers of built-in and custom kinds differ.
    if request.content_type not in _MERGE_PATCHES and not target.kind.custom:
        raise StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    if request.content_type not in _MERGE_PATCHES or (target.kind.custom and request.content_type == _STRATEGIC):
        raise errors.unsupported_media_type(_MERGE_PATCHES[0])
    patch = decoded(await request.read(), target)
    demand_metadata(patch, target)
    changed = state.patch(
        target.kind, target.version, target.namespace, target.name, patch, manager, status=_which(target)
    )
    return _object(target, changed)


def _which(target: Target) -> bool | None:
    """The part that a write may change: True for the status alone, False for all but the status, None for both (kinds
    without a status subresource)."""
    return target.subresource == "status" if target.kind.has_status(target.version) else None


async def _delete(state: State, request: web.BaseRequest, target: Target) -> WholeResponse:
    # A DELETE may carry DeleteOptions as its body; kubectl and client-go send them.
    text = await request.read()
    options = decoded(text, target) if text else {}
    demanded = options.get("preconditions") or {}
    grace = options.get("gracePeriodSeconds", request.query.get("gracePeriodSeconds"))
    seconds = None if grace is None else _seconds(grace)
    last, gone = state.delete(
        target.kind,
        target.namespace,
        target.name,
        uid=demanded.get("uid") or "",
        resource_version=demanded.get("resourceVersion") or "",
        grace=seconds,
    )
    # kube-apiserver answers a finished delete with a Status, except for pods and namespaces.
    if not gone or target.kind.name in ("pods", "namespaces"):
        return _object(target, last)
    about = errors.details(target.kind.group, target.kind.plural, target.name, uid=last.uid)
    return _json({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": about})


def _seconds(text: str | int) -> int:
    try:
        return max(0, int(text))
    except (TypeError, ValueError):
        raise errors.bad_request(f"gracePeriodSeconds is not a number of seconds: {text!r}") from None


def _delete_collection(state: State, request: web.BaseRequest, target: Target) -> WholeResponse:
    options = ListOptions.parse(target.kind, request.query, watch=False)
    page = list_page(state.store, target.kind, target.namespace, options)
    for each in page.objects:
        state.delete(target.kind, each.namespace, each.name)
    return WholeResponse(page.body(target.kind, target.version))


def _review(forbids: Forbids, target: Target, manifest: Manifest) -> WholeResponse:
    spec = manifest.get("spec")
    asked = (spec.get("resourceAttributes") if isinstance(spec, dict) else None) or {}
    if not isinstance(asked, dict):
        raise bad_request("spec.resourceAttributes is not an object")
    name = errors.qualified(asked.get("group", ""), asked.get("resource", ""))
    refused = forbids(name, asked.get("verb", ""))
    return _json({**_echo(target, manifest), "status": {"allowed": not refused}}, 201)


def _echo(target: Target, manifest: Manifest) -> Manifest:
    """The answer to a review, which is never stored."""
    typed = {"kind": target.kind.kind, "apiVersion": target.kind.api_version(target.version)}
    return {**typed, "metadata": {}, **manifest, **typed}


def _object(target: Target, stored: StoredObject, status: int = 200) -> WholeResponse:
    return WholeResponse(body(target.kind, stored, target.version) + b"\n", status)


def _json(value: dict[str, Any], status: int = 200) -> WholeResponse:
    return WholeResponse(encode(value) + b"\n", status)


# ── Pages and continue tokens ────────────────────────────────────────────────

_FORMAT = "meta.k8s.io/v1"
_LATEST = -1
"""The version in a continue token that continues with the current objects, regardless of changes since the first
page."""


@dataclass(frozen=True, slots=True)
class ListPage:
    """Objects at a version."""

    version: int
    objects: list[StoredObject]
    next_page: str
    remaining: int | None
    """The number of objects behind this page; None if it is zero, or unknown because of a selector."""

    def metadata(self) -> dict[str, Any]:
        more = {"continue": self.next_page} if self.next_page else {}
        left = {} if self.remaining is None else {"remainingItemCount": self.remaining}
        return {"resourceVersion": str(self.version), **more, **left}

    def body(self, kind: Kind, version: str) -> bytes:
        items = b",".join(list_item(kind, each, version) for each in self.objects)
        metadata = self.metadata()
        # Lists of custom kinds have an empty continue token on their last page; lists of built-in kinds have none.
        if kind.custom:
            metadata.setdefault("continue", "")
        api_version, list_kind = encode(kind.api_version(version)), encode(kind.list_kind)
        if kind.custom:
            parts = (api_version, items, list_kind, encode(metadata, sort=True))
            return b'{"apiVersion":%b,"items":[%b],"kind":%b,"metadata":%b}\n' % parts
        return b'{"kind":%b,"apiVersion":%b,"metadata":%b,"items":[%b]}\n' % (
            list_kind,
            api_version,
            encode(metadata),
            items,
        )


def wanted_version(options: ListOptions) -> int:
    """The version that the server must have reached before it answers; 0 for any. Raises StatusError."""
    if options.next_page and options.version != "0":
        return max(0, _decode(options.next_page).rv)
    return options.version_number()


def list_page(store: ObjectStore, kind: Kind, namespace: str, options: ListOptions) -> ListPage:
    """A page of a list, once the store has reached ``wanted_version``. Raises StatusError: 400 for a malformed token,
    410 for a version or a token that is too old."""
    version = options.version_number()
    after, limit = "", options.limit
    if options.next_page:
        if version:
            raise bad_request("specifying resource version is not allowed when using continue")
        token = _decode(options.next_page)
        after, version = _start(token, namespace), token.rv
        objects, version = _continued(store, kind, token) if options.version != "0" else _now(store, kind)
    # A version with a limit and without resourceVersionMatch means Exact: the API's rule from before that parameter.
    elif options.match == EXACT or (version and options.limit and not options.match):
        objects = _exact(store, kind, version)
    else:
        objects, version = _now(store, kind)
    if options.version == "0":
        # The watch cache answers lists at "0", and ignores the limit.
        limit = 0
    return _cut(objects, version, namespace, after, limit, options)


def _now(store: ObjectStore, kind: Kind) -> tuple[Range, int]:
    collection = store.collection(kind.collection)
    return Range(collection.keys, collection.objects), store.version_of(kind.collection)


def _exact(store: ObjectStore, kind: Kind, version: int) -> Range:
    try:
        return store.collection(kind.collection).at(version)
    except Forgotten:
        raise expired("The resourceVersion for the provided list is too old.") from None


def _continued(store: ObjectStore, kind: Kind, token: _Token) -> tuple[Range, int]:
    if token.rv == _LATEST:
        return _now(store, kind)
    try:
        return store.collection(kind.collection).at(token.rv), token.rv
    except Forgotten:
        raise expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list "
            "without the continue parameter, or use the continue token in this response to retrieve the remainder of "
            "the results. Continuing with the provided token results in an inconsistent list - objects that were "
            "created, modified, or deleted between the time the first chunk was returned and now may show up in the "
            "list.",
            next_page=_token(_LATEST, token.start.removeprefix("/")),
        ) from None


def _cut(objects: Range, version: int, namespace: str, after: str, limit: int, options: ListOptions) -> ListPage:
    behind = objects.under(namespace, after)
    if not limit:
        return ListPage(version, [each for each in behind if options.selection(each)], "", None)
    chosen = list(islice((each for each in behind if options.selection(each)), limit))
    # A page that ends where the collection ends needs no next one.
    more = len(chosen) == limit and any(options.selection(each) for each in objects.under(namespace, chosen[-1].key))
    if not more:
        return ListPage(version, chosen, "", None)
    remaining = None if options.selection else sum(1 for _ in objects.under(namespace, chosen[-1].key))
    return ListPage(version, chosen, _encode(version, chosen[-1].key, namespace), remaining)


class _Token(msgspec.Struct):
    v: str = ""
    rv: int = 0
    start: str = ""


def _start(token: _Token, namespace: str) -> str:
    """The key of the last object on the pages before."""
    relative = token.start.removeprefix("/").rstrip("\0")
    return f"{namespace}/{relative}" if namespace else relative


def _encode(version: int, last: str, namespace: str) -> str:
    relative = last.removeprefix(f"{namespace}/") if namespace else last
    return _token(version, f"/{relative}\0")


def _token(version: int, start: str) -> str:
    text = encode(_Token(_FORMAT, version, start))
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def _decode(text: str) -> _Token:
    try:
        token = msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=_Token)
    except (ValueError, msgspec.DecodeError) as error:  # binascii's are ValueErrors.
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from error
    why = ""
    if token.v != _FORMAT:
        why = f"server does not recognize this encoded version {token.v}"
    elif token.rv == 0:
        why = f"incorrect encoded start resourceVersion (version {_FORMAT})"
    elif not token.start:
        why = f"encoded start key empty (version {_FORMAT})"
    elif posixpath.normpath(path := "/" + token.start.removeprefix("/")) != path:
        why = token.start
    if why:
        raise bad_request(f"invalid continue token: continue key is not valid: {why}")
    return token


# ── The options of a list or a watch ─────────────────────────────────────────

EXACT, NOT_OLDER_THAN = "Exact", "NotOlderThan"
_FIELDS = ("metadata.name", "metadata.namespace")
_PARTS = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_MORE_FIELDS = {
    "events": (*(f"involvedObject.{each}" for each in _PARTS), "reason", "reportingComponent", "type"),
    "events.events.k8s.io": (*(f"regarding.{each}" for each in _PARTS), "reason", "reportingController", "type"),
    "namespaces": ("status.phase",),
    "pods": (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    "secrets": ("type",),
}
"""Those of the real server that are texts at the place that their name says. kubectl and k9s describe pods by their
events, and nodes by their pods."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Selects objects of a kind by labels and fields."""

    kind: Kind
    labels: LabelSelector
    fields: tuple[tuple[str, bool, str], ...]
    """(field, whether it must be equal, value)."""

    def __call__(self, stored: StoredObject) -> bool:
        return self.labels.matches(stored.labels) and (not self.fields or self._has_fields(stored))

    def _has_fields(self, stored: StoredObject) -> bool:
        manifest = unpack(self.kind, stored) if any(field not in _FIELDS for field, _, _ in self.fields) else {}
        manifest["metadata"] = {"name": stored.name, "namespace": stored.namespace}
        return all((_text_at(manifest, field) == value) is equal for field, equal, value in self.fields)

    def __bool__(self) -> bool:
        """False if it selects all objects."""
        return bool(self.labels or self.fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    """The options of a client's list or watch."""

    watch: bool
    selection: Selection
    limit: int
    """0 for all."""
    next_page: str
    version: str
    """As sent: "" and "0" have special meanings."""
    match: str
    timeout: int
    """Seconds; 0 leaves the choice to the server."""
    bookmarks: bool
    initial_events: bool | None
    """sendInitialEvents; None if the query has no such parameter."""

    @classmethod
    def parse(cls, kind: Kind, query: Mapping[str, str], *, watch: bool | None = None) -> ListOptions:
        """Raises StatusError: 400 for malformed parameters, 422 for parameters that exclude each other."""
        options = cls(
            watch=_flag(query, "watch") or False if watch is None else watch,
            selection=Selection(
                kind, _labels(query.get("labelSelector", "")), _field_terms(query.get("fieldSelector", ""), kind)
            ),
            limit=max(0, _integer(query, "limit")),
            next_page=query.get("continue", ""),
            version=query.get("resourceVersion", ""),
            match=query.get("resourceVersionMatch", ""),
            timeout=max(0, _integer(query, "timeoutSeconds")),
            bookmarks=_flag(query, "allowWatchBookmarks") or False,
            initial_events=_flag(query, "sendInitialEvents"),
        )
        causes = _watch_mistakes(options) if options.watch else _list_mistakes(options)
        if causes:
            raise invalid("meta.k8s.io", "ListOptions", "", causes)
        return options

    def version_number(self) -> int:
        """The resourceVersion as a number; 0 if none was sent. Raises StatusError for a malformed version: 400 to a
        list, 500 to a watch, as the real server does."""
        if not self.version:
            return 0
        if re.fullmatch("[0-9]{1,19}", self.version):
            return int(self.version)
        fault = "value out of range" if re.fullmatch("[0-9]+", self.version) else "invalid syntax"
        unread = f'strconv.ParseUint: parsing "{self.version}": {fault}'
        why = f'resourceVersion: Invalid value: "{self.version}": {unread}'
        raise StatusError(500, "", why) if self.watch else bad_request(f"invalid resource version: {why}")


def _list_mistakes(options: ListOptions) -> list[tuple[str, str, str]]:
    causes = []
    if options.match:
        if not options.version:
            causes.append(_forbidden_match("is forbidden unless resourceVersion is provided"))
        if options.next_page:
            causes.append(_forbidden_match("is forbidden when continue is provided"))
        if options.match not in (EXACT, NOT_OLDER_THAN):
            causes.append(_unknown_match(options.match, f'"{EXACT}", "{NOT_OLDER_THAN}", ""'))
        if options.match == EXACT and options.version == "0":
            # The real server writes this value with a small letter here, and with a capital everywhere else.
            causes.append(_forbidden_match('"exact" is forbidden for resourceVersion "0"'))
    if options.initial_events is not None:
        causes.append(_forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return causes


def _watch_mistakes(options: ListOptions) -> list[tuple[str, str, str]]:
    causes = []
    if options.initial_events is not None and options.match != NOT_OLDER_THAN:
        why = f"sendInitialEvents requires setting resourceVersionMatch to {NOT_OLDER_THAN}"
        causes.append(_forbidden("resourceVersionMatch", why))
    if options.match:
        if options.initial_events is None:
            causes.append(_forbidden_match("is forbidden for watch unless sendInitialEvents is provided"))
        if options.match != NOT_OLDER_THAN:
            causes.append(_unknown_match(options.match, f'"{NOT_OLDER_THAN}"'))
        if options.next_page:
            causes.append(_forbidden_match("is forbidden when continue is provided"))
    return causes


def _forbidden(field: str, why: str) -> tuple[str, str, str]:
    return ("FieldValueForbidden", f"Forbidden: {why}", field)


def _forbidden_match(why: str) -> tuple[str, str, str]:
    return _forbidden("resourceVersionMatch", f"resourceVersionMatch {why}")


def _unknown_match(found: str, known: str) -> tuple[str, str, str]:
    return (
        "FieldValueNotSupported",
        f'Unsupported value: "{found}": supported values: {known}',
        "resourceVersionMatch",
    )


def _flag(query: Mapping[str, str], name: str) -> bool | None:
    """All values but ``0`` and ``false`` mean True, the empty value too."""
    value = query.get(name)
    return None if value is None else value.lower() not in ("0", "false")


def _integer(query: Mapping[str, str], name: str) -> int:
    value = query.get(name, "") or "0"
    if re.fullmatch("[+-]?[0-9]{1,18}", value):
        return int(value)
    fault = "value out of range" if re.fullmatch("[+-]?[0-9]+", value) else "invalid syntax"
    raise bad_request(f'strconv.ParseInt: parsing "{value}": {fault}')


def _labels(text: str) -> LabelSelector:
    try:
        return LabelSelector.parse(text)
    except SelectorError as error:
        raise bad_request(f"unable to parse requirement: {error}") from error


def _text_at(manifest: Manifest, field: str) -> str:
    value: Any = manifest
    for name in field.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value or ""


def _field_terms(text: str, kind: Kind) -> tuple[tuple[str, bool, str], ...]:
    more = _MORE_FIELDS.get(kind.name, ())
    terms = []
    for term in filter(None, text.split(",")):
        found = re.fullmatch(r"([^=!]*)(==|!=|=)(.*)", term)
        if found is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        if found[1] not in (*_FIELDS, *more):
            known = ", ".join(f'"{field}"' for field in _FIELDS)
            only = f'"{found[1]}" is not a known field selector: only {known}'
            raise bad_request(f"field label not supported: {found[1]}" if more else only)
        terms.append((found[1], found[2] != "!=", found[3]))
    return tuple(terms)
