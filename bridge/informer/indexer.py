"""The store of an informer: what is known of every object, and where to find it (client-go's thread_safe_store.go).

One writer (the Controller), many readers, one event loop. Objects are never held as dicts: of each there is a key, a
uid, a version and where its body is; of each index its values.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, KeysView, Mapping, MutableMapping
from heapq import nlargest
from typing import TypeAlias, cast

from bridge.model.change import ObjectVersion
from bridge.model.object import ApiObject
from bridge.model.primitives.packing import pack, unpack
from bridge.model.versions.version_table import VersionTable, age_of

Stored: TypeAlias = Callable[[int], bytes]
"""Reads the body of the record with this sequence number, at once. It has every record at which an object rests; that
one is missing is a bug, and whatever is raised ends the informer."""

IndexFunc: TypeAlias = Callable[[ApiObject], Iterable[str]]
"""The values under which an object is to be found. It must not raise: an object that has no such value has none."""


def by_namespace(thing: ApiObject) -> Iterable[str]:
    return (thing.namespace,)


def by_name(thing: ApiObject) -> Iterable[str]:
    return (thing.name,)


def by_label(label: str) -> IndexFunc:
    """An index over the values of one label."""

    def values(thing: ApiObject) -> Iterable[str]:
        value = thing.labels().get(label)
        return () if value is None else (value,)

    return values


class IndexerConflict(Exception):
    """There is an index of that name already."""


class UnknownIndex(KeyError):
    """No index has that name; the message lists those there are."""


class Indexer:
    """Keys → what is known, with any number of indices. Empty index buckets are dropped.

    Alone, it keeps every body, packed. With ``stored``, bodies rest elsewhere: it holds on to a body that was ``put``
    until ``rest`` says which record has it, and reads it from there.
    """

    def __init__(self, indexers: Mapping[str, IndexFunc] | None = None, *, stored: Stored | None = None) -> None:
        self._stored = stored
        self._known: MutableMapping[str, ObjectVersion] = {} if stored is None else VersionTable()
        self._functions: dict[str, IndexFunc] = {}
        self._buckets: dict[str, defaultdict[str, set[str]]] = {}
        self._values: dict[str, dict[str, tuple[str, ...]]] = {}
        self.add_indexers(indexers or {})

    # ── Readers ──────────────────────────────────────────────────────────────

    def __len__(self) -> int:
        return len(self._known)

    def keys(self) -> KeysView[str]:
        return self._known.keys()

    def items(self) -> list[tuple[str, ObjectVersion]]:
        """What is known at this moment; no body is read."""
        return list(self._known.items())

    def known(self, key: str) -> ObjectVersion | None:
        return self._known.get(key)

    def newest(self, most: int) -> list[tuple[str, ObjectVersion]]:
        """The objects with the newest versions, newest first. Looks at every one."""
        if isinstance(self._known, VersionTable):
            keys = self._known.newest(most)
        else:
            keys = nlargest(most, self._known, lambda key: age_of(self._known[key].resource_version.encode()))
        return [(key, self._known[key]) for key in keys]

    def get(self, key: str) -> ApiObject | None:
        """The object with its body, unpacked or read anew at every call."""
        known = self._known.get(key)
        return None if known is None else self.with_body(key, known)

    def with_body(self, key: str, known: ObjectVersion) -> ApiObject:
        """A known object with its body. What ``known`` says must be of this moment where bodies rest elsewhere: of an
        older version there may be no record any more."""
        return ApiObject(key, known.uid, known.resource_version, self._body(known.state))

    def objects(self) -> Iterator[ApiObject]:
        """Every object, in no particular order, one body at a time. The store may change between two of them, where it
        keeps the bodies itself; each is as it was when this was called."""
        for key, known in self.items():
            yield self.with_body(key, known)

    def by_index(self, index: str, value: str) -> list[ApiObject]:
        """Objects with that value, ordered by key. Raises UnknownIndex."""
        return [self.with_body(key, self._known[key]) for key in self.index_keys(index, value)]

    def index_keys(self, index: str, value: str) -> list[str]:
        """Keys of the objects with that value, sorted. Raises UnknownIndex."""
        return sorted(self._bucket(index).get(value, ()))

    def index_values(self, index: str) -> list[str]:
        """Every value that some object has, sorted. Raises UnknownIndex."""
        return sorted(self._bucket(index))

    @property
    def indices(self) -> tuple[str, ...]:
        return tuple(self._functions)

    # ── The writer ───────────────────────────────────────────────────────────

    def put(self, thing: ApiObject) -> None:
        """Remember this version in place of any other."""
        body = pack(thing.body) if self._stored is None else thing.body
        self._known[thing.key] = ObjectVersion(thing.uid, thing.resource_version, body)
        for index, function in self._functions.items():
            self._index(index, thing.key, tuple(function(thing)))

    def rest(self, key: str, sequence: int) -> None:
        """The record with this sequence number has the body of what is known; there is no need to hold on to it. No
        error where the object is not known any more; nothing to do for a store that keeps the bodies itself."""
        if isinstance(self._known, VersionTable):
            self._known.rest(key, sequence)

    def load(self, objects: VersionTable) -> None:
        """Begin with what was known before this start, in the form in which this store keeps it; where bodies rest
        elsewhere, the table is the store from now on. A body is read only where an index wants it. Raises RuntimeError
        where something is known already."""
        if self._known:
            raise RuntimeError(f"load() comes before anything else: {len(self._known)} objects are known already")
        if self._stored is None:
            self._known.update(objects)
        else:
            self._known = objects
        for index in self._functions:
            self._fill(index)

    def remove(self, key: str) -> None:
        if self._known.pop(key, None) is not None:
            for index in self._functions:
                self._index(index, key, ())

    def add_indexers(self, indexers: Mapping[str, IndexFunc]) -> None:
        """Add indices, also to a store that is full and in use. Raises IndexerConflict, and then adds none."""
        if twice := sorted(self._functions.keys() & indexers.keys()):
            raise IndexerConflict(f"there is an index already of the name: {', '.join(twice)}")
        for index, function in indexers.items():
            self._functions[index] = function
            self._buckets[index] = defaultdict(set)
            self._values[index] = {}
            self._fill(index)

    # ── Inside ───────────────────────────────────────────────────────────────

    def _body(self, state: bytes | int) -> bytes:
        if self._stored is None:
            return unpack(cast(bytes, state))
        return self._stored(state) if isinstance(state, int) else state

    def _fill(self, index: str) -> None:
        function = self._functions[index]
        for thing in self.objects():
            self._index(index, thing.key, tuple(function(thing)))

    def _bucket(self, index: str) -> Mapping[str, set[str]]:
        try:
            return self._buckets[index]
        except KeyError:
            there_are = ", ".join(self._functions) or "none"
            raise UnknownIndex(f"no index named {index!r}; there are: {there_are}") from None

    def _index(self, index: str, key: str, values: tuple[str, ...]) -> None:
        held = self._values[index]
        before = held.get(key, ())
        if values == before:
            return
        buckets = self._buckets[index]
        for value in before:
            buckets[value].discard(key)
            if not buckets[value]:
                del buckets[value]
        for value in values:
            buckets[value].add(key)
        if values:
            held[key] = values
        else:
            held.pop(key, None)
