"""Transforms objects for their export: strips them, and redacts Secrets and credentials. Pure. Hot.

Credentials of the presets stand in lists named ``env``, ``args`` and ``command``. These are found in the bytes, at any
depth, and only lists with credentials are decoded. That reading is right for bodies in Go's format: compact, with plain
letters in plain form. Every other body is decoded as a whole (``structure``), with the same result.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from bridge.model.formats.managers import managers_of
from bridge.model.object import ApiObject, bare_body, stripped
from bridge.model.policies import RedactionPreset as Preset
from bridge.model.policies import RedactionRule
from bridge.model.primitives.field_path import FieldPath
from bridge.model.resource import Resource
from bridge.transform.annotations import redacted_annotations
from bridge.transform.credentials import Digest, redacted_arguments, redacted_variable
from bridge.transform.redact import is_secret, redacted
from bridge.transform.redaction import Redaction, digest_of
from bridge.transform.rules import PathRules
from bridge.transform.structure import BOOTSTRAP_TOKEN, redacted_structure

_RELEASE = PathRules((RedactionRule((FieldPath(("data", "release")), FieldPath(("binaryData",)))),))
_RELEASE_NAME = "sh.helm.release."

_COMPACT = b'"metadata":{"'
_HEAD = 200
"""Bytes in which Go writes the beginning of the metadata."""
_LISTS = re.compile(rb'\[(?<=(?:"env|args|mand)":\[)')
_ENV = b'"env":'
_KEYS = (_ENV, b'"args":', b'"command":')
_UNUSUAL_ESCAPE = re.compile(rb"\\(?:/|u00(?:2[^6]|3[^cCeE]|[4-7]))")
"""An escape that Go does not write. A name may be hidden behind it."""

_TEXT = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
# Atomic within a loop: before CPython 3.11.5, what follows a possessive loop was matched where its body had failed.
_SOURCE = rb'\{"\w++":\{[^{}"\\]*+(?>"[^"\\]*+"[^{}"\\]*+)*+\}\}'
_VARIABLES = re.compile(
    rb'\[(?>\{"name":"[^"\\]*+"(?>,"value":%b|,"valueFrom":%b)?+\},?+)*+\]' % (_TEXT, _SOURCE), re.DOTALL
)
_VARIABLE = re.compile(rb'\{"name":("[^"\\]*+"),"value":(%b)' % _TEXT, re.DOTALL)
_TEXTS = re.compile(rb"\[(?:%b,?+)*+\]" % _TEXT, re.DOTALL)
_ENV_MAP = b'"env":{'
_TOKEN = b'oken":"'
_TOKENS = re.compile(rb'(?<=oken":)"(%b)"' % BOOTSTRAP_TOKEN.pattern.encode())

_TYPED_GROUPS = frozenset({"", "apps", "batch"})
"""Groups whose types have no maps named ``env`` and no bootstrap tokens."""
_MOST_REMEMBERED: Final = 4096
_LONGEST_REMEMBERED: Final = 4096
"""Bytes."""

_text = msgspec.json.Decoder(str).decode
_texts = msgspec.json.Decoder(list[str]).decode
_encode = msgspec.json.Encoder().encode


def transform_for(resource: Resource, redaction: Redaction) -> Callable[[ApiObject], ApiObject]:
    """The transform of a resource's objects, applied once, before an object is stored, logged or sent. Never raises.

    An object counts as a Secret by its resource or by its own kind. An object of an unexpected shape is reduced to a
    minimal object: kind, apiVersion, name, namespace, uid, resourceVersion."""
    secrets = is_secret(resource)
    presets = Presets(resource, redaction)
    rules = PathRules(redaction.rules)
    releases = resource.name == "configmaps" and Preset.HELM_RELEASES in redaction.presets
    digest = partial(digest_of, redaction, resource)

    def transform(thing: ApiObject) -> ApiObject:
        try:
            body = redacted(thing, resource, redaction) if secrets or thing.secret else presets.redacted(thing)
            if releases and b'"release"' in body and _is_release(thing):
                body = _RELEASE.redacted(body, partial(digest, thing.key))
            if redaction.rules:
                body = rules.redacted(body, partial(digest, thing.key))
        except (msgspec.MsgspecError, UnicodeError, RecursionError, KeyError):
            body = bare_body(resource, thing.key, thing.uid, thing.resource_version)
        if body is thing.body:
            return thing
        return ApiObject(thing.key, thing.uid, thing.resource_version, body)

    return transform


def naming_managers(transform: Callable[[ApiObject], ApiObject]) -> Callable[[ApiObject], ApiObject]:
    """A transform that also notes the field managers of objects which still have ``managedFields``."""

    def transform_and_name(thing: ApiObject) -> ApiObject:
        return msgspec.structs.replace(transform(thing), managers=managers_of(thing.body))

    return transform_and_name


class Presets:
    """The presets of redaction, for the objects of one resource. Used in a single thread."""

    def __init__(self, resource: Resource, redaction: Redaction) -> None:
        self._resource = resource
        self._redaction = redaction
        on = redaction.presets
        self._in_lists = bool(on & {Preset.ENV, Preset.ARGUMENTS})
        self._in_members = bool(on & {Preset.ENV, Preset.BOOTSTRAP_TOKENS}) and resource.group not in _TYPED_GROUPS
        self._any = self._in_lists or self._in_members
        self._harmless_env: set[bytes] = set()
        """Lists ``env`` and their variables without credentials, which most updates of an object repeat."""
        self._harmless_texts: set[bytes] = set()
        """Lists ``args`` and ``command`` without credentials."""

    def redacted(self, thing: ApiObject) -> bytes:
        """The body without ``managedFields``, last-applied, and the credentials of the presets; the same bytes if it
        has none of them. Raises msgspec.DecodeError, UnicodeDecodeError, RecursionError or KeyError for a body of an
        unexpected shape; then the body must not be exported."""
        body = thing.body
        if not self._any:
            return body if thing.stripped else self._redacted_metadata(thing, body)
        if body.find(_COMPACT, 0, _HEAD) < 0 or (b"\\" in body and _UNUSUAL_ESCAPE.search(body)):
            return self._redacted_metadata(thing, self._decoded(thing, body))
        if not thing.stripped:
            body = self._redacted_metadata(thing, body)
        if self._in_members:
            if _ENV_MAP in body and Preset.ENV in self._redaction.presets:
                return self._decoded(thing, body)
            if _TOKEN in body and Preset.BOOTSTRAP_TOKENS in self._redaction.presets:
                body = self._redacted_tokens(thing, body)
        if not self._in_lists:
            return body
        left: list[bytes] = []
        at = 0
        for found in _LISTS.finditer(body):
            start = found.start()
            if not body.endswith(_KEYS, at, start):
                continue
            is_env = body.endswith(_ENV, at, start)
            harmless = self._harmless_env if is_env else self._harmless_texts
            if body[start : body.find(b"]", start, start + _LONGEST_REMEMBERED) + 1] in harmless:
                continue  # Bytes that were a whole list in an earlier body are the whole list in this one.
            whole = (_VARIABLES if is_env else _TEXTS).match(body, start)
            if whole is None:
                return self._decoded(thing, body)
            redacted = self._redacted_list(thing, whole[0], is_env)
            if redacted != whole[0]:
                left += body[at:start], redacted
                at = whole.end()
        return b"".join((*left, body[at:])) if at else body

    def _digest(self, thing: ApiObject) -> Digest:
        return partial(digest_of, self._redaction, self._resource, thing.key)

    def _redacted_metadata(self, thing: ApiObject, body: bytes) -> bytes:
        body = stripped(body)
        if Preset.ANNOTATIONS in self._redaction.presets:
            body = redacted_annotations(body, self._digest(thing))
        return body

    def _decoded(self, thing: ApiObject, body: bytes) -> bytes:
        return redacted_structure(body, self._redaction.presets, self._digest(thing))

    def _redacted_tokens(self, thing: ApiObject, body: bytes) -> bytes:
        digest = self._digest(thing)
        return _TOKENS.sub(lambda found: _encode(digest("token", "", found[1].decode())), body)

    def _redacted_list(self, thing: ApiObject, listed: bytes, is_env: bool) -> bytes:
        if (Preset.ENV if is_env else Preset.ARGUMENTS) not in self._redaction.presets:
            return listed
        digest = self._digest(thing)
        if is_env:
            left = _VARIABLE.sub(partial(self._redacted_item, digest), listed)
        else:
            before = _texts(listed)
            after = redacted_arguments(before, digest)
            left = listed if after == before else _encode(after)
        if left == listed:
            _remember(self._harmless_env if is_env else self._harmless_texts, listed)
        return left

    def _redacted_item(self, digest: Digest, found: re.Match[bytes]) -> bytes:
        if found[0] in self._harmless_env:
            return found[0]
        name, value = _text(found[1]), _text(found[2])
        left = redacted_variable(name, value, digest)
        if left == value:
            _remember(self._harmless_env, found[0])
            return found[0]
        return b'{"name":%b,"value":%b' % (found[1], _encode(left))


def _remember(harmless: set[bytes], text: bytes) -> None:
    if len(text) <= _LONGEST_REMEMBERED:
        if len(harmless) >= _MOST_REMEMBERED:
            harmless.clear()
        harmless.add(text)


def _is_release(thing: ApiObject) -> bool:
    """Whether a ConfigMap is a release of Helm 3 (``HELM_DRIVER=configmap``) or of Helm 2."""
    labels = thing.labels()
    return thing.name.startswith(_RELEASE_NAME) or labels.get("owner") == "helm" or labels.get("OWNER") == "TILLER"
