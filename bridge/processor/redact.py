"""Takes what is secret out of a Secret, and fails closed. Pure.

Names stay, so that a consumer sees which keys there are; values go. Annotations of a Secret lose their values too:
tools keep tokens there.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw

from bridge.model.object import ApiObject
from bridge.model.resource import Resource
from bridge.processor.strip import joined, members, with_metadata

REDACTED_DATA = Raw(b'"cmVkYWN0ZWQ="')
"""In ``data``: base64 of "redacted", so that what reads a Secret can still read this one."""
REDACTED_TEXT = Raw(b'"redacted"')

_encode = msgspec.json.Encoder().encode


def is_secret(resource: Resource) -> bool:
    """Every object of it is a Secret. So is what calls itself one in another resource (``ApiObject.secret``)."""
    return resource.group == "" and (resource.plural == "secrets" or resource.kind == "Secret")


def redacted(body: bytes) -> bytes:
    """A Secret without its values. Raises msgspec.DecodeError or KeyError where it has not the shape of one; then
    nothing of it may leave (see ``bare``)."""
    top = members(body)
    for member, replacement in (("data", REDACTED_DATA), ("stringData", REDACTED_TEXT)):
        if member in top:
            top[member] = _values_replaced(top[member], replacement)
    return with_metadata(_encode(top), _redact_annotations)


def bare(thing: ApiObject, resource: Resource) -> bytes:
    """An object of which nothing is told but which one it is."""
    metadata = {"name": thing.name, "uid": thing.uid, "resourceVersion": thing.resource_version}
    if thing.namespace:
        metadata["namespace"] = thing.namespace
    return _encode({"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata})


def _redact_annotations(metadata: dict[str, Raw]) -> None:
    if "annotations" in metadata:
        metadata["annotations"] = _values_replaced(metadata["annotations"], REDACTED_TEXT)


def _values_replaced(raw: Raw, replacement: Raw) -> Raw:
    if bytes(raw) == b"null":
        return raw
    return joined(dict.fromkeys(members(raw), replacement))
