"""Reads objects from JSON: decodes their heads, checks that they are usable, cuts out managedFields, and bounds their
names and their depth. Every event's object is read here, so this is on the hot path.

Names that a server or a tenant chooses are bounded where they are stored, sent back or used as keys. A server that
names a longer version or uid is wrong: the object, the bookmark or the list cannot be read, and no other resource is
concerned. A name is a tenant's choice, and kube-apiserver bounds it for most kinds only, so an object with a longer one
is left out, named in the log, and its list is complete without it. Names in discovery documents have bounds of their
own (``discovery_documents``), and texts for the log are shortened (``status.shortened``).

Every recursive decoder has a limit: msgspec 1,000 to 10,000 levels, by the version of Python; Jackson 1,000; PHP 512.
Any tenant may write an object beyond that, and a decoder for the whole page would fail on it at every attempt. (A
recursion limit does not help: Python 3.12 ignores it in C.) So ``pages`` cuts items out without recursion, brackets are
counted where a decoder gives up or where the API leaves the form free, and an object with more than 500 levels
(``DEEPEST``) is exported bare, with its name, uid and version only. Its list is complete, and its watch continues.
Objects as deep as this Python reads them would be objects that consumers cannot read.

``end_of_whole`` asks msgspec's decoder for the end of a value, which is fast and recursive. The other functions scan
without recursion, at any depth, in pieces of any size, and see only brackets and strings: a decoder checks that the
text is JSON. Every step is linear in its input: the regular expressions are possessive, so that hostile text cannot
make them backtrack.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate
from typing import Annotated, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta

from bridge.model.object import ApiObject, bare_body, cut, object_key
from bridge.model.resource import Resource

LONGEST_NAME = 512
"""Characters. Most kinds allow 253; the names of RBAC's kinds are bounded by the size of a request alone."""
LONGEST_NAMESPACE = 253
"""Characters. kube-apiserver allows 63."""
LONGEST_UID = 128
"""Characters. kube-apiserver writes 36."""
LONGEST_VERSION = 128
"""Characters of a resourceVersion, which is opaque. kube-apiserver writes at most 20 digits."""
LONGEST_ETAG = 256
"""Characters. kube-apiserver writes 130."""

DEEPEST = 500
"""Levels of objects and arrays; deeper objects are reduced to their identity. kube-apiserver takes 10,000, msgspec
reads 1,000 to 10,000 depending on Python, and consumers may read less: Jackson 1,000, PHP 512. Objects made on purpose
have less than a hundred."""

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""The errors of decoding a server's bytes. msgspec passes the last two on, for a string that is not UTF-8 and for an
object that is nested deeper than the interpreter's recursion limit."""

Namespace: TypeAlias = Annotated[str, Meta(max_length=LONGEST_NAMESPACE)]
Uid: TypeAlias = Annotated[str, Meta(max_length=LONGEST_UID)]
Version: TypeAlias = Annotated[str, Meta(max_length=LONGEST_VERSION)]


# ── Objects ───────────────────────────────────────────────────────────────────

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


def has_long_name(name: str) -> str:
    """The reason why an object of this name is left out; empty if it is not."""
    if len(name) <= LONGEST_NAME:
        return ""
    return (
        f"{name[:100]}…: it is left out, since its name has {len(name)} characters; at most {LONGEST_NAME} are allowed"
    )


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


# ── JSON: ends of values, and depth ───────────────────────────────────────────

_decode = msgspec.json.Decoder(msgspec.Raw).decode

_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
# Strings come first: before CPython 3.11.5, a possessive loop ended where its last alternative had failed, and a string
# that is cut off fails behind its quote.
_BETWEEN = re.compile(rb'(?:%b|[^"{}\[\]]++)*+' % _STRING, re.DOTALL)
_TO_BRACKETS = re.compile(rb'(?:%b|[^"{}\[\]]++)*+([{\[]++|[}\]]++)' % _STRING, re.DOTALL)
_REST_OF_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_KEY = re.compile(rb"[\s,]*+(%b)\s*+:\s*+" % _STRING, re.DOTALL)
_SCALAR = re.compile(rb'%b|[^\s,:"{}\[\]]++(?=[\s,}\]])' % _STRING, re.DOTALL)

_OPENING = b"{["
_BACKSLASH = ord("\\")
_BEHIND = re.compile(r"trailing characters \(byte (\d+)\)")
_TRUNCATED = "truncated"
_WHITE = b" \t\n\r"

