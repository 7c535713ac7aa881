"""The names of an object in events: ``subject``, a path of the API, and ``partitionkey``. Hot."""

from __future__ import annotations

from dataclasses import dataclass

from bridge.model.resource import Resource


def partition_key(cluster: str, group: str, plural: str, namespace: str, name: str) -> str:
    """The attribute ``partitionkey`` of an object's CloudEvents. Group and namespace may be empty."""
    return f"{cluster}/{group}/{plural}/{namespace}/{name}"


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
    """Before the key; for an object without namespace, with a further ``/`` between."""

    @classmethod
    def of_resource(cls, cluster: str, resource: Resource) -> ObjectPaths:
        namespaces, _, collection = resource.path("*").rpartition("*")
        return cls(
            subject=f"{resource.path()}/",
            namespaces=namespaces,
            collection=f"{collection}/",
            partition=f"{cluster}/{resource.group}/{resource.plural}/",
        )

    def of(self, key: str) -> tuple[str, str]:
        """Subject and partition key of the object with this key."""
        namespace, slash, name = key.partition("/")
        if slash:
            return f"{self.namespaces}{namespace}{self.collection}{name}", self.partition + key
        return self.subject + key, f"{self.partition}/{key}"
