"""Reads requests: accepted media types, and manifests in bodies."""

from __future__ import annotations

from typing import Any

import msgspec
from aiohttp import web

from bridge.playground.http import discovery, errors
from bridge.playground.http.encoding import encode
from bridge.playground.http.errors import StatusError
from bridge.playground.http.paths import Target
from bridge.playground.objects.objects import Manifest


async def manifest_of(request: web.BaseRequest, target: Target) -> Manifest:
    """The manifest in the request's body. Raises StatusError (415, 400)."""
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


def decoded(text: bytes, target: Target) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeError) as error:
        raise _unrecognized(target, f"couldn't get version/kind; json parse error: {error}") from error


def demand_metadata(manifest: Manifest, target: Target) -> None:
    if not isinstance(manifest.get("metadata"), dict | None):
        raise _unrecognized(target, "metadata is not an object")


def _unrecognized(target: Target, why: str) -> StatusError:
    return errors.bad_request(f"the object provided is unrecognized (must be of type {target.kind.kind}): {why}")


def demand_acceptable(request: web.BaseRequest, *, discovers: bool) -> None:
    """Raises StatusError (406) for a client that does not accept JSON."""
    if any(_is_plain_json(each) or (discovers and each == discovery.AGGREGATED) for each in accepted_types(request)):
        return
    # The real server refuses an unknown form of JSON with other details than another format.
    known = any(each.startswith("application/json") for each in accepted_types(request))
    raise errors.not_acceptable(None if known else {})


def accepted_types(request: web.BaseRequest) -> list[str]:
    return [each.strip().replace(" ", "") for each in (request.headers.get("Accept") or "*/*").split(",")]


def _is_plain_json(media_type: str) -> bool:
    """True for plain JSON. Clients that prefer Table or PartialObjectMetadata list plain JSON as well."""
    name, _, parameters = media_type.partition(";")
    return name in ("application/json", "application/*", "*/*") and "as=" not in parameters
