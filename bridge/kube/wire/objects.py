"""Objects as they stand on the wire: what is read of them, and what makes one usable. Hot."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from bridge.kube.wire.nesting import Nesting, deeper_than, members
from bridge.model.object import LAST_APPLIED, ApiObject, bare_body, object_key
from bridge.model.resource import Resource

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding raises for bytes of a server: msgspec lets the last two through, for a string that is not UTF-8 and
for an object that is nested deeper than the interpreter goes."""


DEEPEST = 500
"""Levels of objects and arrays, beyond which an object leaves bare. kube-apiserver takes 10,000, msgspec reads 1,000 to
10,000 depending on Python, and whoever gets the object may read less: Jackson 1,000, PHP 512. No object that somebody
means has a hundred."""

_BOUNDED = frozenset(
    {"", "autoscaling", "batch", "policy"}
    | {
        f"{each}.k8s.io"
        for each in ("coordination", "discovery", "events", "networking", "node", "rbac.authorization", "scheduling")
    }
)
"""Groups of kube-apiserver without a free-form member: what they serve cannot be deep, managed fields apart."""
_BOUNDED_OF_APPS = frozenset(f"{each}.apps" for each in ("daemonsets", "deployments", "replicasets", "statefulsets"))
"""``controllerrevisions.apps`` is free-form."""

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


decode_head = msgspec.json.Decoder(Head).decode


class LeftBare(NamedTuple):
    """An object that cannot be read whole, but is known: nothing leaves but which one it is."""

    object: ApiObject
    reason: str
    """Names it."""


def may_be_deep(resource: Resource) -> bool:
    """Whether objects of it have members that nothing but the size of a request bounds."""
    return resource.group not in _BOUNDED and resource.name not in _BOUNDED_OF_APPS


def read_object(
    body: bytes | memoryview | msgspec.Raw, resource: Resource, *, managed_fields: bool = True
) -> ApiObject | LeftBare | str:
    """The object with a body of its own that says ``kind`` and ``apiVersion``, or the reason why it is unusable.

    Items of a built-in list say neither: the bridge adds them, so that nobody behind it has to guess. Without
    ``managed_fields``, see ``strip``.
    """
    try:
        head = decode_head(body)
    except RecursionError:
        text = bytes(body)
        return bare(text, resource, too_deep(text))
    except UNREADABLE as error:
        return str(error)
    return whole_object(head, memoryview(body), resource, managed_fields=managed_fields)


def whole_object(
    head: Head, body: memoryview, resource: Resource, *, managed_fields: bool = True
) -> ApiObject | LeftBare | str:
    """What ``read_object`` gives for a body whose head has been decoded."""
    if unusable := _why_unusable(head):
        return unusable
    metadata = head.metadata or Metadata()
    key = object_key(metadata.namespace, metadata.name)
    whole, stripped = _naming_its_kind(body, head, resource), False
    if not managed_fields:
        whole, stripped = strip(whole, 0, len(whole), metadata)
    if not is_utf8(whole):
        return f"{key} has a string that is not UTF-8"
    if may_be_deep(resource) and deeper_than(whole, DEEPEST):
        return bare(whole, resource, too_deep(whole))
    return ApiObject(key, metadata.uid, metadata.resource_version, whole, stripped, names_a_secret(head))


def bare(text: bytes, resource: Resource, reason: str, *, at: int = 0) -> LeftBare | str:
    """The object that begins at ``at``, of which no decoder can be asked, without anything but which one it is; or the
    reason why that cannot be told. The text may end before the object does."""
    head = find_head(text, at)
    if unusable := _why_unusable(head):
        return f"{unusable}, and {reason}"
    metadata = head.metadata or Metadata()
    key = object_key(metadata.namespace, metadata.name)
    body = bare_body(resource, key, metadata.uid, metadata.resource_version)
    return LeftBare(ApiObject(key, metadata.uid, metadata.resource_version, body, stripped=True), f"{key}: {reason}")


def too_deep(text: bytes) -> str:
    """A reason, for what a decoder gave up on."""
    nesting = Nesting()
    nesting.end(text)
    return f"it is nested {nesting.deepest} levels deep, and at most {DEEPEST} are taken in"


def find_head(text: bytes, at: int = 0) -> Head:
    """As ``decode_head``, but without recursion, and of an object that may be cut off: what is not there is empty."""
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


def _find_metadata(text: bytes, at: int) -> Metadata:
    found = Metadata()
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
    """The string there; empty for what is none."""
    try:
        return msgspec.json.decode(text[start : max(start, end)], type=str)
    except UNREADABLE:
        return ""


def _why_unusable(head: Head) -> str:
    """Empty for an object that can be told apart."""
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
    return ""


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
