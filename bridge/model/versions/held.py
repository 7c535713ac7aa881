"""Objects whose later records wait behind a dead letter: known by name, or by a digest that another replica published.

A digest is the same on every replica, and takes 8 bytes in the Lease whatever the object's name. Two objects share one
by accident with a probability of 2^-64: then records of an object wait that need not, as its parked records show.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Annotated

import msgspec
from msgspec import Meta

from bridge.model.record import OrderingKey

DIGEST = 8
"""Bytes."""
MOST_HELD = 8192
"""Objects of all sinks that the Lease has digests of: 88,000 characters."""


def digest_of(key: OrderingKey) -> bytes:
    return blake2b(msgspec.json.encode(key), digest_size=DIGEST).digest()


def digests_in(packed: bytes) -> set[bytes]:
    """Of the form that ``HeldObjects.packed`` has; a rest at the end is left out."""
    return {packed[at : at + DIGEST] for at in range(0, len(packed) - DIGEST + 1, DIGEST)}


class KeptLetters(msgspec.Struct, frozen=True, omit_defaults=True):
    """Dead letters on the disk of a replica that does not lead."""

    address: Annotated[str, Meta(max_length=512)] = ""
    """Its URL: see ``Frontier.address``. Empty if nobody can fetch them."""
    through: Annotated[int, Meta(ge=0, le=1 << 62)] = 0
    """The leader has stored those up to this number, of that replica."""
    former: bool = False
    """The replica is of a former shard: it gets and deletes none any more, and has those of other shards, too."""
    since: Annotated[int, Meta(ge=0, le=1 << 62)] = 0
    """Of a former shard: its last leader had stored those up to this number."""
    notices: bool = True
    """Those of no object are for this shard, too."""


class HeldObjects(Mapping[OrderingKey, int]):
    """Object → the sequence number of its first dead letter; 0 for the digest of a dead letter that another replica
    has. Iteration and length are of the objects with known names."""

    def __init__(self) -> None:
        self._first: dict[OrderingKey, int] = {}
        self._elsewhere: set[bytes] = set()
        self._packed: bytes | None = b""
        self._expected: set[OrderingKey] = set()
        self.named = False
        """The Lease named all objects when this replica began to lead."""

    def __getitem__(self, key: OrderingKey) -> int:
        first = self._first.get(key)
        if first is not None:
            return first
        if self._elsewhere and digest_of(key) in self._elsewhere:
            return 0
        raise KeyError(key)

    def __iter__(self) -> Iterator[OrderingKey]:
        return iter(self._first)

    def __len__(self) -> int:
        return len(self._first)

    def __bool__(self) -> bool:
        return bool(self._first or self._elsewhere)

    @property
    def count(self) -> int:
        """Of all objects, those that are to get a dead letter, too."""
        return len(self._first) + len(self._others)

    @property
    def packed(self) -> bytes:
        """The digests of all objects, in their order; empty for more than ``MOST_HELD``."""
        if self.count > MOST_HELD:
            return b""
        if self._packed is None:
            self._packed = b"".join(sorted({*map(digest_of, self._first), *self._others}))
        return self._packed

    @property
    def _others(self) -> Collection[bytes]:
        return self._elsewhere.union(map(digest_of, self._expected)) if self._expected else self._elsewhere

    def hold(self, digests: Collection[bytes], *, whole: bool) -> None:
        """Other replicas have dead letters of these objects. ``whole``: and of no others."""
        before = set() if whole else self._elsewhere
        self._elsewhere = before | set(digests).difference(map(digest_of, self._first))
        self._packed = None

    def found_named(self, digests: Collection[bytes]) -> None:
        """The Lease names these when this replica begins to lead."""
        self.named = all(digest_of(key) in digests for key in self._first)

    @property
    def expected(self) -> Collection[OrderingKey]:
        """Objects that are to get their first dead letter here."""
        return self._expected

    def expect(self, keys: Iterable[OrderingKey]) -> bool:
        """Each of these is to get a dead letter; also no object, for a notice. Returns whether nobody expected that of
        some."""
        new = set(keys) - self._first.keys()
        if new <= self._expected:
            return False
        self._expected |= new
        self._packed = None
        return True

    def came(self, key: OrderingKey) -> None:
        """A dead letter that was expected is here."""
        if key in self._expected:
            self._expected.discard(key)
            self._packed = None

    def expect_none(self) -> None:
        """Whatever was expected is taken again."""
        if self._expected:
            self._expected.clear()
            self._packed = None

    def forget_elsewhere(self) -> None:
        """No other replica has a dead letter any more."""
        if self._elsewhere:
            self._elsewhere.clear()
            self._packed = None

    def add(self, key: OrderingKey, sequence: int) -> None:
        """A dead letter behind those that the object has."""
        if key not in self._first:
            self._first[key] = self.get(key, sequence)
            self.came(key)
            if self._elsewhere:
                self._elsewhere.discard(digest_of(key))
            self._packed = None

    def move(self, key: OrderingKey, sequence: int) -> None:
        """The first dead letter of the object is another one now."""
        self._first[key] = sequence

    def remove(self, key: OrderingKey) -> None:
        """The object has no dead letter any more."""
        del self._first[key]
        self._packed = None
