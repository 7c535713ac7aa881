"""The state of the server: the store, the kinds, and the only writer of them, by the API server's rules.

Objects are written over HTTP, or by calls in the process. What the real server refuses raises StatusError.
"""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from random import Random

from bridge.model.object import object_key
from bridge.model.primitives.merge_patch import patched
from bridge.playground.http.errors import (
    already_exists,
    bad_request,
    conflict,
    invalid,
    not_found,
    version_too_large,
)
from bridge.playground.objects import crds
from bridge.playground.objects.catalogue import Kind, ServedKinds
from bridge.playground.objects.objects import Manifest, managed_by, pack, unpack
from bridge.playground.objects.store import ObjectStore, StoredObject

_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"
"""Letters of generated names: without vowels, so that no words appear by accident (apimachinery's ``util/rand``)."""

_KEPT = (
    "uid", "creationTimestamp", "generation", "namespace", "name", "deletionTimestamp", "deletionGracePeriodSeconds",
)  # fmt: skip
"""Metadata that a client cannot change."""

_WITH_GENERATION = frozenset(
    {"pods", "replicationcontrollers", "deployments.apps", "replicasets.apps", "statefulsets.apps", "daemonsets.apps"}
    | {"jobs.batch", "cronjobs.batch", "ingresses.networking.k8s.io", "networkpolicies.networking.k8s.io"}
    | {"poddisruptionbudgets.policy", crds.NAME}
)
"""Built-in kinds whose changes of spec are counted in metadata.generation."""

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_ANY_NAME = frozenset({"roles", "clusterroles", "rolebindings", "clusterrolebindings"})

_DEMANDING = frozenset({"leases.coordination.k8s.io", crds.NAME})
"""Built-in kinds that cannot be updated without a resourceVersion."""


