"""Transforms objects for their export: strips their metadata, and redacts Secrets and credentials.

A Secret is redacted whole (``redaction``). Of another object, the metadata loses the field managers and the copies of
the whole object in annotations, and annotations that are known to hold tokens get a digest. ``model.object.cut`` has
done this already for objects in kube-apiserver's format without such tokens. What is left is decoded once, down to the
annotations; all other members are copied. Then the credentials of the presets are redacted, and last the configured
rules are applied. An object that cannot be redacted leaves bare, with its identity alone.

Credentials of the presets stand in the places of ``places.PLACES``. Lists there are found in the bytes, at any depth,
and of these only the items with credentials are decoded. That reading is right for lists in Go's format: compact, with
plain letters in plain form. A body with another list, or with a map in such a place, is decoded as a whole
(``structure``), with the same result.

This is part of the hot path. A pod costs 4 to 5 µs, a twentieth of its way to Kafka; to decode and encode it costs some
thirty. Lists named ``env``, ``args`` and ``command`` are found at any depth, so no list of kinds grows old (the
known paths of the built-in workloads would miss custom resources), and lists without credentials are remembered.

Each search of a body costs as much as decoding its object did. Long ConfigMaps are mostly texts, in which no member can
stand: their names are decoded, and their texts are not searched.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Raw

from bridge.model.formats.content import managers_of
from bridge.model.object import LAST_APPLIED, ApiObject, bare_body, holds_token, is_copy
from bridge.model.policies import RedactionPreset as Preset
from bridge.model.policies import RedactionRule
from bridge.model.resource import Resource
from bridge.transform.credentials import Digest, Harmless, redacted_arguments, redacted_text, redacted_variable
from bridge.transform.places import BOOTSTRAP_TOKEN, PLACES, RELEASE, TOKEN_NAMES, Reading, has_free_members
from bridge.transform.redaction import UNREDACTED, Effort, PathRules, Redaction, is_secret, redacted, why_bare
from bridge.transform.structure import redacted_structure

_members = msgspec.json.Decoder(dict[str, Raw]).decode
_any = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode

_RELEASE = PathRules((RedactionRule(RELEASE),))
_RELEASE_NAME = "sh.helm.release."
_QUOTE = ord('"')

_COMPACT = b'"metadata":{"'
_HEAD = 200
"""Bytes in which Go writes the beginning of the metadata."""
_KEYS = tuple(b'"%b"' % name.encode() for name in PLACES)
_BEFORE_LIST = tuple(key + b":" for key in _KEYS)
_BEFORE_VARIABLES = tuple(b'"%b":' % name.encode() for name, (_, read) in PLACES.items() if read is Reading.VARIABLES)
_ENDS = b"|".join(re.escape(before[-6:]) for before in _BEFORE_LIST)
_LISTS = re.compile(rb"\[(?<=(?:%b|.....\s|....\s:)\[)" % _ENDS, re.DOTALL)
"""A list behind a key of the table, perhaps with blanks around the colon. The look is of one width, and a key has at
least three letters."""
_MAP_OR_TEXT = tuple((key, re.compile(rb'%b\s*+:\s*+([{"])' % key)) for key in _KEYS)
_UNUSUAL_ESCAPE = re.compile(rb"\\(?:/|u00(?:2[^6]|3[^cCeE]|[4-7]))")
"""An escape that Go does not write. A name may be hidden behind it."""

_TEXT = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
# Atomic within a loop: before CPython 3.11.5, what follows a possessive loop was matched where its body had failed.
_SOURCE = rb'\{"\w++":\{[^{}"\\]*+(?>"[^"\\]*+"[^{}"\\]*+)*+\}\}'
_VARIABLE = re.compile(rb'([^"\\]*+")(?:,"value":(%b)|,"valueFrom":%b)?+' % (_TEXT, _SOURCE), re.DOTALL)
"""An item of ``env`` without its beginning, ``{"name":"``, and its end."""
_VARIABLES = re.compile(rb'\[(?>\{"name":"%b\},?+)*+\]' % _VARIABLE.pattern, re.DOTALL)
_FIRST_VARIABLE = b'[{"name":"'
_BETWEEN_VARIABLES = b'},{"name":"'
"""Never within a text: a quote behind a brace begins a text or ends it, and no name follows the end of a text."""
_LAST_VARIABLE = b"}]"
_TEXTS = re.compile(rb"\[(?:%b,?+)*+\]" % _TEXT, re.DOTALL)
_WHOLE_TEXT = re.compile(_TEXT, re.DOTALL)
_TOKENS = tuple(
    (
        b'%b"' % end.encode(),
        re.compile(rb'(?<=%b")(\s*+:\s*+)"(%b)"' % (end.encode(), BOOTSTRAP_TOKEN.pattern.encode())),
    )
    for end in TOKEN_NAMES
)

_LONGEST_LIST: Final = 4096
"""Bytes of a list that is looked for among those of earlier bodies."""
_LONG: Final = 2048
"""Bytes of a ConfigMap whose texts are worth leaving out."""
_LARGE_SECRET: Final = 65_536
"""Bytes from which on the values of a Secret are counted."""
_BLANKS: Final = 64
"""Bytes before a bracket that are searched for its key. Blanks alone count as if they hid one."""


class _ConfigMap(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, rename="camel"):
    """The members of a ConfigMap without binary data, in Go's order."""

    kind: str
    api_version: str
    metadata: msgspec.Raw
    immutable: bool | None = None
    data: dict[str, msgspec.Raw] = {}


_config_map = msgspec.json.Decoder(_ConfigMap).decode
_SEARCHED_NAMES = frozenset({*PLACES, "release"})

_text = msgspec.json.Decoder(str).decode
_texts = msgspec.json.Decoder(list[str]).decode


def transform_for(
    resource: Resource, redaction: Redaction, left_bare: Callable[[str], None] = lambda _: None
) -> Callable[[ApiObject], ApiObject]:
    """The transform of a resource's objects, applied once, before an object is stored, logged or sent. Never raises.

    An object counts as a Secret by its resource or by its own kind. An object of an unexpected shape, or one whose
    redaction would take too much work, is reduced to a minimal object: kind, apiVersion, name, namespace, uid,
    resourceVersion. ``left_bare`` gets its key and the reason."""
    secrets = is_secret(resource)
    presets = Presets(resource, redaction)
    rules = PathRules(redaction.rules)

    def transform(thing: ApiObject) -> ApiObject:
        effort = Effort(redaction, resource, thing.key)
        try:
            if secrets or thing.secret:
                if len(thing.body) > _LARGE_SECRET:
                    effort.digests(thing.body.count(b'":'))
                body = redacted(thing, resource, redaction)
            else:
                body = presets.redacted(thing, effort)
            if redaction.rules:
                body = rules.redacted(body, effort)
        except UNREDACTED as error:
            left_bare(f"{thing.key}: {why_bare(error)}")
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
        self._redaction = redaction
        on = redaction.presets
        self._before_list = tuple(b'"%b":' % name.encode() for name, (preset, _) in PLACES.items() if preset in on)
        """In front of the lists that are redacted."""
        self._in_places = bool(self._before_list)
        self._in_members = has_free_members(resource)
        self._tokens = self._in_members and Preset.BOOTSTRAP_TOKENS in on
        self._any = self._in_places or self._tokens
        self._config_maps = resource.name == "configmaps"
        self._releases = self._config_maps and Preset.HELM_RELEASES in on
        self._harmless_env: Harmless[bytes] = Harmless()
        """Lists ``env`` without credentials, which most updates of an object repeat."""
        self._harmless_variables: Harmless[bytes] = Harmless()
        """Items of such lists, from behind ``_FIRST_VARIABLE``. They are whole items."""
        self._harmless_texts: Harmless[bytes] = Harmless()
        """Lists ``args`` and ``command`` without credentials."""
        self._harmless_arguments: Harmless[str] = Harmless()

    def redacted(self, thing: ApiObject, effort: Effort) -> bytes:
        """The body without ``managedFields``, last-applied, and the credentials of the presets; the same bytes if it
        has none of them. Raises one of ``UNREDACTED`` for a body of an unexpected shape, or one that takes too much
        work; then the body must not be exported."""
        body = thing.body
        if self._config_maps and len(body) > _LONG:
            rest = _without_texts(body)
            if rest is not None and self._without_credentials(rest, effort, thing.stripped) is rest:
                return body
        body = self._without_credentials(body, effort, thing.stripped)
        if self._releases and b'"release"' in body and _is_release(thing):
            return _RELEASE.redacted(body, effort)
        return body

    def _without_credentials(self, body: bytes, effort: Effort, is_stripped: bool) -> bytes:
        if not self._any:
            return body if is_stripped else self._redacted_metadata(effort, body)
        if body.find(_COMPACT, 0, _HEAD) < 0 or (b"\\" in body and _UNUSUAL_ESCAPE.search(body)):
            return self._redacted_metadata(effort, self._decoded(effort, body))
        if not is_stripped:
            body = self._redacted_metadata(effort, body)
        whole, has_place = body, self._in_places
        if self._in_members:
            has_place = has_place and any(key in body for key in _KEYS)
            if has_place and self._has_map_or_text(effort, body):
                return self._decoded(effort, body)
            if self._tokens:
                body = self._redacted_tokens(effort, body)
        if not has_place:
            return body
        left: list[bytes] = []
        at = 0
        for found in _LISTS.finditer(body):
            start = found.start()
            if not body.endswith(self._before_list, at, start):
                if not body.endswith(_BEFORE_LIST, at, start) and _is_spaced(body, start):
                    return self._decoded(effort, whole)
                continue
            is_env = body.endswith(_BEFORE_VARIABLES, at, start)
            harmless = self._harmless_env if is_env else self._harmless_texts
            if body[start : body.find(b"]", start, start + _LONGEST_LIST) + 1] in harmless:
                continue  # Bytes that were a whole list in an earlier body are the whole list in this one.
            replaced = (self._variables if is_env else self._texts)(effort, body, start)
            if replaced is None:
                return self._decoded(effort, whole)
            end, redacted = replaced
            if redacted is not None:
                left += body[at:start], redacted
                at = end
        return b"".join((*left, body[at:])) if at else body

    def _redacted_metadata(self, effort: Effort, body: bytes) -> bytes:
        return stripped(body, effort if Preset.ANNOTATIONS in self._redaction.presets else None)

    def _decoded(self, effort: Effort, body: bytes) -> bytes:
        effort.searches(len(body))
        return redacted_structure(body, self._redaction.presets, effort)

    def _has_map_or_text(self, effort: Effort, body: bytes) -> bool:
        """Whether a place has a map, or a text with a credential."""
        for key, expression in _MAP_OR_TEXT:
            for found in expression.finditer(body) if key in body else ():
                text = _WHOLE_TEXT.match(body, found.start(1))
                if text is None or self._redacted_text(effort, text[0]):
                    return True
        return False

    def _redacted_text(self, effort: Effort, text: bytes) -> bool:
        effort.searches(len(text))
        plain = _text(text)
        return redacted_text(plain, effort) != plain

    def _redacted_tokens(self, effort: Effort, body: bytes) -> bytes:
        def digest(found: re.Match[bytes]) -> bytes:
            return found[1] + _encode(effort("token", "", found[2].decode()))

        for end, expression in _TOKENS:
            if end in body:
                body = expression.sub(digest, body)
        return body

    def _variables(self, effort: Effort, body: bytes, start: int) -> tuple[int, bytes | None] | None:
        """The end of the list ``env`` that starts here, and its redacted form, or None if that is the same; None for a
        list in another format."""
        if body.startswith(b"[]", start):
            self._harmless_env.remember(b"[]")
            return start + 2, None
        end = body.find(_LAST_VARIABLE, start) + len(_LAST_VARIABLE)
        replaced = self._redacted_variables(effort, body, start, end)
        if replaced is None and (whole := _VARIABLES.match(body, start)) is not None:
            end = whole.end()
            replaced = self._redacted_variables(effort, body, start, end)
        if replaced is None:
            return None
        return end, replaced or None

    def _redacted_variables(self, effort: Effort, body: bytes, start: int, end: int) -> bytes | None:
        """The redacted form of the list, empty if it is the same; None if this is not a whole list of variables."""
        first = start + len(_FIRST_VARIABLE)
        if not body.startswith(_FIRST_VARIABLE, start):
            return None
        effort.searches(end - start)
        items = body[first : end - len(_LAST_VARIABLE)].split(_BETWEEN_VARIABLES)
        changed = False
        known = self._harmless_variables
        for index in [index for index, item in enumerate(items) if item not in known]:
            found = _VARIABLE.fullmatch(items[index])
            if found is None:
                return None
            left = self._redacted_variable(effort, found)
            if left is None:
                known.remember(items[index])
            else:
                items[index], changed = left, True
        if changed:
            return b"%b%b%b" % (_FIRST_VARIABLE, _BETWEEN_VARIABLES.join(items), _LAST_VARIABLE)
        self._harmless_env.remember(body[start:end])
        return b""

    def _redacted_variable(self, effort: Effort, found: re.Match[bytes]) -> bytes | None:
        """None for a variable that stays as it is."""
        if found[2] is None:
            return None
        name, value = _text(b'"' + found[1]), _text(found[2])
        left = redacted_variable(name, value, effort)
        return None if left == value else b'%b,"value":%b' % (found[1], _encode(left))

    def _texts(self, effort: Effort, body: bytes, start: int) -> tuple[int, bytes | None] | None:
        """The same for a list ``args`` or ``command``."""
        whole = _TEXTS.match(body, start)
        if whole is None:
            return None
        effort.searches(len(whole[0]))
        before = _texts(whole[0])
        after = redacted_arguments(before, effort, self._harmless_arguments)
        if after != before:
            return whole.end(), _encode(after)
        self._harmless_texts.remember(whole[0])
        return whole.end(), None


def _is_spaced(body: bytes, start: int) -> bool:
    """Whether the bracket may follow a key of the table, with blanks in between."""
    before = body[max(0, start - _BLANKS) : start].rstrip()
    if before.endswith(b":"):
        before = before[:-1].rstrip()
    elif before:
        return False
    return not before or before.endswith(_KEYS)


def _without_texts(body: bytes) -> bytes | None:
    """A ConfigMap without its data, which decides about the whole. None for data that must be searched: other values
    than texts, names that matter, or another format than Go's. Encoded again, the ConfigMap is the same, so it has no
    other member, none twice, no blank between tokens, and no escape in a name."""
    try:
        found = _config_map(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    names = "\n".join((*found.data, ""))
    if (
        not found.data.keys().isdisjoint(_SEARCHED_NAMES)
        or any(f"{end}\n" in names for end in TOKEN_NAMES)
        or {memoryview(text)[0] for text in found.data.values()} != {_QUOTE}
        or _encode(found) != body
    ):
        return None
    found.data = {}
    return _encode(found)


def _is_release(thing: ApiObject) -> bool:
    """Whether a ConfigMap is a release of Helm 3 (``HELM_DRIVER=configmap``) or of Helm 2."""
    labels = thing.labels()
    return thing.name.startswith(_RELEASE_NAME) or labels.get("owner") == "helm" or labels.get("OWNER") == "TILLER"


# ── Metadata ─────────────────────────────────────────────────────────────────


def stripped(body: bytes, digest: Digest | None) -> bytes:
    """The body without ``managedFields`` and last-applied; with ``digest``, also without other copies of the object in
    annotations, and with a digest in place of each token there. The same bytes if it has none of them. Raises
    msgspec.DecodeError, UnicodeDecodeError or KeyError for a body without metadata or with annotations that are not a
    map."""
    top = _members(body)
    metadata = _members(top["metadata"])
    managers = metadata.pop("managedFields", None)
    before = _members(metadata.get("annotations", b"null")) if _has_annotations(metadata) else {}
    if digest is None:
        after = {name: value for name, value in before.items() if name != LAST_APPLIED}
    else:
        after = {name: _redacted_annotation(name, value, digest) for name, value in before.items() if not is_copy(name)}
    if managers is None and after == before:
        return body
    if after:
        metadata["annotations"] = Raw(_encode(after))
    elif before:
        del metadata["annotations"]
    top["metadata"] = Raw(_encode(metadata))
    return _encode(top)


def _has_annotations(metadata: dict[str, Raw]) -> bool:
    return metadata.get("annotations") not in (None, Raw(b"null"))


def _redacted_annotation(name: str, value: Raw, digest: Digest) -> Raw:
    if not holds_token(name) or bytes(value) in {b'""', b"null"}:
        return value
    found = _any(value)
    return Raw(_encode(digest("annotations", name, found if isinstance(found, str) else bytes(value).decode())))
