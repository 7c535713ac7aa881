"""Strips the metadata of an object: field managers, copies of the whole object in annotations; and redacts annotations
that are known to hold tokens. Pure.

``model.object.cut`` has done this already for objects in kube-apiserver's format without such tokens. What is left is
decoded once, down to the annotations; all other members are copied.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw

from bridge.model.annotations import LAST_APPLIED, holds_token, is_copy
from bridge.transform.credentials import Digest

_members = msgspec.json.Decoder(dict[str, Raw]).decode
_any = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def stripped(body: bytes, digest: Digest | None) -> bytes:
    """The body without ``managedFields`` and last-applied; with ``digest``, also without other copies of the object in
    annotations, and with a digest in place of each token there. The same bytes if it has none of them. Raises
    msgspec.DecodeError, UnicodeDecodeError or KeyError for a body without metadata or with annotations that are not a
    map."""
    top = _members(body)
    metadata = _members(top["metadata"])
    managers = metadata.pop("managedFields", None)
    before = _members(metadata.get("annotations", b"null")) if _has(metadata) else {}
    if digest is None:
        after = {name: value for name, value in before.items() if name != LAST_APPLIED}
    else:
        after = {name: _redacted(name, value, digest) for name, value in before.items() if not is_copy(name)}
    if managers is None and after == before:
        return body
    if after:
        metadata["annotations"] = Raw(_encode(after))
    elif before:
        del metadata["annotations"]
    top["metadata"] = Raw(_encode(metadata))
    return _encode(top)


def _has(metadata: dict[str, Raw]) -> bool:
    return metadata.get("annotations") not in (None, Raw(b"null"))


def _redacted(name: str, value: Raw, digest: Digest) -> Raw:
    if not holds_token(name) or bytes(value) in {b'""', b"null"}:
        return value
    found = _any(value)
    return Raw(_encode(digest("annotations", name, found if isinstance(found, str) else bytes(value).decode())))
