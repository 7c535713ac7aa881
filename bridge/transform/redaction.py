"""Replaces values by keyed digests: those of Secrets, those at configured paths, and those that one sink must not get.

A digest and not a constant, since a constant hides a rotation, which is the first question of an audit; keyed, since a
plain hash can be guessed from a dictionary. The digest covers the place of the value, so a password in two Secrets is
not recognizable as shared; nor is a copy. The key is a file beside the database and no row in it: it outlives a damaged
database, and stays out of copies made for support.

``Redaction`` has the keys, presets and rules. In a Secret, only the members that ``_Secret`` and ``_Metadata`` declare
are exported, with the declared types. Kubernetes has no other members in a Secret (core/v1 types.go); a member of a
later version is held back until it is added here. Names of keys are exported. Values of labels and annotations are
redacted too: tools keep tokens there. ``PathRules`` applies the configured rules: maps and lists along a path are
decoded one level deep, and members beside the path are copied. A value that stands where a path expects a map or a
list is redacted itself, because it cannot be judged.

Redaction runs between two changes, so one object must not hold up the others for long. An ``Effort`` counts the work on
an object, in place of a clock, so the object leaves alike on every machine and at every start. All of that work is
linear, and the largest objects that etcd takes by default stay within the bound, unless a rule leads to some hundred
thousand values in them.

Whoever may write objects decides what redaction meets. So its errors (``UNREDACTED``) are no failure of the bridge: the
object leaves with its identity alone. ``redact_for_sink`` redacts beside the redaction that holds for every sink, and
never raises: what it meets is the reason for which that record alone is rejected, and stands in the record's content.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType

from bridge.model.formats.content import Content
from bridge.model.object import LAST_APPLIED, MASKED, ApiObject, bare_body
from bridge.model.policies import RedactionMode, RedactionPreset, RedactionRule
from bridge.model.primitives.field_path import Every, FieldPath, Step
from bridge.model.record import Delta, Record
from bridge.model.resource import Resource
from bridge.transform.redaction_key import DIGEST, RedactionKey

_members = msgspec.json.Decoder(dict[str, Raw]).decode
_items = msgspec.json.Decoder(list[Raw]).decode
_any = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode

# ── Keys, presets and rules ──────────────────────────────────────────────────

_DIGESTS = re.compile(rf"{DIGEST}(?: {DIGEST})*")
_BASE64 = "aG1hYy1zaGEyNTY6"
"""``hmac-sha256:`` in base64, as digests stand in the data of a Secret."""


class Redaction(msgspec.Struct, frozen=True):
    """What a transform redacts, and with which keys."""

    keys: tuple[RedactionKey, ...]
    """At least one. The first signs; the others are former keys."""
    presets: frozenset[RedactionPreset] = frozenset(RedactionPreset)
    rules: tuple[RedactionRule, ...] = ()

    def of_object(self, resource: Resource, key: str) -> Callable[..., str]:
        """Makes digests over the identity of an object and the parts that it is called with: equal values of two
        objects have different digests. A digest is one under each key, the signing key first, with a blank in between:
        while a former key is known, a reader can compare a value with an older digest of it."""
        namespace, _, name = key.rpartition("/")
        identity = resource.name.encode(), namespace.encode(), name.encode()
        first, *former = [each.starting_with(*identity) for each in self.keys]
        return first if not former else lambda *rest: " ".join(digest(*rest) for digest in (first, *former))

    def extended(self, rules: Iterable[RedactionRule]) -> Redaction:
        return msgspec.structs.replace(self, rules=(*self.rules, *rules))


def is_digest(text: str) -> bool:
    """Whether redaction made this text. A digest is not digested again."""
    if text.startswith(_BASE64):
        try:
            text = b64decode(text, validate=True).decode("ascii")
        except ValueError:
            return False
    return _DIGESTS.fullmatch(text) is not None


# ── The work on an object ────────────────────────────────────────────────────

MOST_WORK: Final = 3 << 19
"""Bytes of text that are searched for credentials, in an object; etcd takes requests of as many. The worst text takes
about half a second."""
_PER_DIGEST: Final = 16
"""A digest counts as much as this many bytes of searched text, for each key."""
_HASHED: Final = 256
"""So many bytes that are hashed, or copied, count as a searched one."""


class TooCostly(Exception):
    """Redaction of the object takes more than ``MOST_WORK``; it must not be exported."""


UNREDACTED: Final = (TooCostly, msgspec.MsgspecError, UnicodeError, RecursionError, KeyError)
"""The errors of redaction. The object must not be exported then, but its identity alone."""


def why_bare(error: BaseException) -> str:
    """The reason, for the operator."""
    if isinstance(error, TooCostly):
        return "its redaction would take too long: too much text in env, args and command, or too many redacted values"
    return "redaction cannot read it: it has not the shape of its kind, or is nested too deeply"


class Effort(msgspec.Struct, gc=False):
    """The digests of an object (``Redaction.of_object``), and the work that is left for its redaction."""

    redaction: Redaction
    resource: Resource
    key: str
    left: int = MOST_WORK
    begun: Callable[..., str] | None = None
    """``of_object``, once a value has a digest."""

    def __call__(self, *parts: str) -> str:
        """The digest of a value, from parts that say where it stands, and the value. Raises TooCostly."""
        encoded = [part.encode("utf-8", "surrogatepass") for part in parts]
        self.digests(1)
        self.copies(sum(map(len, encoded)))
        if self.begun is None:
            self.begun = self.redaction.of_object(self.resource, self.key)
        return self.begun(*encoded)

    def searches(self, size: int) -> None:
        """Counts bytes that are searched for credentials. Raises TooCostly, as do the following."""
        self.left -= size
        if self.left < 0:
            raise TooCostly

    def digests(self, count: int) -> None:
        self.searches(count * _PER_DIGEST * len(self.redaction.keys))

    def copies(self, size: int) -> None:
        self.searches(size // _HASHED)


# ── Secrets ──────────────────────────────────────────────────────────────────


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
    digest = redaction.of_object(resource, thing.key)

    def digests(path: bytes, values: _Values) -> Any:
        """Texts, in place of JSON."""
        if not values:
            return values
        return {name: digest(path, name.encode(), _value(value)) for name, value in values.items()}

    if data := digests(b"data", secret.data):
        # Bytes are written in base64, so that clients which decode Secrets can decode these.
        secret.data = {name: text.encode() for name, text in data.items()}
    secret.string_data = digests(b"stringData", secret.string_data)
    secret.metadata.labels = digests(b"metadata.labels", secret.metadata.labels)
    secret.metadata.annotations = digests(b"metadata.annotations", _without_last_applied(secret.metadata.annotations))
    return _encode(secret)


def _without_last_applied(annotations: _Values) -> _Values:
    # kubectl keeps the whole object there, with its values in clear text.
    if not annotations or LAST_APPLIED not in annotations:
        return annotations
    return {name: value for name, value in annotations.items() if name != LAST_APPLIED} or UNSET


def _value(raw: Raw) -> bytes:
    """The bytes to digest: a string's text without its escapes, or the JSON of another value."""
    try:
        # A letter in front, so that the text "1" and the number 1 have different digests.
        return b"s" + _text_in(raw).encode()
    except (msgspec.DecodeError, UnicodeError):
        return b"j" + bytes(raw)


