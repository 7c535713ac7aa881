"""A version of a Kubernetes object: its identity, and its bytes. ``cut`` is hot."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from bridge.model.resource import Resource

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""An annotation of ``kubectl apply`` with a copy of the whole object, Secret data included."""
_LAST_APPLIED = LAST_APPLIED.encode()
_MAY_BE_REMOVED = (b"/last-", b"/applied", b"kapp.", b"token")
"""At least one of these is in the name of every annotation that stripping or redaction looks for, last-applied
included."""
DIGEST_PREFIX = "hmac-sha256:"
"""The beginning of a digest in place of a redacted value."""
MASKED = "[redacted]"
"""The text in place of a masked value."""
_MANAGED_FIELDS = b'"managedFields":'
_METADATA = b'"metadata":{'
_HEAD = 200
"""Bytes in which kind and apiVersion are written."""


class _LabelsOnly(msgspec.Struct):
    labels: dict[str, str] | None = None


class _MetadataOnly(msgspec.Struct):
    metadata: _LabelsOnly


_labels_decoder = msgspec.json.Decoder(_MetadataOnly)
_members = msgspec.json.Decoder(dict[str, Raw])
_encode = msgspec.json.Encoder().encode


def is_digest_in(text: str) -> bool:
    """Whether redaction has put a digest into this text."""
    return DIGEST_PREFIX in text


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
    """True if the body is known to be without ``managedFields``, ``LAST_APPLIED`` and annotations that redaction looks
    for, so that the transform need not search for them."""
    secret: bool = False
    """The body claims to be a Secret of the core group, whatever resource the API server served it as."""
    managers: bytes = b""
    """The entries of ``managedFields`` (``formats.managers``), where a sink asks for them; empty elsewhere."""

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


# ── Members that every object loses ──────────────────────────────────────────


def cut(text: bytes, start: int, stop: int, managed_fields: bytes, annotations: bytes) -> tuple[bytes, bool]:
    """Copies the object in ``text[start:stop]`` without its ``managedFields`` (two fifths of a pod), and returns
    whether the transform has no more members of the metadata to look for: the decoder has found both members already,
    given here as they are written (empty without the member), and a second pass would cost as much.

    The copy is whole if ``managedFields`` are not in kube-apiserver's format; then ``stripped`` removes them. Hot."""
    one, two, three, four = _MAY_BE_REMOVED
    done = one not in annotations and two not in annotations and three not in annotations and four not in annotations
    # An array: a label or an annotation of that name would be a string.
    if not managed_fields.startswith(b"["):
        return text[start:stop], done and not managed_fields
    head = text.find(_METADATA, start, start + _HEAD)
    at = text.find(_MANAGED_FIELDS, head, stop)
    end = at + len(_MANAGED_FIELDS) + len(managed_fields)
    # A single opening brace before the metadata: it is the object's own, not that of a member such as a template.
    is_own = head >= 0 and at >= 0 and text.count(b"{", start, head) == 1
    if not is_own or not text.startswith(managed_fields, end - len(managed_fields)):
        return text[start:stop], False
    if text.startswith(b",", at - 1):
        at -= 1
    elif text.startswith(b",", end):
        end += 1
    view = memoryview(text)
    return b"".join((view[start:at], view[end:stop])), done


def stripped(body: bytes) -> bytes:
    """The body without ``metadata.managedFields`` (if ``cut`` has left them) and without the last-applied annotation;
    the other members are copied, not decoded and encoded. Raises msgspec.DecodeError for a body whose metadata or
    annotations are not JSON objects."""
    if _MANAGED_FIELDS not in body and _LAST_APPLIED not in body:
        return body
    top = _members.decode(body)
    metadata = _members.decode(top["metadata"])
    metadata.pop("managedFields", None)
    if "annotations" in metadata and _LAST_APPLIED in bytes(metadata["annotations"]):
        annotations = _members.decode(metadata["annotations"])
        annotations.pop(LAST_APPLIED, None)
        if annotations:
            metadata["annotations"] = Raw(_encode(annotations))
        else:
            del metadata["annotations"]
    top["metadata"] = Raw(_encode(metadata))
    return _encode(top)


def at_version(thing: ApiObject, version: str) -> ApiObject:
    """The object with another resourceVersion, as the event of a delete has its last state with the version of the
    delete. The other members are copied, not decoded and encoded. Raises msgspec.DecodeError for a body whose metadata
    are no JSON object."""
    top = _members.decode(thing.body)
    metadata = _members.decode(top["metadata"])
    metadata["resourceVersion"] = Raw(_encode(version))
    top["metadata"] = Raw(_encode(metadata))
    return msgspec.structs.replace(thing, resource_version=version, body=_encode(top))
