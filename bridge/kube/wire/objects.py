"""Reads objects from JSON: decodes their heads, checks that they are usable, cuts out managedFields. Hot."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from bridge.kube.wire.bounds import (
    LONGEST_NAMESPACE,
    LONGEST_UID,
    LONGEST_VERSION,
    Namespace,
    Uid,
    Version,
    has_long_name,
)
from bridge.kube.wire.nesting import Nesting, deeper_than, members
from bridge.model.object import ApiObject, bare_body, cut, object_key
from bridge.model.resource import Resource

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""The errors of decoding a server's bytes. msgspec passes the last two on, for a string that is not UTF-8 and for an
object that is nested deeper than the interpreter's recursion limit."""


DEEPEST = 500
"""Levels of objects and arrays; deeper objects are reduced to their identity. kube-apiserver takes 10,000, msgspec
reads 1,000 to 10,000 depending on Python, and consumers may read less: Jackson 1,000, PHP 512. Objects made on purpose
have less than a hundred."""

_BOUNDED = frozenset(
    {"", "autoscaling", "batch", "policy"}
    | {
        f"{each}.k8s.io"
        for each in ("coordination", "discovery", "events", "networking", "node", "rbac.authorization", "scheduling")
    }
)
"""Groups of kube-apiserver without a free-form member: their objects cannot be deep, managed fields apart."""
_BOUNDED_OF_APPS = frozenset(f"{each}.apps" for each in ("daemonsets", "deployments", "replicasets", "statefulsets"))
"""The resources of ``apps`` without a free-form member: ``controllerrevisions`` have free-form data."""


class ObjectMeta(msgspec.Struct, gc=False):
    name: str = ""
    namespace: Namespace = ""
    uid: Uid = ""
    resource_version: Version = msgspec.field(name="resourceVersion", default="")
    managed_fields: msgspec.Raw = msgspec.field(name="managedFields", default=msgspec.Raw())
    annotations: msgspec.Raw = msgspec.Raw()


class Head(msgspec.Struct, gc=False):
    """The decoded part of an object. The decoder only checks that the rest is JSON."""

    kind: str = ""
    api_version: str = msgspec.field(name="apiVersion", default="")
    metadata: ObjectMeta | None = None


decode_head = msgspec.json.Decoder(Head).decode


class LeftBare(NamedTuple):
    """An object that cannot be read whole, reduced to its identity."""

    object: ApiObject | None
    """None for an object that is left out, since its identity is too long itself."""
    reason: str
    """The object's key and the cause."""


def may_be_deep(resource: Resource) -> bool:
    """Whether objects of the resource have free-form members, whose depth only the size of a request bounds."""
    return resource.group not in _BOUNDED and resource.name not in _BOUNDED_OF_APPS


def read_object(
    body: bytes | memoryview | msgspec.Raw, resource: Resource, *, managed_fields: bool = True
) -> ApiObject | LeftBare | str:
    """The object with a body of its own that has ``kind`` and ``apiVersion``, or the reason why it is unusable.

    Items of built-in lists have neither: they are added here, so that every exported object names its kind. If
    ``managed_fields`` is False, they are cut out (see ``model.object.cut``).
    """
    try:
        head = decode_head(body)
    except RecursionError:
        text = bytes(body)
        return bare(text, resource, too_deep(text))
    except msgspec.ValidationError as error:
        return _too_long(find_head(bytes(body)).metadata or ObjectMeta()) or str(error)
    except UNREADABLE as error:
        return str(error)
    return whole_object(head, memoryview(body), resource, managed_fields=managed_fields)


def whole_object(
    head: Head, body: memoryview, resource: Resource, *, managed_fields: bool = True
) -> ApiObject | LeftBare | str:
    """Does the same as ``read_object`` for a body whose head is decoded."""
    if unusable := _why_unusable(head):
        return unusable
    metadata = head.metadata or ObjectMeta()
    if long := has_long_name(metadata.name):
        return LeftBare(None, long)
    key = object_key(metadata.namespace, metadata.name)
    whole, stripped = _naming_its_kind(body, head, resource), False
    if not managed_fields:
        whole, stripped = cut(whole, 0, len(whole), bytes(metadata.managed_fields), bytes(metadata.annotations))
    if not is_utf8(whole):
        return f"{key} has a string that is not UTF-8"
    if may_be_deep(resource) and deeper_than(whole, DEEPEST):
        return bare(whole, resource, too_deep(whole))
    return ApiObject(key, metadata.uid, metadata.resource_version, whole, stripped, names_a_secret(head))


