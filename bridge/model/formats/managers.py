"""Reads the field managers of an object: the programs that ``metadata.managedFields`` names, with their last change."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

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
