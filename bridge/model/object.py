"""One state of one Kubernetes object: what tells it apart, and its bytes."""

from __future__ import annotations

from typing import Any

import msgspec

from bridge.model.resource import Resource

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""An annotation with a copy of the whole object inside itself, Secret data included."""


class _LabelsOnly(msgspec.Struct):
    labels: dict[str, str] | None = None


class _MetadataOnly(msgspec.Struct):
    metadata: _LabelsOnly


_labels_decoder = msgspec.json.Decoder(_MetadataOnly)
_encode = msgspec.json.Encoder().encode


def object_key(namespace: str, name: str) -> str:
    """``namespace/name``, or the name alone where there is no namespace (client-go's MetaNamespaceKeyFunc)."""
    return f"{namespace}/{name}" if namespace else name


def bare_body(resource: Resource, key: str, uid: str, resource_version: str) -> bytes:
    """An object of which nothing is told but which one it is, by kind, name, uid and version."""
    namespace, _, name = key.rpartition("/")
    metadata = {"name": name, "uid": uid, "resourceVersion": resource_version}
    if namespace:
        metadata["namespace"] = namespace
    return _encode({"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata})


class ApiObject(msgspec.Struct, frozen=True, gc=False):
    """One version of one object. ``body`` is JSON as the API server sent it (``kind`` and ``apiVersion`` included);
    it is shared by every reader and decoded only for those who ask."""

    key: str
    """``namespace/name`` or ``name``; unique within a resource."""
    uid: str
    resource_version: str
    body: bytes
    stripped: bool = False
    """It is known that ``managedFields`` and the annotation ``LAST_APPLIED`` are not in it: nobody has to look."""
    secret: bool = False
    """The body calls itself a Secret of the core group, whatever the resource is called that it came as."""

    @property
    def namespace(self) -> str:
        """Empty for cluster-scoped objects."""
        return self.key.rpartition("/")[0]

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]

    def labels(self) -> dict[str, str]:
        """None for an object whose labels are not text under text: an aggregated API may serve anything."""
        try:
            return _labels_decoder.decode(self.body).metadata.labels or {}
        except msgspec.ValidationError:
            return {}

    def manifest(self) -> dict[str, Any]:
        """The whole object, decoded anew at every call."""
        return msgspec.json.decode(self.body)  # type: ignore[no-any-return]