def bare(text: bytes, resource: Resource, reason: str, *, at: int = 0) -> LeftBare | str:
    """The object that begins at ``at``, reduced to its identity, for a text that no decoder can read; or the reason why
    its identity is unknown. The text may end before the object does."""
    head = find_head(text, at)
    if unusable := _why_unusable(head):
        return f"{unusable}, and {reason}"
    metadata = head.metadata or ObjectMeta()
    if long := has_long_name(metadata.name):
        return LeftBare(None, long)
    key = object_key(metadata.namespace, metadata.name)
    body = bare_body(resource, key, metadata.uid, metadata.resource_version)
    return LeftBare(ApiObject(key, metadata.uid, metadata.resource_version, body, stripped=True), f"{key}: {reason}")


def too_deep(text: bytes) -> str:
    """The reason for an object beyond the decoder's depth."""
    nesting = Nesting()
    nesting.end(text)
    return f"it is nested {nesting.deepest} levels deep, and at most {DEEPEST} are taken in"


def find_head(text: bytes, at: int = 0) -> Head:
    """Does the same as ``decode_head``, but without recursion, and for an object that may be cut off. Missing members
    are empty."""
    head = Head()
    for key, start, end in members(text, at):
        match key:
            case b'"kind"':
                head.kind = text_at(text, start, end)
            case b'"apiVersion"':
                head.api_version = text_at(text, start, end)
            case b'"metadata"':
                head.metadata = _find_metadata(text, start)
    return head


def _find_metadata(text: bytes, at: int) -> ObjectMeta:
    found = ObjectMeta()
    for key, start, end in members(text, at):
        match key:
            case b'"name"':
                found.name = text_at(text, start, end)
            case b'"namespace"':
                found.namespace = text_at(text, start, end)
            case b'"uid"':
                found.uid = text_at(text, start, end)
            case b'"resourceVersion"':
                found.resource_version = text_at(text, start, end)
    return found


def text_at(text: bytes, start: int, end: int) -> str:
    """The JSON string at these indices; empty if it is not a string."""
    try:
        return msgspec.json.decode(text[start : max(start, end)], type=str)
    except UNREADABLE:
        return ""


def _why_unusable(head: Head) -> str:
    """The reason why the object has no identity; empty if it has."""
    if head.kind == "Table":
        return "a Table, not an object"
    metadata = head.metadata
    if metadata is None:
        return "an object without metadata"
    if not metadata.name:
        return "an object without metadata.name"
    if long := _too_long(metadata):
        return long
    key = object_key(metadata.namespace, metadata.name)
    if not metadata.uid:
        return f"{key} has no metadata.uid"
    if not metadata.resource_version:
        return f"{key} has no metadata.resourceVersion"
    return ""


def _too_long(metadata: ObjectMeta) -> str:
    """The member of the identity that is too long; empty without one."""
    for name, text, longest in (
        ("namespace", metadata.namespace, LONGEST_NAMESPACE),
        ("uid", metadata.uid, LONGEST_UID),
        ("resourceVersion", metadata.resource_version, LONGEST_VERSION),
    ):
        if len(text) > longest:
            found = f"the metadata.{name} of {metadata.name[:100]} has {len(text)} characters"
            return f"{found}, and at most {longest} are allowed"
    return ""


def names_a_secret(head: Head) -> bool:
    """Whether kind and apiVersion name a core Secret, regardless of the resource, which an aggregated API server may
    give any name. A missing apiVersion counts as the core group's."""
    return head.kind == "Secret" and "/" not in head.api_version


def is_utf8(body: bytes) -> bool:
    """Whether the body is UTF-8. The decoder skips the strings of undeclared members, but the exported JSON must be
    valid as a whole."""
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
