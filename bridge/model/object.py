"""A version of a Kubernetes object: its identity, and its bytes."""

from __future__ import annotations

from typing import Any

import msgspec

from bridge.model.resource import Resource

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""An annotation of ``kubectl apply`` with a copy of the whole object, Secret data included."""


class _LabelsOnly(msgspec.Struct):
    labels: dict[str, str] | None = None


class _MetadataOnly(msgspec.Struct):
    metadata: _LabelsOnly


_labels_decoder = msgspec.json.Decoder(_MetadataOnly)
_encode = msgspec.json.Encoder().encode


def object_key(namespace: str, name: str) -> str:
    """``namespace/name``, or the name alone without a namespace (client-go's MetaNamespaceKeyFunc)."""
    return f"{namespace}/{name}" if namespace else name


def bare_body(resource: Resource, key: str, uid: str, resource_version: str) -> bytes:
    """A minimal object, as JSON: kind, apiVersion, name, namespace, uid, resourceVersion."""
    namespace, _, name = key.rpartition("/")
    metadata = {"name": name, "uid": uid, "resourceVersion": resource_version}
    if namespace:
        metadata["namespace"] = namespace
    return _encode({"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata})


class ApiObject(msgspec.Struct, frozen=True, gc=False):
    """A version of an object. ``body`` is the API server's JSON (with ``kind`` and ``apiVersion``); all readers share
    the bytes, and few decode them."""

    key: str
    """``namespace/name`` or ``name``; unique within a resource."""
    uid: str
    resource_version: str
    body: bytes
    stripped: bool = False
    """True if the body is known to be without ``managedFields`` and ``LAST_APPLIED``, so that the pipeline need not
    search for them."""
    secret: bool = False
    """The body claims to be a Secret of the core group, whatever resource the API server served it as."""

    @property
    def namespace(self) -> str:
        """Empty for cluster-scoped objects."""
        return self.key.rpartition("/")[0]

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]

    def labels(self) -> dict[str, str]:
        """Empty for labels of a wrong form, which an aggregated API may serve."""
        try:
            return _labels_decoder.decode(self.body).metadata.labels or {}
        except msgspec.ValidationError:
            return {}

    def manifest(self) -> dict[str, Any]:
        """The whole object, decoded anew at every call."""
        return msgspec.json.decode(self.body)  # type: ignore[no-any-return]
