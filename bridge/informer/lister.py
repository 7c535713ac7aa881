"""Reading an informer's store: by key, by namespace, by labels, by index. Never asks the API server."""

from __future__ import annotations

from collections.abc import Sequence

from bridge.informer.indexer import Indexer
from bridge.model.object import ApiObject, object_key
from bridge.model.selector import LabelSelector

NAMESPACE = "namespace"
"""The index that a Lister uses where the store has it."""


class Lister:
    """What an informer knows. Answers are only as complete as the informer is synced."""

    def __init__(self, indexer: Indexer) -> None:
        self._indexer = indexer

    def __len__(self) -> int:
        return len(self._indexer)

    def get(self, name: str, namespace: str = "") -> ApiObject | None:
        return self._indexer.get(object_key(namespace, name))

    def list(self, namespace: str | None = None, label_selector: str = "") -> list[ApiObject]:
        """Objects of one namespace (all, where it is None) that the selector matches, in no particular order. Raises
        ValueError for a selector that cannot be read."""
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
        """Objects under one value of an index, ordered by key. Raises UnknownIndex."""
        return self._indexer.by_index(index, value)
