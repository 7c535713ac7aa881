"""Takes members out of an object by splicing its bytes; the other members are copied, not decoded and encoded. Pure.

Hot.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Raw

from bridge.model.object import LAST_APPLIED

_members = msgspec.json.Decoder(dict[str, Raw])
_encode = msgspec.json.Encoder().encode

_LAST_APPLIED = LAST_APPLIED.encode()
_MANAGED_FIELDS = b'"managedFields":'


def members(raw: bytes | Raw) -> dict[str, Raw]:
    """The members of a JSON object, values as bytes. Raises msgspec.DecodeError for other JSON."""
    return _members.decode(raw)


def joined(parts: dict[str, Raw]) -> Raw:
    return Raw(_encode(parts))


def stripped(body: bytes) -> bytes:
    """The body without ``metadata.managedFields`` (if ``kube`` has not cut them out) and without the last-applied
    annotation. Raises msgspec.DecodeError for a body whose metadata or annotations are not JSON objects."""
    if _MANAGED_FIELDS not in body and _LAST_APPLIED not in body:
        return body
    return with_metadata(body, _strip)


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
