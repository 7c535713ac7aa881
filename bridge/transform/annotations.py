"""Removes copies of whole objects from annotations, and redacts annotations that are known to hold tokens. Pure."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from bridge.model.object import LAST_APPLIED
from bridge.transform.credentials import Digest

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

_members = msgspec.json.Decoder(dict[str, Raw]).decode
_any = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def redacted_annotations(body: bytes, digest: Digest) -> bytes:
    """The body without copies of the object in ``metadata.annotations``, and with a digest in place of each token
    there; the same bytes if it has neither. Raises msgspec.DecodeError or KeyError for a body without metadata or with
    annotations that are not a map."""
    top = _members(body)
    metadata = _members(top["metadata"])
    annotations = _members(metadata.get("annotations", b"null")) if _has(metadata) else {}
    left = {name: _redacted(name, value, digest) for name, value in annotations.items() if not is_copy(name)}
    if left == annotations:
        return body
    if left:
        metadata["annotations"] = Raw(_encode(left))
    else:
        del metadata["annotations"]
    top["metadata"] = Raw(_encode(metadata))
    return _encode(top)


def is_copy(name: str) -> bool:
    """Whether an annotation of this name holds a copy of its object."""
    return name == LAST_APPLIED or name in _COPIES or name.rpartition("/")[2] in _COPY_NAMES


def holds_token(name: str) -> bool:
    """Whether an annotation of this name holds a token: its last word is ``token``, as in ``example.com/auth-token``,
    or OpenShift keeps a token there."""
    last = name.lower().rpartition("/")[2]
    return last == "token-secret.value" or last == "token" or last.endswith(("-token", ".token", "_token"))


def _has(metadata: dict[str, Raw]) -> bool:
    return metadata.get("annotations") not in (None, Raw(b"null"))


def _redacted(name: str, value: Raw, digest: Digest) -> Raw:
    if not holds_token(name) or bytes(value) in {b'""', b"null"}:
        return value
    found = _any(value)
    return Raw(_encode(digest("annotations", name, found if isinstance(found, str) else bytes(value).decode())))
