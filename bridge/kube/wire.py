"""Objects as they stand on the wire: what is read of them, and what makes one usable."""

from __future__ import annotations

import msgspec

from bridge.model.object import ApiObject, object_key
from bridge.model.resource import Resource

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding raises for bytes of a server: msgspec lets the last two through, for a string that is not UTF-8 and
for an object that is nested deeper than the interpreter goes."""


class Metadata(msgspec.Struct, gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = msgspec.field(name="resourceVersion", default="")


class Head(msgspec.Struct, gc=False):
    """All that is decoded of an object. The rest is checked to be JSON and passed over."""

    kind: str = ""
    api_version: str = msgspec.field(name="apiVersion", default="")
    metadata: Metadata | None = None


_decode_head = msgspec.json.Decoder(Head).decode


def read_object(body: bytes | msgspec.Raw, resource: Resource) -> ApiObject | str:
    """The object with a body of its own that says ``kind`` and ``apiVersion``, or the reason why it is unusable.

    Items of a built-in list say neither: the bridge adds them, so that nobody behind it has to guess.
    """
    try:
        head = _decode_head(body)
    except UNREADABLE as error:
        return str(error)
    if head.kind == "Table":
        return "a Table, not an object"
    metadata = head.metadata
    if metadata is None:
        return "an object without metadata"
    if not metadata.name:
        return "an object without metadata.name"
    key = object_key(metadata.namespace, metadata.name)
    if not metadata.uid:
        return f"{key} has no metadata.uid"
    if not metadata.resource_version:
        return f"{key} has no metadata.resourceVersion"
    whole = _naming_its_kind(memoryview(body), head, resource)
    if not is_utf8(whole):
        return f"{key} has a string that is not UTF-8"
    return ApiObject(key, metadata.uid, metadata.resource_version, whole)


def is_utf8(body: bytes) -> bool:
    """Strings that nobody asked about are passed over undecoded; what is sent on must be JSON all the same."""
    if body.isascii():
        return True
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def _naming_its_kind(body: memoryview, head: Head, resource: Resource) -> bytes:
    if head.kind and head.api_version:
        return bytes(body)
    added = b"{"
    if not head.kind:
        added += b'"kind":%b,' % msgspec.json.encode(resource.kind)
    if not head.api_version:
        added += b'"apiVersion":%b,' % msgspec.json.encode(resource.api_version)
    return added + body[1:]
