"""Takes members out of an object by splicing its bytes; what stays is copied, not decoded and encoded again. Pure."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Raw

_members = msgspec.json.Decoder(dict[str, Raw])
_encode = msgspec.json.Encoder().encode

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""A copy of the whole object inside itself, Secret data included."""

_LAST_APPLIED = LAST_APPLIED.encode()
_MANAGED_FIELDS = b'"managedFields":'
_METADATA = b'"metadata":{'
_HEAD = 200
"""Bytes in which kind and apiVersion have been told."""
_COMMA = ord(",")


class _Metadata(msgspec.Struct):
    managed_fields: Raw = msgspec.field(name="managedFields", default=Raw(b""))
    annotations: Raw = Raw(b"")


class _Object(msgspec.Struct):
    metadata: _Metadata


_metadata_of = msgspec.json.Decoder(_Object).decode


def members(raw: bytes | Raw) -> dict[str, Raw]:
    """The members of one JSON object, values as bytes. Raises msgspec.DecodeError for anything but an object."""
    return _members.decode(raw)


def joined(parts: dict[str, Raw]) -> Raw:
    return Raw(_encode(parts))


def stripped(body: bytes) -> bytes:
    """Without ``metadata.managedFields`` and the last-applied annotation. Raises msgspec.DecodeError for a body whose
    metadata or annotations are no JSON objects."""
    start = body.find(_MANAGED_FIELDS)
    if start < 0:
        return body if _LAST_APPLIED not in body else with_metadata(body, _strip)
    short = _without_managed_fields(body, start)
    return with_metadata(body, _strip) if short is None else short


def _without_managed_fields(body: bytes, start: int) -> bytes | None:
    """Cut out of the body, where its metadata comes first and ``start`` is where these are named: half the cost of
    taking it apart. None where it is not as kube-apiserver writes it, or where there is more to take out."""
    if not 0 <= body.find(_METADATA, 0, _HEAD) < start:
        return None
    metadata = _metadata_of(body).metadata
    value, begin = bytes(metadata.managed_fields), start + len(_MANAGED_FIELDS)
    if not value or not body.startswith(value, begin) or _LAST_APPLIED in bytes(metadata.annotations):
        return None
    end = begin + len(value)
    if body[start - 1] == _COMMA:
        start -= 1
    elif body[end] == _COMMA:
        end += 1
    return body[:start] + body[end:]


def with_metadata(body: bytes, change: Callable[[dict[str, Raw]], None]) -> bytes:
    """The body with its ``metadata`` changed in place by ``change``."""
    top = members(body)
    metadata = members(top["metadata"])
    change(metadata)
    top["metadata"] = joined(metadata)
    return _encode(top)


def _strip(metadata: dict[str, Raw]) -> None:
    metadata.pop("managedFields", None)
    if "annotations" not in metadata or _LAST_APPLIED not in bytes(metadata["annotations"]):
        return
    annotations = members(metadata["annotations"])
    annotations.pop(LAST_APPLIED, None)
    if annotations:
        metadata["annotations"] = joined(annotations)
    else:
        del metadata["annotations"]
