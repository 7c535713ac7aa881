"""The content that a sink's options ask for beside the object: data, texts for addresses and headers, and differences
between states.

Among it are the field managers of an object: the programs that ``metadata.managedFields`` names, with their last
change.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import Meta

JSON = "application/json"
TEXT = "text/plain;charset=utf-8"


class Makes(StrEnum):
    """The use of an expression's value."""

    DATA = "data"
    """The data of the event: a map, a list or a text."""
    TEXT = "text"
    """A part of a text."""


class Include(StrEnum):
    """A member of an envelope, or a column of a row, that a sink gets only if its options ask for it."""

    BEFORE = "before"
    """The state before the change."""
    PATCH = "patch"
    """A JSON Merge Patch (RFC 7396) from the state before to the state after."""
    JSON_PATCH = "json_patch"
    """A JSON Patch (RFC 6902)."""
    CHANGED = "changed"
    """The paths at which the states differ."""
    MANAGERS = "managers"
    """The field managers that changed something."""


STATES_BEFORE = frozenset({Include.BEFORE, Include.PATCH, Include.JSON_PATCH, Include.CHANGED})
"""Those that need the state before."""
DIFFERENCES = frozenset({Include.PATCH, Include.JSON_PATCH, Include.CHANGED})
"""Made of both states."""
MADE = DIFFERENCES | {Include.MANAGERS}
"""Those that are a part of the record's content."""


class OptionExpression(msgspec.Struct, frozen=True):
    """An expression in the options of a sink."""

    option: str
    """The path of the option, such as ``headers.X-Team``."""
    text: str
    makes: Makes
    offset: int = 0
    """Characters of the option in front of the expression."""


class ContentRequest(msgspec.Struct, frozen=True):
    """The content that a sink's options ask for."""

    expressions: tuple[OptionExpression, ...] = ()
    include: frozenset[Include] = frozenset()

    @property
    def is_made(self) -> bool:
        """Whether the content of a record must be made: the state before is a part of the record."""
        return bool(self.expressions) or not MADE.isdisjoint(self.include)


class Content(msgspec.Struct, frozen=True):
    """The content of a record for a sink."""

    data: Any = None
    """A JSON value: a map, a list or a text. None without the option ``data``. Nobody changes it."""
    texts: Mapping[str, str] = {}
    """Expression → its value."""
    patch: bytes | None = None
    """JSON. None if no sink asks for it, and without a state before; so are the next two. Also where no merge patch
    leads to the state after."""
    json_patch: bytes | None = None
    changed: bytes | None = None
    managers: bytes | None = None
    """JSON. None if no sink asks for it, and where it is unknown."""
    failure: str = ""
    """Why the content cannot be made, without any value of the object; empty if it can. A sink rejects such a
    record."""
    uncompared: str = ""
    """Why the differences have the object as a whole, without any value of it; empty if they do not."""

    @property
    def media_type(self) -> str:
        """Of the data in the binary form."""
        return TEXT if isinstance(self.data, str) else JSON


# ── Field managers ───────────────────────────────────────────────────────────

MOST = 100
"""Entries of an object that are read. kube-apiserver keeps ten updates, and one entry for each program that applies."""
_LONGEST = 256
"""Characters of a text. kube-apiserver takes 128 as the name of a manager."""
_MARK = b"\0"
"""Around managers behind a body. No JSON text has it."""


class FieldManager(msgspec.Struct, frozen=True):
    """A program that set fields of an object. It names itself: the person is in the audit log of the API server."""

    manager: Annotated[str, Meta(description="The program, by its own name, such as kubectl-edit.")] = ""
    operation: Annotated[str, Meta(description="Apply, or Update for every other way to write.")] = ""
    subresource: Annotated[str, Meta(description="Such as status; empty for the object itself.")] = ""
    time: Annotated[str, Meta(description="When it changed a field last: RFC 3339, in whole seconds.")] = ""


class _Step(msgspec.Struct, frozen=True, array_like=True):
    """As it is stored with the state after the change."""

    entries: tuple[FieldManager, ...] = ()
    changed: tuple[int, ...] | None = None
    """Indexes of the entries that the state before lacks; None if that is unknown."""


class _ObjectMeta(msgspec.Struct, frozen=True):
    managed_fields: tuple[FieldManager, ...] = msgspec.field(name="managedFields", default=())


class _Object(msgspec.Struct, frozen=True):
    metadata: _ObjectMeta = _ObjectMeta()


_decode_object = msgspec.json.Decoder(_Object).decode
_decode_entries = msgspec.json.Decoder(tuple[FieldManager, ...]).decode
_decode_step = msgspec.json.Decoder(_Step).decode
_encode = msgspec.json.Encoder().encode


def managers_of(body: bytes) -> bytes:
    """The entries of an object that still has its ``managedFields``, as JSON; empty without any, and for entries of
    another form, which an aggregated API may serve."""
    try:
        found = _decode_object(body).metadata.managed_fields[:MOST]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return b""
    return _encode([_bounded(each) for each in found]) if found else b""


def step(before: bytes | None, after: bytes) -> bytes:
    """For ``Delta.managers``. ``before`` and ``after``: the entries of the two states, as ``managers_of`` makes them;
    None for an unknown state before."""
    entries = _decode_entries(after)
    if before is None:
        return _encode(_Step(entries))
    known = frozenset(_decode_entries(before))
    return _encode(_Step(entries, tuple(index for index, entry in enumerate(entries) if entry not in known)))


def entries_in(managers: bytes) -> bytes:
    """The entries of the state after the step, as ``managers_of`` makes them."""
    return _encode(_decode_step(managers).entries)


def changed_in(managers: bytes) -> bytes | None:
    """The entries that changed in the step, as JSON; None if they are unknown."""
    found = _decode_step(managers)
    return None if found.changed is None else _encode([found.entries[index] for index in found.changed])


def behind(body: bytes, managers: bytes | None) -> bytes:
    """A text for both, which ``parted`` separates; the body alone for None."""
    return body if managers is None else b"".join((body, _MARK, managers, _MARK))


def parted(text: bytes) -> tuple[bytes, bytes | None]:
    """The body, and the managers behind it, if any. Takes the time of a look at the last byte without them."""
    if not text.endswith(_MARK):
        return text, None
    at = text.index(_MARK)
    return text[:at], text[at + 1 : -1]


def _bounded(entry: FieldManager) -> FieldManager:
    return FieldManager(*(getattr(entry, name)[:_LONGEST] for name in FieldManager.__struct_fields__))
