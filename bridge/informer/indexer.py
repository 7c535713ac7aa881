"""The store of an informer: what is known of every object, and where to find it (client-go's thread_safe_store.go).

One writer (the Controller), many readers, one event loop. Objects are never held as dicts: of each there is a key, a
uid, a version and the packed body; of each index its values.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, KeysView, Mapping
from typing import TypeAlias, cast

from bridge.model.change import Known
from bridge.model.object import ApiObject
from bridge.model.packing import pack, unpack

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
    """Keys → what is known, with any number of indices. Empty index buckets are dropped."""

    def __init__(self, indexers: Mapping[str, IndexFunc] | None = None) -> None:
        self._known: dict[str, Known] = {}
        self._functions: dict[str, IndexFunc] = {}
        self._buckets: dict[str, defaultdict[str, set[str]]] = {}
        self._values: dict[str, dict[str, tuple[str, ...]]] = {}
        self.add_indexers(indexers or {})

    # ── Readers ──────────────────────────────────────────────────────────────

    def __len__(self) -> int:
        return len(self._known)

    def keys(self) -> KeysView[str]:
        return self._known.keys()

    def items(self) -> list[tuple[str, Known]]:
        """What is known at this moment, bodies packed and by reference."""
        return list(self._known.items())

    def known(self, key: str) -> Known | None:
        return self._known.get(key)

    def get(self, key: str) -> ApiObject | None:
        """The object with its body, unpacked anew at every call."""
        known = self._known.get(key)
        return None if known is None else unpacked(key, known)

    def objects(self) -> Iterator[ApiObject]:
        """Every object, in no particular order, one body at a time. The store may change between two of them; each is
        as it was when this was called."""
        for key, known in self.items():
            yield unpacked(key, known)

    def by_index(self, index: str, value: str) -> list[ApiObject]:
        """Objects with that value, ordered by key. Raises UnknownIndex."""
        return [unpacked(key, self._known[key]) for key in self.index_keys(index, value)]

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
        self._known[thing.key] = Known(thing.uid, thing.resource_version, pack(thing.body))
        for index, function in self._functions.items():
            self._index(index, thing.key, tuple(function(thing)))

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
            for thing in self.objects():
                self._index(index, thing.key, tuple(function(thing)))

    # ── Inside ───────────────────────────────────────────────────────────────

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


def unpacked(key: str, known: Known) -> ApiObject:
    """A known object with its body."""
    return ApiObject(key, known.uid, known.resource_version, unpack(cast(bytes, known.state)))
