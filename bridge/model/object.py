"""Holds a version of a Kubernetes object, its identity and its bytes, and cuts out members that every object loses.

An ``ApiObject`` keeps the API server's bytes, and decodes none of them that nobody asks for. ``cut`` copies these bytes
without ``managedFields`` and last-applied; it is the hot path of every object that arrives, so it searches bytes, and
leaves to the transform whatever is not in kube-apiserver's format.

Some annotations do not leave as they are: copies of the whole object, and tokens. A name decides. ``may_matter`` looks
for a part of each such name in the bytes of the annotations, because it is asked about every object; a name in other
letters, or behind an escape, is found there too.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw

from bridge.model.resource import Resource

DIGEST_PREFIX = "hmac-sha256:"
"""The beginning of a digest in place of a redacted value."""
MASKED = "[redacted]"
"""The text in place of a masked value."""


class _LabelsOnly(msgspec.Struct):
    labels: dict[str, str] | None = None


class _MetadataOnly(msgspec.Struct):
    metadata: _LabelsOnly


_labels_decoder = msgspec.json.Decoder(_MetadataOnly)
_members = msgspec.json.Decoder(dict[str, Raw]).decode
_encode = msgspec.json.Encoder().encode


def is_redacted(text: str) -> bool:
    """Whether redaction has put this text in place of another one."""
    return text == MASKED or is_digest_in(text)


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


_LONGEST_BARE = 2048
"""Bytes: names, versions and uids are short."""


class _BareMetadata(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    uid: str
    resourceVersion: str
    namespace: str = ""


class _Bare(msgspec.Struct, forbid_unknown_fields=True):
    kind: str
    apiVersion: str
    metadata: _BareMetadata


_decode_bare = msgspec.json.Decoder(_Bare).decode


def is_bare(body: bytes) -> bool:
    """Whether an object is reduced to its identity (``bare_body``): too deep, too long, or of a shape that redaction
    cannot read. Its missing members say nothing about it."""
    if len(body) > _LONGEST_BARE:
        return False
    try:
        _decode_bare(body)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return True


class ApiObject(msgspec.Struct, frozen=True, gc=False):
    """A version of an object. ``body`` is the API server's JSON (with ``kind`` and ``apiVersion``); all readers share
    the bytes, and few decode them."""

    key: str
    """``namespace/name`` or ``name``; unique within a resource."""
    uid: str
    resource_version: str
    body: bytes
    stripped: bool = False
    """True if the body is known to be without ``managedFields`` and without annotations that are copies or hold tokens,
    so that the transform need not search for them."""
    secret: bool = False
    """The body claims to be a Secret of the core group, whatever resource the API server served it as."""
    managers: bytes = b""
    """The entries of ``managedFields`` (``formats.content``), where a sink asks for them; empty elsewhere."""

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


def at_version(thing: ApiObject, version: str) -> ApiObject:
    """The object with another resourceVersion, as the event of a delete has its last state with the version of the
    delete. The other members are copied, not decoded and encoded. Raises msgspec.DecodeError for a body whose metadata
    are no JSON object."""
    top = _members(thing.body)
    metadata = _members(top["metadata"])
    metadata["resourceVersion"] = Raw(_encode(version))
    top["metadata"] = Raw(_encode(metadata))
    return msgspec.structs.replace(thing, resource_version=version, body=_encode(top))


# ── Annotations that do not leave as they are ────────────────────────────────

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""An annotation of ``kubectl apply`` with a copy of the whole object, Secret data included."""
_COPIES = frozenset(
    {
        "objectset.rio.cattle.io/applied",  # Rancher, k3s
        "kapp.k14s.io/original",
        "kapp.k14s.io/original-diff",
        "kapp.k14s.io/original-diff-full",
    }
)
_COPY_NAMES = frozenset(
    {
        "last-applied",  # Banzai Cloud's operators
        "last-applied-configuration",  # kubectl, KubeVela
        "last-handled-configuration",  # kopf
    }
)
"""Names behind the prefix of an annotation, whatever that prefix is."""
_APPLIED = b"applied"
_LAST_HANDLED = b"last-h"
_KAPP = b"kapp."
_TOKEN = b"token"
_ESCAPE = b"\\u"


def is_copy(name: str) -> bool:
    """Whether an annotation of this name holds a copy of its object."""
    return name in _COPIES or name.rpartition("/")[2] in _COPY_NAMES