_BRACES = bytes.maketrans(b"[]", b"{}")
_NEITHER = bytes(set(range(256)).difference(b'{}[]"'))
_STEPS = [(byte == ord("{")) - (byte == ord("}")) for byte in range(256)]


def end_of_whole(text: memoryview) -> int:
    """The index behind the value that begins the text; -1 if the text ends before the value does. Raises DecodeError
    for a value that the decoder cannot read, and RecursionError for one that is too deep for it. ``Nesting`` finds the
    end of all of them, at forty times the cost.

    msgspec names the first character behind a value in its error about that character. In other words than today's,
    this would be a value that cannot be read."""
    end = len(text)
    try:
        _decode(text)
    except msgspec.DecodeError as error:
        if (behind := _BEHIND.search(str(error))) is not None:
            end = int(behind[1]) - 1
        elif _TRUNCATED in str(error):
            return -1
        else:
            raise
    return end if text[end - 1] not in _WHITE else len(bytes(text[:end]).rstrip(_WHITE))


def deeper_than(text: bytes, levels: int) -> bool:
    """Whether JSON is nested deeper than ``levels``."""
    if len(text) <= 2 * levels:
        return False
    if b"\\" in text:
        text = text.replace(rb"\\", b"").replace(rb"\"", b"")
    left = text.translate(_BRACES, _NEITHER)
    if left.count(b"}") <= levels:
        return False
    # Two quotes side by side are an empty string, or the end of a string and the beginning of the next one: without
    # them, every bracket stays inside or outside of a string.
    left = left.replace(b'""', b"")
    if b'"' in left:
        left = b"".join(left.split(b'"')[::2])
    while len(left) > 2 * levels:
        if not levels:
            return True
        shorter = left.replace(b"{}", b"")  # The innermost level of each branch.
        if 4 * len(shorter) > 3 * len(left):  # Few wide levels: level by level would take their number times the text.
            return max(accumulate(map(_STEPS.__getitem__, left)), default=0) > levels
        left, levels = shorter, levels - 1
    return False


class Nesting:
    """Finds the end of an object or array. Keeps only the state of the scan, so the text may come in pieces."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self.deepest = 0
        """Levels of objects and arrays so far."""

    def end(self, text: bytes, at: int = 0) -> int:
        """Continues the scan at ``at``; the first call begins it there. Returns the index behind the value, or -1 if
        the value ends in a later piece."""
        if self._in_string:
            at = self._behind_string(text, at)
        while 0 <= at < len(text):
            found = _TO_BRACKETS.match(text, at)
            if found is None:
                # Only scalars up to the end, or a string that ends in a later piece.
                between = _BETWEEN.match(text, at)
                at = between.end() if between else at
                at = self._behind_string(text, at + 1) if at < len(text) else -1
                continue
            first, at = found.span(1)
            if text[first] in _OPENING:
                self._depth += at - first
                self.deepest = max(self.deepest, self._depth)
            elif at - first >= self._depth:
                return first + self._depth
            else:
                self._depth -= at - first
        return -1

    def _behind_string(self, text: bytes, at: int) -> int:
        """``at`` lies inside of a string. The index behind the string, or -1 if the string ends in a later piece."""
        self._in_string = True
        if self._escaped and at < len(text):
            at += 1
            self._escaped = False
        rest = _REST_OF_STRING.match(text, at)
        at = rest.end() if rest else at
        if at >= len(text):
            return -1
        if text[at] == _BACKSLASH:
            self._escaped = True
            return -1
        self._in_string = False
        return at + 1


def members(text: bytes, at: int = 0, *, last: bytes = b"") -> Iterator[tuple[bytes, int, int]]:
    """The members of the object that begins at ``at``: key (with its quotes), start and end of the value.

    The iteration ends with a value that the text does not complete (its end is -1), at text that is not a member, and
    with the key ``last``, whose value is not scanned (its end is -1)."""
    if text[at : at + 1] != b"{":
        return
    at += 1
    while (key := _KEY.match(text, at)) is not None:
        start = key.end()
        at = -1 if key[1] == last else end_of_value(text, start)
        yield key[1], start, at
        if at < 0:
            return


def end_of_value(text: bytes, start: int) -> int:
    """The index behind the value that begins at ``start``; -1 if the text may end before the value does."""
    if text[start : start + 1] in {b"{", b"["}:
        return Nesting().end(text, start)
    scalar = _SCALAR.match(text, start)
    return scalar.end() if scalar else -1
