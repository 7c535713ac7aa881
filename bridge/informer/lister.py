"""Reads an informer's store by key, namespace, labels or index. Sends no requests."""

from __future__ import annotations

from collections.abc import Sequence

from bridge.informer.indexer import Indexer
from bridge.model.object import ApiObject, object_key
from bridge.model.selector import LabelSelector

NAMESPACE = "namespace"
"""The index that a Lister uses for namespaces, if the store has it."""


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