# ── Values at paths ──────────────────────────────────────────────────────────

_Where: TypeAlias = tuple[str, ...]


class PathRules:
    """The rules for the objects of one resource."""

    def __init__(self, rules: Sequence[RedactionRule]) -> None:
        self._paths = tuple((path.steps, _Signs(path), rule.mode) for rule in rules for path in rule.paths)

    def redacted(self, body: bytes, effort: Effort) -> bytes:
        """The body with its values redacted; the same bytes if no path leads to a value. Raises one of
        ``UNREDACTED`` for a body of an unexpected shape, or one that takes too much work; then it must not be exported.
        """
        escaped = b"\\" in body  # An escape may hide a name.
        for steps, signs, mode in self._paths:
            if escaped or signs.in_(body):
                body = bytes(_Edit(mode, effort).redacted(Raw(body), steps, ()) or b"")
        return body


class _Signs:
    """What a body has if a path may lead to a value in it, so that a rule costs little for other objects."""

    def __init__(self, path: FieldPath) -> None:
        names = list(takewhile(lambda step: isinstance(step, str), path.steps))[:2]
        self._name = _encode(names[-1]) if names else b""
        """Of its first two names, the last. A later name may be missing where a value stands in place of a map."""
        self._no_map = re.compile(rb"%b\s*+:\s*+[^\s{n]" % re.escape(_encode(names[0]))) if len(names) == 2 else None
        """Another value than a map or null in place of the first."""

    def in_(self, body: bytes) -> bool:
        return self._name in body or (self._no_map is not None and self._no_map.search(body) is not None)


