"""Makes the names of an object in events: ``subject``, a path of the API, and ``partitionkey``. This is the hot path,
because every record needs them, so their common parts are kept for each resource.

In every name (partition keys, topics, subjects, keys of buckets) the core group is ``core``, and the namespace of an
object without one is ``_``: no part is empty. No namespace and no group that the API server serves has such a name. In
fields of their own, as in rows and in the source of envelopes, both are as the API has them: empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from bridge.model.resource import Resource

CORE = "core"
ABSENT = "_"


class ObjectName(NamedTuple):
    """The parts of a partition key. Group and namespace may be empty."""

    cluster: str
    group: str
    plural: str
    namespace: str
    name: str

    @classmethod
    def of(cls, key: str) -> ObjectName:
        """What ``partition_key`` was made of. Raises ValueError for a key of another form."""
        cluster, group, plural, namespace, name = key.split("/")
        return cls(cluster, "" if group == CORE else group, plural, "" if namespace == ABSENT else namespace, name)

    @property
    def resource(self) -> str:
        """kubectl's name."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def key(self) -> str:
        """``namespace/name`` or ``name``."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def partition_key(cluster: str, group: str, plural: str, namespace: str, name: str) -> str:
    """The attribute ``partitionkey`` of an object's CloudEvents. Group and namespace may be empty."""
    return f"{cluster}/{group or CORE}/{plural}/{namespace or ABSENT}/{name}"


def object_name(key: str) -> ObjectName | None:
    """None for a key of another form."""
    try:
        return ObjectName.of(key)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class ObjectPaths:
    """The parts of subject and partition key that all objects of a resource share. An object's key, and not the
    resource, decides whether the object has a namespace: a definition may be replaced by a definition with another
    scope while records of the old objects are still to be exported."""

    subject: str
    """Before the name of an object without namespace."""
    namespaces: str
    """Before the namespace."""
    collection: str
    """Between namespace and name."""
    partition: str
    """Before the key; for an object without namespace, with ``_/`` between."""

    @classmethod
    def of_resource(cls, cluster: str, resource: Resource) -> ObjectPaths:
        namespaces, _, collection = resource.path("*").rpartition("*")
        return cls(
            subject=f"{resource.path()}/",
            namespaces=namespaces,
            collection=f"{collection}/",
            partition=f"{cluster}/{resource.group or CORE}/{resource.plural}/",
        )

    def of(self, key: str) -> tuple[str, str]:
        """Subject and partition key of the object with this key."""
        namespace, slash, name = key.partition("/")
        if slash:
            return f"{self.namespaces}{namespace}{self.collection}{name}", self.partition + key
        return self.subject + key, f"{self.partition}{ABSENT}/{key}"
