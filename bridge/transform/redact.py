"""Replaces the values of a Secret by keyed digests. Pure.

Only the members that ``_Secret`` and ``_Metadata`` declare are exported, with the declared types. Kubernetes has no
other members in a Secret (core/v1 types.go); a member of a later version is held back until it is added here. Names of
keys are exported. Values of labels and annotations are redacted too: tools keep tokens there.

A digest and not a constant, since a constant hides a rotation, which is the first question of an audit; keyed, since a
plain hash can be guessed from a dictionary. The digest covers the place of the value, so a password in two Secrets is
not recognizable as shared; nor is a copy. The key is a file beside the database and no row in it: it outlives a damaged
database, and stays out of copies made for support.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType

from bridge.model.annotations import LAST_APPLIED
from bridge.model.object import ApiObject
from bridge.model.resource import Resource
from bridge.transform.redaction import Redaction


class _OwnerReference(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | UnsetType | None = UNSET
    block_owner_deletion: bool | UnsetType | None = UNSET


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    generate_name: str | UnsetType = UNSET
    namespace: str | UnsetType = UNSET
    uid: str | UnsetType = UNSET
    resource_version: str | UnsetType = UNSET
    generation: int | UnsetType = UNSET
    creation_timestamp: str | UnsetType | None = UNSET
    deletion_timestamp: str | UnsetType | None = UNSET
    deletion_grace_period_seconds: int | UnsetType | None = UNSET
    labels: dict[str, Raw] | UnsetType | None = UNSET
    annotations: dict[str, Raw] | UnsetType | None = UNSET
    owner_references: list[_OwnerReference] | UnsetType | None = UNSET
    finalizers: list[str] | UnsetType | None = UNSET


class _Secret(msgspec.Struct, rename="camel"):
    kind: Literal["Secret"]
    api_version: Literal["v1"]
    metadata: _Metadata
    immutable: bool | UnsetType | None = UNSET
    data: dict[str, Raw] | UnsetType | None = UNSET
    string_data: dict[str, Raw] | UnsetType | None = UNSET
    type: str | UnsetType = UNSET


_read_secret = msgspec.json.Decoder(_Secret).decode
_text_in = msgspec.json.Decoder(str).decode
_encode = msgspec.json.Encoder().encode

_Values = dict[str, Raw] | None | UnsetType


def is_secret(resource: Resource) -> bool:
    """Whether all objects of the resource are Secrets. Secrets of other resources are known by ``ApiObject.secret``."""
    return resource.group == "" and (resource.plural == "secrets" or resource.kind == "Secret")


def redacted(thing: ApiObject, resource: Resource, redaction: Redaction) -> bytes:
    """The body of a Secret with a digest in place of each value.

    A digest covers the resource, namespace and name of the object, the path of the value and the value: equal values at
    different paths have different digests, and an unchanged value keeps its digest. Raises msgspec.DecodeError,
    UnicodeDecodeError or RecursionError for a body that is not a Kubernetes Secret; then the body must not be exported
    (see ``bare_body``).
    """
    secret = _read_secret(thing.body)
    identity = (resource.name.encode(), thing.namespace.encode(), thing.name.encode())

    def digests(path: str, values: _Values, *, base64: bool = False) -> _Values:
        if not values:
            return values
        digest = redaction.starting_with(*identity, path.encode())
        return {name: _text(digest(name.encode(), _value(raw)), base64=base64) for name, raw in values.items()}

    # Values of data stay base64, so that clients which decode Secrets can decode these.
    secret.data = digests("data", secret.data, base64=True)
    secret.string_data = digests("stringData", secret.string_data)
    secret.metadata.labels = digests("metadata.labels", secret.metadata.labels)
    secret.metadata.annotations = digests("metadata.annotations", _without_last_applied(secret.metadata.annotations))
    return _encode(secret)


def _without_last_applied(annotations: _Values) -> _Values:
    # kubectl keeps the whole object there, with its values in clear text.
    if not annotations or LAST_APPLIED not in annotations:
        return annotations
    return {name: value for name, value in annotations.items() if name != LAST_APPLIED} or UNSET


def _text(digest: str, *, base64: bool) -> Raw:
    text = digest.encode()  # No letter of a digest is escaped in JSON.
    return Raw(b'"%b"' % (b64encode(text) if base64 else text))


def _value(raw: Raw) -> bytes:
    """The bytes to digest: a string's text without its escapes, or the JSON of another value."""
    try:
        # A letter in front, so that the text "1" and the number 1 have different digests.
        return b"s" + _text_in(raw).encode()
    except (msgspec.DecodeError, UnicodeError):
        return b"j" + bytes(raw)
