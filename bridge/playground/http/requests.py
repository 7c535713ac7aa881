"""Reads requests: resolves a path to an object, a collection or a document, and takes accepted media types and
manifests from headers and bodies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from aiohttp import web

from bridge.model.primitives.protobuf import MalformedMessage, bytes_in, message, text_in
from bridge.playground.http import discovery, errors
from bridge.playground.http.errors import PathNotFound, StatusError, encode, method_not_allowed, resource_not_found
from bridge.playground.objects.catalogue import Kind, ServedKinds
from bridge.playground.objects.objects import Manifest

_NAMED = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
ACCESS_REVIEWS = "selfsubjectaccessreviews.authorization.k8s.io"
_ATTRIBUTES = {"namespace": 1, "verb": 2, "group": 3, "version": 4, "resource": 5, "subresource": 6, "name": 7}
"""Field numbers of ResourceAttributes."""
_UNNAMED = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}


@dataclass(frozen=True, slots=True)
class DocumentPath:
    """A path of a document: discovery, health, version. ``parts`` are its segments."""

    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Target:
    """A request to a resource."""

    kind: Kind
    version: str
    namespace: str
    """"" for all namespaces, or for a kind without namespaces."""
    name: str
    """"" for the collection."""
    subresource: str
    verb: str
    """RBAC's: get, list, watch, create, update, patch, delete, deletecollection."""


def resolve(catalogue: ServedKinds, method: str, path: str, query: Mapping[str, str]) -> DocumentPath | Target:
    """Raises PathNotFound for paths outside of the API, StatusError (404, 405) for unserved paths and verbs inside."""
    parts = tuple(part for part in path.split("/") if part)
    match parts:
        case ("api", version, *rest) if rest:
            group = ""
        case ("apis", group, version, *rest) if rest:
            pass
        case _:
            return DocumentPath(parts)
    if version not in catalogue.versions(group):
        raise unknown_version(catalogue, group)
    # /api/v1/watch/… is the API's deprecated form of ?watch=true.
    watch = rest[0] == "watch" or query.get("watch", "false").lower() not in ("false", "0")
    kind, namespace, name, subresource = _locate(catalogue, group, version, rest[1:] if rest[0] == "watch" else rest)
    verb = _verb(kind, method, namespace, name, subresource)
    return Target(kind, version, namespace, name, subresource, "watch" if verb == "list" and watch else verb)


def unknown_version(catalogue: ServedKinds, group: str) -> Exception:
    """The error for an unknown version. The real server answers in JSON if it knows the group, else in plain text."""
    return resource_not_found() if catalogue.versions(group) else PathNotFound()


def _locate(catalogue: ServedKinds, group: str, version: str, rest: list[str]) -> tuple[Kind, str, str, str]:
    namespace = ""
    # /namespaces/shop/status is a subresource of the namespace, and no collection in it.
    if len(rest) > 2 and rest[0] == "namespaces" and (kind := catalogue.at(group, version, rest[2])):
        namespace, rest = rest[1], rest[2:]
        if not kind.namespaced:
            raise resource_not_found()
    found = catalogue.at(group, version, rest[0]) if rest else None
    if found is None or len(rest) > 3:
        raise resource_not_found()
    name, subresource = (*rest[1:], "", "")[:2]
    if name and found.namespaced and not namespace:
        raise resource_not_found()
    if subresource and not (subresource == "status" and found.has_status(version)):
        raise resource_not_found()
    return found, namespace, name, subresource


def _verb(kind: Kind, method: str, namespace: str, name: str, subresource: str) -> str:
    verb = (_NAMED if name else _UNNAMED).get(method, "")
    elsewhere = kind.namespaced and not namespace and verb in ("create", "deletecollection")
    if verb not in kind.verbs or elsewhere or (subresource and verb == "delete"):
        raise method_not_allowed()
    return verb


