"""Stores the known version of every object of an informer, with indices (client-go's thread_safe_store.go), and reads
it by key, namespace, labels or index (``Lister``).

One writer (the Controller), many readers, one event loop. Objects are never held as dicts: the store has key, uid,
version and body (or the number of the record with the body) of each object, and its values in each index.

The bridge's own Indexer keeps no bodies: uid, version and the number of a record are a few hundred bytes for each
object. Packed bodies cost five times as much, and only the comparison read them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, KeysView, Mapping, MutableMapping, Sequence
from heapq import nlargest
from typing import Protocol, TypeAlias, cast

import msgspec

from bridge.model.change import ObjectVersion
from bridge.model.object import ApiObject, object_key
from bridge.model.primitives.packing import pack, unpack
from bridge.model.selector import LabelSelector
from bridge.model.versions import VersionTable, age_of

NAMESPACE = "namespace"
"""The index that a Lister uses for namespaces, if the store has it."""

Stored: TypeAlias = Callable[[int], bytes]
"""Reads the body of the record with this sequence number, without waiting. Every record with an offloaded body exists;
a missing record is a bug, and its error ends the informer."""


class Offload(Protocol):
    """Offloads a body: the record with this sequence number has the body of the known version, and these sinks
    (``Selected.members``) contain the object."""

    def __call__(self, key: str, sequence: int, members: int = 0) -> None: ...


IndexFunc: TypeAlias = Callable[[ApiObject], Iterable[str]]
"""The values of an object in an index; none for an object without such a value. It must not raise."""


def by_namespace(thing: ApiObject) -> Iterable[str]:
    return (thing.namespace,)


def by_name(thing: ApiObject) -> Iterable[str]:
    return (thing.name,)


def by_label(label: str) -> IndexFunc:
    """An index over the values of a label."""

    def values(thing: ApiObject) -> Iterable[str]:
        value = thing.labels().get(label)
        return () if value is None else (value,)

    return values


class UnknownIndex(KeyError):
    """No index has that name; the message lists the existing indices."""


class Indexer:
    """Key → known version, with any number of indices. Empty index buckets are dropped.

    Without ``stored``, the Indexer keeps every body, packed. With ``stored``, bodies are offloaded: the Indexer keeps a
    body from ``put`` until ``offload`` names the record that has the body, and reads it from there.
    """

    def __init__(self, indexers: Mapping[str, IndexFunc] | None = None, *, stored: Stored | None = None) -> None:
        self._stored = stored
        self._become({} if stored is None else VersionTable())
        self._functions = dict(indexers or {})
        self._buckets: dict[str, defaultdict[str, set[str]]] = {index: defaultdict(set) for index in self._functions}
        self._values: dict[str, dict[str, tuple[str, ...]]] = {index: {} for index in self._functions}

    # ── Readers ──────────────────────────────────────────────────────────────

    def __len__(self) -> int:
        return len(self._known)

    def keys(self) -> KeysView[str]:
        return self._known.keys()

    def items(self) -> list[tuple[str, ObjectVersion]]:
        """The versions known at this moment, without reading bodies."""
        return list(self._known.items())

    def newest(self, most: int, among: Iterable[str] | None = None) -> list[tuple[str, ObjectVersion]]:
        """The ``most`` objects with the newest versions, newest first, of all objects or ``among`` these keys. Linear
        in the number of objects."""
        if among is not None:
            keys = nlargest(most, (key for key in among if key in self._known), self._age)
        elif isinstance(self._known, VersionTable):
            keys = self._known.newest(most)
        else:
            keys = nlargest(most, self._known, self._age)
        return [(key, self._known[key]) for key in keys]

    def get(self, key: str) -> ApiObject | None:
        """The object with its body, unpacked or read anew at every call."""
        known = self._known.get(key)
        return None if known is None else self.with_body(key, known)

    def with_body(self, key: str, known: ObjectVersion) -> ApiObject:
        """A known object as it was exported, with its body. ``known`` must be current if bodies are offloaded: the
        record of an older version may be gone."""
        return ApiObject(key, known.uid, known.exported_version, self._body(known.state))

    def objects(self) -> Iterator[ApiObject]:
        """Yields every object in no particular order, and reads its body only then. Objects are as they were at the
        call. The store may change meanwhile, unless bodies are offloaded."""
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

    def put(self, thing: ApiObject, digest: bytes = b"") -> None:
        """Makes this the known version of the object. ``digest``: see ObjectVersion."""
        body = pack(thing.body) if self._stored is None else thing.body
        self._known[thing.key] = ObjectVersion(thing.uid, thing.resource_version, body, 0, digest)
        for index, function in self._functions.items():
            self._index(index, thing.key, tuple(function(thing)))

    def pass_over(self, key: str, version: str) -> None:
        """The known object has this version now, by a change that is ignored: the exported state stays."""
        known = self._known[key]
        exported = known.exported or known.resource_version
        self._known[key] = msgspec.structs.replace(known, resource_version=version, exported=exported)

    def load(self, objects: VersionTable) -> None:
        """Fills an empty store with the versions of a checkpoint. If bodies are offloaded, the table itself becomes the
        store. Only indices read bodies. Raises RuntimeError if the store has objects already."""
        if self._known:
            raise RuntimeError(f"load() needs an empty store, and this has {len(self._known)} objects")
        if self._stored is None:
            self._known.update(objects)
        else:
            self._become(objects)
        for thing in self.objects() if self._functions else ():
            for index, function in self._functions.items():
                self._index(index, thing.key, tuple(function(thing)))

    def remove(self, key: str) -> None:
        if self._known.pop(key, None) is not None:
            for index in self._functions:
                self._index(index, key, ())

    # ── Inside ───────────────────────────────────────────────────────────────

    def _become(self, known: MutableMapping[str, ObjectVersion]) -> None:
        """Makes this mapping the store. ``known`` and ``offload`` are its own methods, because they are hot."""
        self._known = known
        self.known: Callable[[str], ObjectVersion | None] = known.get
        """The known version under a key; None if there is none."""
        self.offload: Offload = known.offload if isinstance(known, VersionTable) else _keep
        """Has no effect on an unknown key, and in a store that keeps its bodies."""

    def _age(self, key: str) -> tuple[int, bytes]:
        return age_of(self._known[key].resource_version.encode())

    def _body(self, state: bytes | int) -> bytes:
        if self._stored is None:
            return unpack(cast("bytes", state))
        return self._stored(state) if isinstance(state, int) else state

    def _bucket(self, index: str) -> Mapping[str, set[str]]:
        try:
            return self._buckets[index]
        except KeyError:
            known = ", ".join(self._functions) or "none"
            raise UnknownIndex(f"no index is named {index!r}; the indices are: {known}") from None

    def _index(self, index: str, key: str, values: tuple[str, ...]) -> None:
        held = self._values[index]
        before = held.get(key, ())
        if values == before:  # True of nearly all updates: labels and namespaces rarely change.
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


def _keep(key: str, sequence: int, members: int = 0) -> None:
    """``offload`` of an Indexer that keeps its bodies."""


class Lister:
    """Reads the objects that an informer knows. The answers are complete once the informer has synced."""

    def __init__(self, indexer: Indexer) -> None:
        self._indexer = indexer

    def __len__(self) -> int:
        return len(self._indexer)

    def get(self, name: str, namespace: str = "") -> ApiObject | None:
        return self._indexer.get(object_key(namespace, name))

    def list(self, namespace: str | None = None, label_selector: str = "") -> list[ApiObject]:
        """Objects of a namespace (None: of all namespaces) that the selector matches, in no particular order. Raises
        ValueError for a malformed selector."""
        selector = LabelSelector.parse(label_selector)
        if namespace is None:
            found = list(self._indexer.objects())
        elif NAMESPACE in self._indexer.indices:
            found = self._indexer.by_index(NAMESPACE, namespace)
        else:
            found = [thing for thing in self._indexer.objects() if thing.namespace == namespace]
        if not label_selector:
            return found
        return [thing for thing in found if selector.matches(thing.labels())]

    def by_index(self, index: str, value: str) -> Sequence[ApiObject]:
        """Objects with a value in an index, ordered by key. Raises UnknownIndex."""
        return self._indexer.by_index(index, value)
