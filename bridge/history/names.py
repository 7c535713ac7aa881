"""What an operator means by kubectl's names, among the resources of a file: ``po``, ``pod``, ``deployments.apps``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bridge.history.points import NotInHistory
from bridge.model.formats.object_paths import partition_key
from bridge.model.resource import SHORT_NAMES, ResourceName


class KeptResource(NamedTuple):
    """A row of ``resources``."""

    id: int
    cluster: str
    group: str
    plural: str
    api_version: str
    """Of the first object."""
    kind: str

    @property
    def name(self) -> str:
        """kubectl's name."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def key(self, namespace: str, name: str) -> str:
        """Of an object."""
        return partition_key(self.cluster, self.group, self.plural, namespace, name)


def meant(word: str, kept: Sequence[KeptResource]) -> Sequence[KeptResource]:
    """The resource that the word means, in each cluster of the file: by its plural, kind or short name, with the group
    behind it or without. Where several groups have it, the core group wins, then groups of Kubernetes by name. Raises
    NotInHistory with the names that the file has."""
    found = [each for each in kept if may_mean(word, each.name, each.kind)]
    if not found:
        there = ", ".join(sorted({each.name for each in kept})) or "none yet"
        raise NotInHistory(f"the file has no resource {word}; it has: {there}")
    first = min(found, key=lambda each: ("." in each.group and not each.group.endswith(".k8s.io"), each.group))
    return [each for each in found if each.name == first.name]


def may_mean(word: str, resource: str, kind: str | None = None) -> bool:
    """Whether an operator may mean this resource (kubectl's name). ``kind``: None where it is not known."""
    asked = ResourceName.parsed(word)
    plural, _, group = resource.partition(".")
    words = plural, plural if kind is None else kind.lower(), *SHORT_NAMES.get(resource, ())
    return asked.may_be_in(group) and asked.word in words