class _Edit:
    def __init__(self, mode: RedactionMode, effort: Effort) -> None:
        self._mode = mode
        self._effort = effort

    def redacted(self, raw: Raw, steps: Sequence[Step], where: _Where) -> Raw | None:
        """The value without the values that ``steps`` lead to; None if the value itself is left out."""
        self._effort.copies(len(memoryview(raw)))
        if not steps:
            return self._leaf(raw, where)
        match bytes(memoryview(raw)[:1]):
            case b"{":
                return self._map(raw, steps, where)
            case b"[":
                return self._list(raw, steps, where)
        return self._leaf(raw, where)

    def _map(self, raw: Raw, steps: Sequence[Step], where: _Where) -> Raw:
        step, *rest = steps
        members = _members(raw)
        names = [step] if isinstance(step, str) else list(members)
        for name in names:
            if name not in members:
                continue
            left = self.redacted(members[name], rest, (*where, name))
            if left is None:
                del members[name]
            else:
                members[name] = left
        return Raw(_encode(members))

    def _list(self, raw: Raw, steps: Sequence[Step], where: _Where) -> Raw:
        # A name leads through a list into each item. A digest does not depend on the index: an item that moves has not
        # changed. A removed item becomes null, so that the others stay where they are.
        rest = steps[1:] if isinstance(steps[0], Every) else steps
        items = [self.redacted(item, rest, (*where, "*")) for item in _items(raw)]
        return Raw(_encode(items))

    def _leaf(self, raw: Raw, where: _Where) -> Raw | None:
        if self._mode is RedactionMode.REMOVE:
            return None
        self._effort.searches(len(memoryview(raw)) // 4)
        return Raw(_encode(self._replaced(_any(raw), where)))

    def _replaced(self, value: Any, where: _Where) -> Any:
        match value:
            case dict():
                return {name: self._replaced(inner, (*where, name)) for name, inner in value.items()}
            case list():
                return [self._replaced(item, (*where, "*")) for item in value]
            case None:
                return None
            case str() if is_digest(value):
                return value
        if self._mode is RedactionMode.MASK:
            return MASKED
        return self._effort("path", *where, value if isinstance(value, str) else _encode(value).decode())


# ── Records of one sink ──────────────────────────────────────────────────────


def redact_for_sink(rules: Sequence[RedactionRule], redaction: Redaction) -> Callable[[Record], Record]:
    """A function from a record of the outbox to the record for the sink: both states of a delta are redacted by
    ``rules``, with the keys of ``redaction``. Notices stay. A delta that cannot be redacted, or only with too much
    work, is ``unfit``, and bare."""
    paths = PathRules(rules)

    def state(delta: Delta, body: bytes) -> bytes:
        return paths.redacted(body, Effort(redaction, delta.resource, delta.key))

    def redact(record: Record) -> Record:
        if not isinstance(record, Delta):
            return record
        try:
            before = None if record.before is None else state(record, record.before)
            return msgspec.structs.replace(record, body=state(record, record.body), before=before)
        except Exception as error:
            # The error's own text may have values of the object.
            why = why_bare(error) if isinstance(error, UNREDACTED) else f"redaction fails: {type(error).__name__}"
        bare = bare_body(record.resource, record.key, record.uid, record.resource_version)
        failed = Content(failure=f"redact: {why}; a retry delivers the identity of the object alone")
        return msgspec.structs.replace(record, body=bare, before=None, content=failed)

    return redact