def holds_token(name: str) -> bool:
    """Whether an annotation of this name holds a token: its last word is ``token``, as in ``example.com/auth-token``,
    ``API_TOKEN`` and ``authToken``, or OpenShift keeps a token there."""
    last = name.rpartition("/")[2]
    lower = last.lower()
    return (
        lower in {"token", "token-secret.value"}
        or last.endswith("Token")
        or lower.endswith(("-token", ".token", "_token"))
    )


def may_matter(annotations: bytes) -> bool:
    """Whether the JSON of annotations may have one that is a copy or holds a token."""
    small = annotations.lower()
    return (
        _APPLIED in small
        or _TOKEN in small
        or _LAST_HANDLED in small
        or _KAPP in small
        or _ESCAPE in small
        or not annotations.isascii()  # The Kelvin sign is a k in small letters.
    )


# ── Members that every object loses ──────────────────────────────────────────

_MANAGED_FIELDS = b'"managedFields":'
_ANNOTATIONS = b'"annotations":'
_METADATA = b'"metadata":{'
_HEAD = 200
"""Bytes in which kind and apiVersion are written."""


def cut(text: bytes, start: int, stop: int, managed_fields: bytes, annotations: bytes) -> tuple[bytes, bool]:
    """Copies the object in ``text[start:stop]`` without its ``managedFields`` (two fifths of a pod) and without
    last-applied, and returns whether the transform has no more members of the metadata to look for: the decoder has
    found both members already, given here as they are written (empty without the member), and a second pass would cost
    as much.

    The copy keeps a member that is not in kube-apiserver's format; then the transform removes it."""
    done = True
    if may_matter(annotations):
        text, done = _without_last_applied(text[start:stop], annotations)
        start, stop = 0, len(text)
    if not managed_fields:
        return text[start:stop], done
    at = end = -1
    if managed_fields.startswith(b"["):  # A label or an annotation of that name would be a string.
        at, end = _own_member(text, start, stop, _MANAGED_FIELDS, managed_fields)
    if at < 0:
        return text[start:stop], False
    at, end = _with_comma(text, at, end)
    view = memoryview(text)
    return b"".join((view[start:at], view[end:stop])), done


def _without_last_applied(text: bytes, annotations: bytes) -> tuple[bytes, bool]:
    """The object without that annotation, and whether no other is a copy or holds a token. An object that is not in
    kube-apiserver's format keeps it (False)."""
    try:
        left = _members(annotations)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return text, False
    applied = left.pop(LAST_APPLIED, None)
    others = _encode(left)
    done = not may_matter(others) or not any(is_copy(name) or holds_token(name) for name in left)
    if applied is None:
        return text, done
    at, end = _own_member(text, 0, len(text), _ANNOTATIONS, annotations)
    if at < 0 or not _stands_alone(text, at, end, annotations):
        return text, False
    if left:
        return b"".join((text[:at], _ANNOTATIONS, others, text[end:])), done
    at, end = _with_comma(text, at, end)
    return text[:at] + text[end:], done


def _own_member(text: bytes, start: int, stop: int, key: bytes, value: bytes) -> tuple[int, int]:
    """Start and end of the first member of the metadata, or of a value in them, with this key, if it has this value and
    the object is in kube-apiserver's format; else -1 and -1."""
    head = text.find(_METADATA, start, start + _HEAD)
    at = text.find(key, head, stop)
    # A single opening brace before the metadata: they are the object's own, not those of a member such as a template.
    if head < 0 or at < 0 or text.count(b"{", start, head) != 1 or not text.startswith(value, at + len(key)):
        return -1, -1
    return at, at + len(key) + len(value)


def _stands_alone(text: bytes, at: int, end: int, annotations: bytes) -> bool:
    """Whether these annotations are a member of the metadata itself, and no other member of that name has their value
    or stands before them: so a decoder, which takes the last one, has read them here."""
    metadata = text.find(_METADATA) + len(_METADATA) - 1
    try:
        above = _members(text[metadata:at].rstrip(b",") + b"}")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return "annotations" not in above and text.find(annotations[:100], end) < 0


def _with_comma(text: bytes, at: int, end: int) -> tuple[int, int]:
    """Start and end of a member with one of the commas around it."""
    if text.startswith(b",", at - 1):
        return at - 1, end
    return at, end + text.startswith(b",", end)
