"""Packs manifests into stored bytes and back, with members in the real server's order."""

from __future__ import annotations

from typing import Any, TypeAlias

from bridge.model.object import object_key
from bridge.playground.http.encoding import decode, encode
from bridge.playground.objects.catalogue import Kind
from bridge.playground.objects.store import StoredObject

Manifest: TypeAlias = dict[str, Any]

_METADATA = (
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
)
"""ObjectMeta's members in the order of its Go struct."""

_MAPS = ("data", "binaryData", "stringData")
"""Members that are maps in Go, which writes them sorted by name."""

_API_VERSION = "~apiVersion~kubedelta~"
_RESOURCE_VERSION = "~resourceVersion~kubedelta~"


def pack(kind: Kind, manifest: Manifest, version: int) -> StoredObject:
    """Packs a manifest, and leaves it unchanged. ``metadata`` has name, uid and, for a namespaced kind, namespace."""
    metadata = manifest["metadata"]
    ordered = {**manifest, "kind": kind.kind, "apiVersion": _API_VERSION}
    kept = {name: value for name, value in metadata.items() if value not in ({}, [], None, "")}
    ordered["metadata"] = {**kept, "resourceVersion": _RESOURCE_VERSION}
    # Encoded once with two markers, and cut there: every API version and every DELETED event reuses these bytes.
    text = encode(ordered, sort=True) if kind.custom else encode(_in_go_order(ordered))
    opening, _, rest = text.partition(_API_VERSION.encode())
    middle, _, closing = rest.partition(_RESOURCE_VERSION.encode())
    return StoredObject(
        key=object_key(metadata.get("namespace", ""), metadata["name"]),
        uid=metadata["uid"],
        version=version,
        labels=dict(metadata.get("labels") or {}),
        opening=opening,
        middle=middle,
        closing=closing,
    )


def unpack(kind: Kind, stored: StoredObject, version: str = "", at: int | None = None) -> Manifest:
    """The whole object, decoded at every call, so that the caller may change it."""
    manifest: Manifest = decode(body(kind, stored, version, at))
    return manifest


def body(kind: Kind, stored: StoredObject, version: str = "", at: int | None = None) -> bytes:
    """JSON in an API version (by default the preferred version); ``at`` replaces the object's resourceVersion."""
    return stored.body(kind.api_version(version or kind.versions[0]).encode(), at)


def list_item(kind: Kind, stored: StoredObject, version: str) -> bytes:
    """JSON of a list item: built-in kinds leave out kind and apiVersion in lists."""
    if kind.custom:
        return body(kind, stored, version)
    return b"{%b%d%b" % (stored.middle.removeprefix(b'",'), stored.version, stored.closing)


def _in_go_order(manifest: Manifest) -> Manifest:
    ordered: Manifest = {"kind": manifest["kind"], "apiVersion": manifest["apiVersion"]}
    metadata = manifest["metadata"]
    ordered["metadata"] = {name: metadata[name] for name in _METADATA if name in metadata}
    for name in ("labels", "annotations"):
        if name in metadata:
            ordered["metadata"][name] = _by_name(metadata[name])
    for name, value in manifest.items():
        if name not in ordered and not (name in _MAPS and not value):
            ordered[name] = _by_name(value) if name in _MAPS else value
    return ordered


def _by_name(members: Any) -> Any:
    return dict(sorted(members.items())) if isinstance(members, dict) else members
