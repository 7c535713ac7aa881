"""States as packed texts, and the way from a state back to the one before.

A state and a patch are zstd frames with a dictionary for each resource, once enough of them were seen: the codec of the
outbox. A patch is an RFC 7396 merge patch. It cannot set a member to null, and replaces lists whole; where no patch
leads back, or where it would not be smaller, the state before is kept whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

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


class WayBack(NamedTuple):
    """From a state to the one before."""

    whole: bool
    """``text`` is the state before. Otherwise a merge patch."""
    text: bytes


def way_back(state: bytes, before: bytes, *, whole: bool) -> WayBack:
    """``whole``: it is time for one."""
    patch = None if whole else differences(state, before, (Include.PATCH,)).patch
    if patch is None or len(patch) >= len(before):
        return WayBack(True, before)
    return WayBack(False, patch)


def went_back(state: bytes, patches: Sequence[bytes]) -> bytes:
    """The state before all of these steps; the newest comes first."""
    if not patches:
        return state
    value = _decode(state)
    for patch in patches:
        value = patched(value, _decode(patch))
    return _encode(value)


class Packing:
    """Packs the texts of the resources. Used in one thread."""

    def __init__(self, dictionaries: Iterable[tuple[int, int, bytes]]) -> None:
        """``dictionaries``: their numbers, resources and contents. Raises apsw.CorruptError for damaged ones."""
        try:
            self._codec = BodyCodec(Dictionary(*each) for each in dictionaries)
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

    def new_dictionary(self) -> tuple[int, int, bytes] | None:
        """A dictionary that is used from now on, if one can be made: number, resource and content. It has to be durable
        with what is packed behind it."""
        samples = self._codec.take_samples()
        dictionary = None if samples is None else make_dictionary(*samples)
        if dictionary is None:
            return None
        self._codec.learn(dictionary)
        return dictionary.number, dictionary.kind, dictionary.content


def _sealed(row: int) -> Any:
    raise ValueError("the text is encrypted, and no text of a history is")
