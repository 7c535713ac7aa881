"""Objects as they stand on the wire: what is read of them, and what makes one usable. Hot."""

from __future__ import annotations

import msgspec

from bridge.model.object import LAST_APPLIED, ApiObject, object_key
from bridge.model.resource import Resource

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding raises for bytes of a server: msgspec lets the last two through, for a string that is not UTF-8 and
for an object that is nested deeper than the interpreter goes."""


_MANAGED_FIELDS = b'"managedFields":'
_LAST_APPLIED = LAST_APPLIED.encode()
_METADATA = b'"metadata":{'
_HEAD = 200
"""Bytes in which kind and apiVersion have been told."""
_COMMA = ord(",")


class Metadata(msgspec.Struct, gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    managed_fields: msgspec.Raw = msgspec.field(name="managedFields", default=msgspec.Raw())
    annotations: msgspec.Raw = msgspec.Raw()


class Head(msgspec.Struct, gc=False):
    """All that is decoded of an object. The rest is checked to be JSON and passed over."""

    kind: str = ""
    api_version: str = msgspec.field(name="apiVersion", default="")
    metadata: Metadata | None = None


_decode_head = msgspec.json.Decoder(Head).decode


def read_object(body: bytes | msgspec.Raw, resource: Resource, *, managed_fields: bool = True) -> ApiObject | str:
    """The object with a body of its own that says ``kind`` and ``apiVersion``, or the reason why it is unusable.

    Items of a built-in list say neither: the bridge adds them, so that nobody behind it has to guess. Without
    ``managed_fields``, see ``strip``.
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
    whole, stripped = _naming_its_kind(memoryview(body), head, resource), False
    if not managed_fields:
        whole, stripped = strip(whole, 0, len(whole), metadata)
    if not is_utf8(whole):
        return f"{key} has a string that is not UTF-8"
    return ApiObject(key, metadata.uid, metadata.resource_version, whole, stripped, names_a_secret(head))


def names_a_secret(head: Head) -> bool:
    """By kind and apiVersion alone: an aggregated API server calls its resources what it likes. Where the object says
    no apiVersion, it counts as the core group's."""
    return head.kind == "Secret" and "/" not in head.api_version


def strip(text: bytes, start: int, stop: int, metadata: Metadata) -> tuple[bytes, bool]:
    """The object in ``text[start:stop]``, which has this metadata, without its ``managedFields``: two fifths of a pod,
    cut out before they are copied. And whether nothing is left that the pipeline strips: this pass knows it, and
    another one would cost as much. Whole where they do not stand as kube-apiserver writes them."""
    value = bytes(metadata.managed_fields)
    done = _LAST_APPLIED not in bytes(metadata.annotations)
    # An array, and so no label or annotation of that name.
    if not value.startswith(b"["):
        return text[start:stop], done and not value
    head = text.find(_METADATA, start, start + _HEAD)
    at = text.find(_MANAGED_FIELDS, head, stop)
    end = at + len(_MANAGED_FIELDS) + len(value)
    # Before the object's own metadata there is nothing that could have a metadata of its own.
    if head < 0 or at < 0 or text.count(b"{", start, head) != 1 or not text.startswith(value, end - len(value)):
        return text[start:stop], False
    if text[at - 1] == _COMMA:
        at -= 1
    elif text[end] == _COMMA:
        end += 1
    view = memoryview(text)
    return b"".join((view[start:at], view[end:stop])), done


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
