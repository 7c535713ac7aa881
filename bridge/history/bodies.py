"""States as packed texts, and the way from a state back to the one before.

A state and a patch are zstd frames with a dictionary for each resource, once enough of them were seen: the codec of the
outbox. A patch is an RFC 7396 merge patch. It cannot set a member to null, and replaces lists whole; where no patch
leads back, or where it would not be smaller, the state before is kept whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import apsw
import msgspec

from bridge.model.formats.content import Include
from bridge.model.primitives.merge_patch import patched
from bridge.outbox.log.body_codec import BodyCodec, Dictionary, make_dictionary
from bridge.views.differences import differences

FULL_EVERY = 16
"""Steps of an object: the state of each is at most so many patches away."""
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
T = TypeVar("T")


def decoded(text: bytes, kind: type[T]) -> T | None:
    """None for a text of another form: somebody else may have written it."""
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def patch_back(state: bytes, before: bytes) -> bytes | None:
    """None where no merge patch leads to the state before, or it would not be smaller than that."""
    patch = differences(state, before, (Include.PATCH,)).patch
    return None if patch is None or len(patch) >= len(before) else patch


def went_back(state: bytes, patches: Sequence[bytes]) -> bytes:
    """The state before all of these steps; the newest comes first."""
    if not patches:
        return state
    value = _decode(state)
    for patch in patches:
        value = patched(value, _decode(patch))
    return _encode(value)


class Packing:
    """Packs the texts of the resources, with the dictionaries of the file. Used in one thread."""

    def __init__(self, connection: apsw.Connection) -> None:
        """Raises apsw.CorruptError for damaged dictionaries."""
        self._connection = connection
        rows = connection.execute("SELECT number, resource, content FROM dictionaries")
        try:
            self._codec = BodyCodec(Dictionary(*row) for row in rows)
        except ValueError as error:
            raise apsw.CorruptError(str(error)) from error

    def packed(self, resource: int, text: bytes) -> bytes:
        if resource not in self._codec.compress:
            self._codec.sample(resource, (text,))
        return self._codec.pack(resource, text)

    def unpacked(self, text: bytes) -> bytes:
        """Raises apsw.CorruptError for a damaged text, as SQLite does for a damaged page."""
        try:
            return self._codec.unpack(text, _sealed, 0)
        except ValueError as error:
            raise apsw.CorruptError(str(error)) from error

    def make_dictionary(self) -> None:
        """Saves a dictionary and uses it from now on, if there are samples enough. In a transaction."""
        samples = self._codec.take_samples()
        if samples is not None and (made := make_dictionary(*samples)) is not None:
            row = made.number, made.kind, made.content
            self._connection.execute("INSERT INTO dictionaries VALUES (?,?,?)", row)
            self._codec.learn(made)


def _sealed(row: int) -> Any:
    raise ValueError("the text is encrypted, and no text of a history is")
