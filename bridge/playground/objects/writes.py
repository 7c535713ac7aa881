"""Creates, updates, patches and deletes objects by the API server's rules, over HTTP or called in the process."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random

from bridge.model.object import object_key
from bridge.model.primitives.merge_patch import patched
from bridge.playground.http.errors import already_exists, bad_request, not_found
from bridge.playground.objects import crds
from bridge.playground.objects.catalogue import Kind, ServedKinds
from bridge.playground.objects.objects import Manifest, managed_by, pack, unpack
from bridge.playground.objects.semantics import WITH_GENERATION, essence, grace_of
from bridge.playground.objects.store import ObjectStore, StoredObject
from bridge.playground.objects.validation import Precondition, demand_name, demand_precondition, demand_unchanged

_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"
"""Letters of generated names: without vowels, so that no words appear by accident (apimachinery's ``util/rand``)."""

_KEPT = (
    "uid", "creationTimestamp", "generation", "namespace", "name", "deletionTimestamp", "deletionGracePeriodSeconds",
)  # fmt: skip
"""Metadata that a client cannot change."""


class Writes:
    """The only writer of an ObjectStore. Every method makes its change before it returns, and returns the changed
    object.

    Raises StatusError wherever the real server refuses.
    """

    def __init__(self, store: ObjectStore, catalogue: ServedKinds, random: Random, now: Callable[[], datetime]) -> None:
        self._store = store
        self._catalogue = catalogue
        self._random = random
        self._now = now

    def create(self, kind: Kind, version: str, namespace: str, manifest: Manifest, manager: str) -> StoredObject:
        metadata = {**(manifest.get("metadata") or {})}
        name = metadata["name"] = self._name(kind, metadata)
        if kind.namespaced:
            metadata["namespace"] = namespace
            self._demand_namespace(namespace)
        else:
            metadata.pop("namespace", None)
        if object_key(namespace if kind.namespaced else "", name) in self._store.collection(kind.collection).objects:
            raise already_exists(kind.group, kind.plural, name)
        metadata["uid"] = str(uuid.UUID(int=self._random.getrandbits(128), version=4))
        metadata["creationTimestamp"] = self._stamp()
        metadata.pop("deletionTimestamp", None)
        if kind.custom or kind.name in WITH_GENERATION:
            metadata["generation"] = 1
        made = self._defaulted(kind, {**manifest, "metadata": metadata})
        self._mark(kind, version, made, manager, status=False)
        stored = self._commit(kind, None, made)
        if kind.name == crds.NAME:
            self._serve(crds.kind_of(made))
        return stored

    def update(
        self,
        kind: Kind,
        version: str,
        namespace: str,
        name: str,
        manifest: Manifest,
        manager: str,
        *,
        status: bool | None = None,
    ) -> StoredObject:
        """``status`` True changes the status alone, False all other members, None both."""
        before = self.find(kind, namespace, name)
        old = unpack(kind, before)
        metadata = {**(manifest.get("metadata") or {})}
        demand_unchanged(kind, before, metadata)
        changed = {**manifest, "metadata": metadata}
        metadata |= {each: old["metadata"][each] for each in _KEPT if each in old["metadata"]}
        # The managedFields of the request are ignored: the server itself keeps them.
        metadata["managedFields"] = old["metadata"].get("managedFields", [])
        if status is True:
            changed = {**old, "metadata": old["metadata"], "status": manifest.get("status")}
        elif status is False:
            changed.pop("status", None)
            changed |= {"status": old["status"]} if "status" in old else {}
        return self._replace(kind, version, before, old, changed, manager, status=status is True)

    def patch(
        self,
        kind: Kind,
        version: str,
        namespace: str,
        name: str,
        patch: Manifest,
        manager: str,
        *,
        status: bool | None = None,
    ) -> StoredObject:
        """A JSON merge patch (RFC 7396)."""
        before = self.find(kind, namespace, name)
        merged = patched(unpack(kind, before), patch)
        if not isinstance(merged, dict):
            raise bad_request("the patch does not leave an object")
        if not (patch.get("metadata") or {}).get("resourceVersion"):
            merged["metadata"] = {**(merged.get("metadata") or {}), "resourceVersion": str(before.version)}
        return self.update(kind, version, namespace, name, merged, manager, status=status)

    def delete(
        self, kind: Kind, namespace: str, name: str, demand: Precondition | None = None, grace: int | None = 0
    ) -> tuple[StoredObject, bool]:
        """Returns the object's last state, and whether it is gone.

        Finalizers keep the object. A pod on a node stays for ``grace`` seconds (None: its spec's), until it is deleted
        again without grace."""
        before = self.find(kind, namespace, name)
        demand_precondition(kind, before, demand or Precondition())
        old = unpack(kind, before)
        metadata = old["metadata"]
        seconds = grace_of(kind, old, grace)
        if not (seconds or metadata.get("finalizers")):
            return self._remove(kind, before), True
        known = metadata.get("deletionGracePeriodSeconds")
        # A repeated delete can only make the grace period shorter.
        if "deletionTimestamp" in metadata and (known is None or known <= seconds):
            return before, False
        metadata["deletionTimestamp"] = self._stamp(seconds)
        metadata["deletionGracePeriodSeconds"] = seconds
        if "generation" in metadata:
            metadata["generation"] += 1
        return self._commit(kind, before, old), False

    def find(self, kind: Kind, namespace: str, name: str) -> StoredObject:
        key = object_key(namespace if kind.namespaced else "", name)
        found = self._store.collection(kind.collection).objects.get(key)
        if found is None:
            raise not_found(kind.group, kind.plural, name)
        return found

    def serve_stored_definitions(self) -> None:
        """After a restore: serves exactly the custom kinds whose definitions are in the store."""
        for kind in [kind for kind in self._catalogue if kind.custom]:
            self._catalogue.remove(kind.name)
        definition = self._catalogue.named(crds.NAME)
        for stored in self._store.collection(crds.NAME).objects.values():
            self._catalogue.add(crds.kind_of(unpack(definition, stored)))

    def _replace(
        self,
        kind: Kind,
        version: str,
        before: StoredObject,
        old: Manifest,
        new: Manifest,
        manager: str,
        *,
        status: bool,
    ) -> StoredObject:
        new = self._defaulted(kind, new)
        metadata = new["metadata"]
        if new.get("spec") != old.get("spec") and "generation" in metadata:
            metadata["generation"] += 1
        # As on the real server, a write without a change makes no new version and no watch event.
        if essence(new) == essence(old):
            return before
        self._mark(kind, version, new, manager, status=status)
        # The removal of the last finalizer ends a pending delete.
        if "deletionTimestamp" in metadata and not metadata.get("finalizers") and not grace_of(kind, new, None):
            self._remove(kind, before)
            return pack(kind, new, before.version)
        stored = self._commit(kind, before, new)
        if kind.name == crds.NAME:
            self._catalogue.add(crds.kind_of(new))
        return stored

    def _remove(self, kind: Kind, before: StoredObject) -> StoredObject:
        if kind.name == "namespaces":
            self._empty(before.name)
        if kind.name == crds.NAME:
            self._withdraw(crds.kind_of(unpack(kind, before)))
        self._store.commit(kind.collection, before.key, before, None)
        return before

    def _empty(self, namespace: str) -> None:
        """Deletes all objects of a namespace, at once; in a real cluster the namespace controller does that."""
        for kind in self._catalogue:
            if kind.namespaced and kind.watchable and not kind.stored_as:
                collection = self._store.collection(kind.collection)
                for stored in [each for each in collection.objects.values() if each.namespace == namespace]:
                    self._store.commit(kind.collection, stored.key, stored, None)

    def _serve(self, kind: Kind) -> None:
        self._catalogue.add(kind)
        self._store.begin(kind.collection)

    def _withdraw(self, kind: Kind) -> None:
        for stored in list(self._store.collection(kind.collection).objects.values()):
            self._store.commit(kind.collection, stored.key, stored, None)
        self._catalogue.remove(kind.name)
        self._store.end(kind.collection)

    def _commit(self, kind: Kind, before: StoredObject | None, manifest: Manifest) -> StoredObject:
        stored = pack(kind, manifest, self._store.version + 1)
        self._store.commit(kind.collection, stored.key, before, stored)
        return stored

    def _defaulted(self, kind: Kind, manifest: Manifest) -> Manifest:
        if kind.name == crds.NAME:
            return crds.established(manifest, self._stamp())
        if kind.name == "namespaces":
            metadata = manifest["metadata"]
            labels = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": metadata["name"]}
            standing = {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
            return {**standing, **manifest, "metadata": {**metadata, "labels": labels}}
        return manifest

    def _mark(self, kind: Kind, version: str, manifest: Manifest, manager: str, *, status: bool) -> None:
        metadata = manifest["metadata"]
        api_version = kind.api_version(version or kind.versions[0])
        entries = managed_by(
            metadata.get("managedFields") or [],
            manifest,
            manager,
            api_version,
            self._stamp(),
            status=status,
            custom=kind.custom,
        )
        metadata.pop("managedFields", None)
        if entries:
            metadata["managedFields"] = entries

    def _name(self, kind: Kind, metadata: Manifest) -> str:
        name = metadata.get("name") or ""
        if not name and (stem := metadata.get("generateName")):
            # apimachinery cuts here, so that a generated name has at most 63 characters, the length of a DNS label.
            name = stem[:58] + "".join(self._random.choices(_SUFFIX, k=5))
        demand_name(kind, name)
        return name

    def _demand_namespace(self, namespace: str) -> None:
        if namespace not in self._store.collection("namespaces").objects:
            raise not_found("", "namespaces", namespace)

    def _stamp(self, seconds: int = 0) -> str:
        return (self._now().astimezone(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