async def manifest_of(request: web.BaseRequest, target: Target) -> Manifest:
    """The manifest in the request's body. Raises StatusError (415, 400)."""
    if request.content_type == "application/vnd.kubernetes.protobuf" and target.kind.name == ACCESS_REVIEWS:
        return _review(await request.read(), target)
    if request.content_type not in ("application/json", "application/octet-stream"):
        raise errors.unsupported_media_type("application/json")
    manifest = decoded(await request.read(), target)
    demand_metadata(manifest, target)
    kind, version = target.kind, target.kind.api_version(target.version)
    if kind.custom and not (manifest.get("kind") and manifest.get("apiVersion")):
        raise _unrecognized(target, "Object 'Kind' is missing")
    if manifest.get("kind", kind.kind) != kind.kind or manifest.get("apiVersion", version) != version:
        found = f"{manifest.get('kind', kind.kind)} in version {encode(manifest.get('apiVersion', version)).decode()}"
        raise errors.bad_request(f"{found} cannot be handled as a {kind.kind}")
    named = (manifest.get("metadata") or {}).get("namespace")
    if kind.namespaced and named and named != target.namespace:
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    return manifest


def _review(text: bytes, target: Target) -> Manifest:
    """Of a SelfSubjectAccessReview, which clients with types (k9s, ``kubectl auth can-i``) send in Protocol Buffers,
    and in nothing else. Field numbers are those of k8s.io/api's authorization/v1/generated.proto, in the ``raw`` of a
    runtime.Unknown."""
    try:
        review = message(bytes_in(message(text.removeprefix(b"k8s\0")), 2))
        asked = message(bytes_in(message(bytes_in(review, 2)), 1))
        attributes = {name: text_in(asked, number) for name, number in _ATTRIBUTES.items()}
    except (MalformedMessage, UnicodeDecodeError) as error:
        raise _unrecognized(target, str(error)) from error
    return {"spec": {"resourceAttributes": {name: value for name, value in attributes.items() if value}}}


def decoded(text: bytes, target: Target) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise _unrecognized(target, f"couldn't get version/kind; json parse error: {error}") from error


def demand_metadata(manifest: Manifest, target: Target) -> None:
    if not isinstance(manifest.get("metadata"), dict | None):
        raise _unrecognized(target, "metadata is not an object")


def _unrecognized(target: Target, why: str) -> StatusError:
    return errors.bad_request(f"the object provided is unrecognized (must be of type {target.kind.kind}): {why}")


def demand_acceptable(request: web.BaseRequest, *, discovers: bool) -> None:
    """Raises StatusError (406) for a client that does not accept JSON."""
    if not any(
        _is_plain_json(each) or (discovers and each == discovery.AGGREGATED) for each in accepted_types(request)
    ):
        raise _not_acceptable(request)


def accepted_form(request: web.BaseRequest) -> str:
    """The form in which the client prefers objects: the apiVersion of a Table, or "" for plain JSON. Raises StatusError
    (406) for a client that accepts neither."""
    for each in accepted_types(request):
        name, *parameters = each.split(";")
        named = dict(parameter.partition("=")[::2] for parameter in parameters)
        if name == "application/json" and named.get("as") == "Table" and named.get("g") == "meta.k8s.io":
            if named.get("v") in ("v1", "v1beta1"):
                return f"meta.k8s.io/{named['v']}"
        elif _is_plain_json(each):
            return ""
    raise _not_acceptable(request)


def _not_acceptable(request: web.BaseRequest) -> StatusError:
    # The real server refuses an unknown form of JSON with other details than another format.
    known = any(each.startswith("application/json") for each in accepted_types(request))
    return errors.not_acceptable(None if known else {})


def accepted_types(request: web.BaseRequest) -> list[str]:
    return [each.strip().replace(" ", "") for each in (request.headers.get("Accept") or "*/*").split(",")]


def _is_plain_json(media_type: str) -> bool:
    name, _, parameters = media_type.partition(";")
    return name in ("application/json", "application/*", "*/*") and "as=" not in parameters