class State:
    """Every write makes its change before it returns, and returns the changed object."""

    def __init__(
        self,
        kinds: Iterable[Kind],
        *,
        now: Callable[[], datetime],
        history: int = 4096,
        version_wait: float = 0.5,
        seed: int | None = None,
    ) -> None:
        """``history``: changes that are kept of each resource. ``version_wait``: seconds that a request waits for a
        version from the future. ``seed``: of uids and generated names."""
        self.store = ObjectStore(history)
        self.catalogue = ServedKinds(kinds)
        self.now = now
        self._version_wait = version_wait
        self._random = Random(seed)

    async def reached(self, version: int) -> None:
        """Waits until the store has reached the version. Raises StatusError (504) after ``version_wait`` seconds."""
        if self.store.version >= version:
            return
        arrived = asyncio.Event()

        def look() -> None:
            if self.store.version >= version:
                arrived.set()

        self.store.listeners.add(look)
        try:
            async with asyncio.timeout(self._version_wait):
                await arrived.wait()
        except TimeoutError:
            raise version_too_large(version, self.store.version) from None
        finally:
            self.store.listeners.discard(look)

    def create(self, kind: Kind, version: str, namespace: str, manifest: Manifest, manager: str) -> StoredObject:
        metadata = {**(manifest.get("metadata") or {})}
        name = metadata["name"] = self._name(kind, metadata)
        if kind.namespaced:
            metadata["namespace"] = namespace
            self._demand_namespace(namespace)
        else:
            metadata.pop("namespace", None)
        if object_key(namespace if kind.namespaced else "", name) in self.store.collection(kind.collection).objects:
            raise already_exists(kind.group, kind.plural, name)
        metadata["uid"] = str(uuid.UUID(int=self._random.getrandbits(128), version=4))
        metadata["creationTimestamp"] = self._stamp()
        metadata.pop("deletionTimestamp", None)
        if kind.custom or kind.name in _WITH_GENERATION:
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
        _demand_unchanged(kind, before, metadata)
        changed = {**manifest, "metadata": metadata}
        metadata |= {each: old["metadata"][each] for each in _KEPT if each in old["metadata"]}
        # The managedFields of the request are ignored: the server itself keeps them.
        metadata["managedFields"] = old["metadata"].get("managedFields", [])
        if status is True:
            changed = {**old, "metadata": old["metadata"], "status": manifest.get("status")}
        elif status is False:
            changed.pop("status", None)
            changed |= {"status": old["status"]} if "status" in old else {}
        changed = self._defaulted(kind, changed)
        metadata = changed["metadata"]
        if changed.get("spec") != old.get("spec") and "generation" in metadata:
            metadata["generation"] += 1
        # As on the real server, a write without a change makes no new version and no watch event.
        if _essence(changed) == _essence(old):
            return before
        self._mark(kind, version, changed, manager, status=status is True)
        # The removal of the last finalizer ends a pending delete.
        if "deletionTimestamp" in metadata and not metadata.get("finalizers") and not _grace_of(kind, changed, None):
            self._remove(kind, before)
            return pack(kind, changed, before.version)
        stored = self._commit(kind, before, changed)
        if kind.name == crds.NAME:
            self.catalogue.add(crds.kind_of(changed))
        return stored

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
        self, kind: Kind, namespace: str, name: str, *, uid: str = "", resource_version: str = "", grace: int | None = 0
    ) -> tuple[StoredObject, bool]:
        """Returns the object's last state, and whether it is gone. ``uid`` and ``resource_version`` are preconditions,
        unless they are empty.

        Finalizers keep the object. A pod on a node stays for ``grace`` seconds (None: its spec's), until it is deleted
        again without grace."""
        before = self.find(kind, namespace, name)
        _demand_precondition(kind, before, uid, resource_version)
        old = unpack(kind, before)
        metadata = old["metadata"]
        seconds = _grace_of(kind, old, grace)
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
        found = self.store.collection(kind.collection).objects.get(key)
        if found is None:
            raise not_found(kind.group, kind.plural, name)
        return found

    def serve_stored_definitions(self) -> None:
        """After a restore: serves exactly the custom kinds whose definitions are in the store."""
        for kind in [kind for kind in self.catalogue if kind.custom]:
            self.catalogue.remove(kind.name)
        definition = self.catalogue.named(crds.NAME)
        for stored in self.store.collection(crds.NAME).objects.values():
            self.catalogue.add(crds.kind_of(unpack(definition, stored)))

    def _remove(self, kind: Kind, before: StoredObject) -> StoredObject:
        if kind.name == "namespaces":
            self._empty(before.name)
        if kind.name == crds.NAME:
            self._withdraw(crds.kind_of(unpack(kind, before)))
        self.store.commit(kind.collection, before.key, before, None)
        return before

    def _empty(self, namespace: str) -> None:
        """Deletes all objects of a namespace, at once; in a real cluster the namespace controller does that."""
        for kind in self.catalogue:
            if kind.namespaced and kind.watchable and not kind.stored_as:
                collection = self.store.collection(kind.collection)
                for stored in [each for each in collection.objects.values() if each.namespace == namespace]:
                    self.store.commit(kind.collection, stored.key, stored, None)

    def _serve(self, kind: Kind) -> None:
        self.catalogue.add(kind)
        self.store.begin(kind.collection)

    def _withdraw(self, kind: Kind) -> None:
        for stored in list(self.store.collection(kind.collection).objects.values()):
            self.store.commit(kind.collection, stored.key, stored, None)
        self.catalogue.remove(kind.name)
        self.store.end(kind.collection)

    def _commit(self, kind: Kind, before: StoredObject | None, manifest: Manifest) -> StoredObject:
        stored = pack(kind, manifest, self.store.version + 1)
        self.store.commit(kind.collection, stored.key, before, stored)
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
        _demand_name(kind, name)
        return name

    def _demand_namespace(self, namespace: str) -> None:
        if namespace not in self.store.collection("namespaces").objects:
            raise not_found("", "namespaces", namespace)

    def _stamp(self, seconds: int = 0) -> str:
        return (self.now().astimezone(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


# ── What counts as a change ──────────────────────────────────────────────────


def _essence(manifest: Manifest) -> Manifest:
    """The manifest without resourceVersion and managedFields: a write that leaves it equal is not a change."""
    metadata = {
        name: value for name, value in manifest["metadata"].items() if name not in ("resourceVersion", "managedFields")
    }
    return {**manifest, "metadata": metadata}


def _grace_of(kind: Kind, manifest: Manifest, grace: int | None) -> int:
    """Seconds that a pod stays after its delete: 0 before it has a node and after its end."""
    if kind.name != "pods" or not (manifest.get("spec") or {}).get("nodeName"):
        return 0
    if (manifest.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    if grace is not None:
        return grace
    known: int = manifest["metadata"].get(
        "deletionGracePeriodSeconds", manifest["spec"].get("terminationGracePeriodSeconds", 30)
    )
    return known


# ── What is refused ──────────────────────────────────────────────────────────


def _demand_name(kind: Kind, name: str) -> None:
    if not name:
        cause = ("FieldValueRequired", "Required value: name or generateName is required", "metadata.name")
        raise invalid(kind.group, kind.kind, "", [cause])
    if not (_SUBDOMAIN.fullmatch(name) and len(name) <= 253) and kind.plural not in _ANY_NAME:
        why = (
            f'Invalid value: "{name}": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric '
            "characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', "
            f"regex used for validation is '{_SUBDOMAIN.pattern}')"
        )
        raise invalid(kind.group, kind.kind, name, [("FieldValueInvalid", why, "metadata.name")])


def _demand_unchanged(kind: Kind, before: StoredObject, metadata: Manifest) -> None:
    wanted = metadata.get("resourceVersion") or ""
    if not wanted and (kind.custom or kind.name in _DEMANDING):
        why = "Invalid value: 0: must be specified for an update"
        # The real server names the resource here and not the kind.
        raise invalid(kind.group, kind.plural, before.name, [("FieldValueInvalid", why, "metadata.resourceVersion")])
    if wanted and wanted != str(before.version):
        raise conflict(kind.group, kind.plural, before.name)
    if metadata.get("uid") and metadata["uid"] != before.uid:
        why = f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: {before.uid}"
        raise conflict(kind.group, kind.plural, before.name, why)


def _demand_precondition(kind: Kind, before: StoredObject, uid: str, resource_version: str) -> None:
    if uid and uid != before.uid:
        why = (
            f"the UID in the precondition ({uid}) does not match the UID in record ({before.uid}). "
            "The object might have been deleted and then recreated"
        )
        raise conflict(kind.group, kind.kind, before.name, why)
    if resource_version and resource_version != str(before.version):
        why = (
            f"the ResourceVersion in the precondition ({resource_version}) does not match the "
            f"ResourceVersion in record ({before.version}). The object might have been modified"
        )
        raise conflict(kind.group, kind.kind, before.name, why)
