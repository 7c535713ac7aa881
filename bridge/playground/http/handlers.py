"""Answers requests for documents, reads and writes. Watches are in ``streams``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec
from aiohttp import web

from bridge.playground.http import discovery, errors
from bridge.playground.http.encoding import encode
from bridge.playground.http.errors import PathNotFound, StatusError
from bridge.playground.http.listing import list_page, wanted_version
from bridge.playground.http.options import ListOptions
from bridge.playground.http.paths import DocumentPath, Target, unknown_version
from bridge.playground.http.requests import accepted_types, decoded, demand_metadata, manifest_of
from bridge.playground.objects.objects import Manifest, body
from bridge.playground.objects.state import State
from bridge.playground.objects.store import StoredObject
from bridge.playground.objects.validation import Precondition

Forbids: TypeAlias = Callable[[str, str, str], bool]
"""Whether RBAC refuses a verb on a resource (kubectl's name) in a namespace: (resource, verb, namespace)."""

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
            return WholeResponse(msgspec.json.format(encode(state.version_info), indent=2))
        case ("api" | "apis",):
            return _api_root(state, request, core=asked.parts == ("api",))
        case ("apis", group) if state.catalogue.versions(group):
            return _json(discovery.api_group(state.catalogue, group))
        case ("api", version):
            return _json(_resources(state, "", version))
        case ("apis", group, version) if state.catalogue.versions(group):
            return _json(_resources(state, group, version))
        case _:
            raise PathNotFound(request.path)


async def resource(state: State, forbids: Forbids, request: web.BaseRequest, target: Target) -> WholeResponse:
    """Answers all verbs but watch. Raises StatusError."""
    manager = request.query.get("fieldManager") or request.headers.get("User-Agent", "unknown").partition("/")[0]
    match target.verb:
        case "get":
            return await _get(state, request, target)
        case "list":
            return await _list(state, request, target)
        case "create" if target.kind.plural == "selfsubjectaccessreviews":
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


async def _get(state: State, request: web.BaseRequest, target: Target) -> WholeResponse:
    version = ListOptions.parse({"watch": "1"} | {k: v for k, v in request.query.items() if k == "resourceVersion"})
    await state.reached(version.version_number())
    return _object(target, state.writes.find(target.kind, target.namespace, target.name))


async def _list(state: State, request: web.BaseRequest, target: Target) -> WholeResponse:
    options = ListOptions.parse(request.query, watch=False)
    await state.reached(wanted_version(options))
    page = list_page(state.store, target.kind, target.namespace, options)
    return WholeResponse(page.body(target.kind, target.version))


def _create(state: State, target: Target, manifest: Manifest, manager: str) -> WholeResponse:
    if target.kind.has_status(target.version):
        manifest = {name: value for name, value in manifest.items() if name != "status"}
        # A client cannot set the status by create. Pods get a status from their strategy, before any kubelet acts.
        if target.kind.name == "pods":
            manifest["status"] = {"phase": "Pending", "qosClass": "BestEffort"}
    made = state.writes.create(target.kind, target.version, target.namespace, manifest, manager)
    return _object(target, made, 201)


def _update(state: State, target: Target, manifest: Manifest, manager: str) -> WholeResponse:
    named = (manifest.get("metadata") or {}).get("name", "")
    if named != target.name:
        why = f"the name of the object ({named}) does not match the name on the URL ({target.name})"
        raise errors.bad_request(why)
    changed = state.writes.update(
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
    changed = state.writes.patch(
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
    demand = Precondition(uid=demanded.get("uid") or "", resource_version=demanded.get("resourceVersion") or "")
    grace = options.get("gracePeriodSeconds", request.query.get("gracePeriodSeconds"))
    seconds = None if grace is None else _seconds(grace)
    last, gone = state.writes.delete(target.kind, target.namespace, target.name, demand, seconds)
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
    options = ListOptions.parse(request.query, watch=False)
    page = list_page(state.store, target.kind, target.namespace, options)
    for each in page.objects:
        state.writes.delete(target.kind, each.namespace, each.name)
    return WholeResponse(page.body(target.kind, target.version))


def _review(forbids: Forbids, target: Target, manifest: Manifest) -> WholeResponse:
    asked = (manifest.get("spec") or {}).get("resourceAttributes") or {}
    name = errors.qualified(asked.get("group", ""), asked.get("resource", ""))
    refused = forbids(name, asked.get("verb", ""), asked.get("namespace", ""))
    return _json({**_echo(target, manifest), "status": {"allowed": not refused}}, 201)


def _echo(target: Target, manifest: Manifest) -> Manifest:
    """The answer to a review, which is never stored."""
    typed = {"kind": target.kind.kind, "apiVersion": target.kind.api_version(target.version)}
    return {**typed, "metadata": {}, **manifest, **typed}


def _object(target: Target, stored: StoredObject, status: int = 200) -> WholeResponse:
    return WholeResponse(body(target.kind, stored, target.version) + b"\n", status)


def _json(value: dict[str, Any], status: int = 200) -> WholeResponse:
    return WholeResponse(encode(value) + b"\n", status)


def _resources(state: State, group: str, version: str) -> dict[str, Any]:
    if version not in state.catalogue.versions(group):
        raise unknown_version(state.catalogue, group, version)
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
