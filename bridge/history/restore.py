"""Makes a manifest that can be applied out of a state of an object.

What the API server or a controller owns is left out: the server refuses some of it, and the rest would tie the object
to what is gone. So are owners and finalizers, and a note names them: the garbage collector deletes an object whose
owner's uid is gone, and nobody may be there to remove a finalizer.

A state is what the stream had. What was redacted cannot be restored, and an object with a digest in place of a password
is worse than none; so such a state is refused, with the paths. A value that the redaction mode ``remove`` took out of a
map left no trace, and is missing without a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from bridge.model.object import LAST_APPLIED, is_bare, is_redacted
from bridge.model.primitives.field_path import FieldPath, written_step
from bridge.transform.digest import IgnoredPaths
from bridge.transform.redaction import is_digest

Manifest: TypeAlias = dict[str, Any]

_OWNED: Final = {
    "": f"""
        metadata.uid metadata.resourceVersion metadata.generation metadata.creationTimestamp metadata.deletionTimestamp
        metadata.deletionGracePeriodSeconds metadata.managedFields metadata.selfLink metadata.ownerReferences
        metadata.finalizers status
        metadata.annotations['{LAST_APPLIED}']
        metadata.annotations['deployment.kubernetes.io/revision']
        metadata.annotations['deprecated.daemonset.template.generation']
        metadata.annotations['endpoints.kubernetes.io/last-change-trigger-time']
        metadata.annotations['pv.kubernetes.io/bind-completed']
        metadata.annotations['pv.kubernetes.io/bound-by-controller']
        metadata.annotations['volume.beta.kubernetes.io/storage-provisioner']
        metadata.annotations['volume.kubernetes.io/selected-node']
        metadata.annotations['volume.kubernetes.io/storage-provisioner']
    """,
    "CertificateSigningRequest.certificates.k8s.io": "spec.extra spec.groups spec.uid spec.username",
    "Job.batch": """
        metadata.labels['controller-uid'] metadata.labels['batch.kubernetes.io/controller-uid']
        metadata.labels['job-name'] metadata.labels['batch.kubernetes.io/job-name']
        spec.template.metadata.labels['controller-uid']
        spec.template.metadata.labels['batch.kubernetes.io/controller-uid']
        spec.template.metadata.labels['job-name'] spec.template.metadata.labels['batch.kubernetes.io/job-name']
    """,
    "Namespace": "metadata.labels['kubernetes.io/metadata.name'] spec.finalizers",
    "Node": "spec.podCIDR spec.podCIDRs",
    "PersistentVolume": "spec.claimRef.resourceVersion spec.claimRef.uid",
    "PersistentVolumeClaim": "spec.volumeName",
    # Priority and preemption are of the class, and refused where the class has other ones.
    "Pod": "spec.ephemeralContainers spec.nodeName spec.preemptionPolicy spec.priority",
    "Service": "spec.healthCheckNodePort spec.ports[*].nodePort",
    "ServiceAccount": "secrets",
}
"""Paths by kind and group; those of "" are in every object."""
_PATHS = {
    kind: IgnoredPaths(FieldPath.parsed(path) for path in f"{_OWNED['']} {paths}".split())
    for kind, paths in _OWNED.items()
}

_INJECTED = re.compile("kube-api-access-[a-z0-9]{5}")


class CannotBeRestored(Exception):
    """The state is no whole object. ``paths``: what of it is missing, each with what stands there."""

    def __init__(self, reason: str, paths: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.paths = paths


@dataclass(frozen=True, slots=True)
class RedactedValue:
    """Stands in a manifest where a value was redacted."""

    text: str


@dataclass(frozen=True, slots=True)
class Restored:
    manifest: Manifest
    notes: tuple[str, ...]
    """What was left out, and a reader may miss."""


def restored(state: bytes, *, placeholders: bool = False) -> Restored:
    """``placeholders``: redacted values are RedactedValues in the manifest, and no refusal. Raises CannotBeRestored."""
    if not state:
        raise CannotBeRestored("the stream has no states")
    if is_bare(state):
        raise CannotBeRestored("the stream has only the object's name: it was too large, too deep, or not readable")
    try:
        manifest = msgspec.json.decode(state, type=Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CannotBeRestored(f"the state is no readable object: {error}") from error
    api_version, kind = str(manifest.get("apiVersion")), str(manifest.get("kind"))
    group, slash, _ = api_version.partition("/")
    if (api_version, kind) == ("v1", "Secret"):
        raise CannotBeRestored("a Secret leaves the bridge without its values, and cannot be restored")
    notes = tuple(_notes(manifest))
    manifest = _stripped(state, f"{kind}.{group}" if slash else kind)
    redacted = list(_redacted(manifest))
    if redacted and not placeholders:
        raise CannotBeRestored("values of it were redacted before they left the bridge", tuple(_paths(redacted)))
    for each in redacted:
        each.holder[each.key] = RedactedValue(_in_words(each))
    return Restored(manifest, notes)


def _notes(manifest: Manifest) -> Iterator[str]:
    metadata = _map(manifest.get("metadata"))
    if metadata.get("deletionTimestamp"):
        yield f"the object was being deleted since {metadata['deletionTimestamp']}"
    for each in filter(None, map(_map, _list(metadata.get("ownerReferences")))):
        yield f"left out: its owner {each.get('kind')} {each.get('name')}"
    if finalizers := _list(metadata.get("finalizers")):
        yield f"left out: its finalizers {', '.join(map(str, finalizers))}"


def _stripped(state: bytes, kind: str) -> Manifest:
    manifest: Manifest = msgspec.json.decode(_PATHS.get(kind, _PATHS[""]).remaining(state))
    spec = _map(manifest.get("spec"))
    if kind == "Service" and spec.get("clusterIP") != "None":  # A headless one asks for no address.
        for name in ("clusterIP", "clusterIPs"):
            spec.pop(name, None)
    if kind == "Job.batch" and not spec.get("manualSelector"):
        spec.pop("selector", None)
    if kind == "Pod":
        _strip_token(spec)
    return manifest


def _strip_token(spec: Manifest) -> None:
    """Removes the volume that admission injects for the token of the service account, and its mounts."""
    containers = [*_list(spec.get("initContainers")), *_list(spec.get("containers"))]
    for holder, list_ in [(spec, "volumes"), *((_map(each), "volumeMounts") for each in containers)]:
        if list_ in holder:
            kept = [each for each in _list(holder[list_]) if not _INJECTED.fullmatch(str(_map(each).get("name")))]
            holder[list_] = kept
            if not kept:
                del holder[list_]


# ── Redacted values ──────────────────────────────────────────────────────────

_MOST_PATHS = 50


class _Place(NamedTuple):
    """A member of a map, or an item of a list."""

    holder: Any
    key: Any
    outer: _Place | None


def _redacted(manifest: Manifest) -> Iterator[_Place]:
    """The places of the values that redaction left. Without recursion or paths: their depth and length are a stranger's
    choice."""
    waiting: list[tuple[Any, _Place | None]] = [(manifest, None)]
    while waiting:
        holder, outer = waiting.pop()
        for key, value in holder.items() if isinstance(holder, dict) else enumerate(holder):
            place = _Place(holder, key, outer)
            if isinstance(value, dict | list):
                waiting.append((value, place))
            elif isinstance(value, str):
                if is_redacted(value) or is_digest(value):
                    yield place
            elif value is None and isinstance(holder, list):  # An item that was removed.
                yield place


def _paths(places: Sequence[_Place]) -> Iterator[str]:
    """Each path with what stands there."""
    for place in places[:_MOST_PATHS]:
        steps: list[str] = []
        at: _Place | None = place
        while at is not None:
            name = f"[{at.key}]" if isinstance(at.key, int) else written_step(at.key) or f"[{at.key!r}]"
            steps.append(name)
            at = at.outer
        yield f"{''.join(reversed(steps)).removeprefix('.')}: {_in_words(place)}"
    if len(places) > _MOST_PATHS:
        yield f"and {len(places) - _MOST_PATHS} more"


def _in_words(place: _Place) -> str:
    value = place.holder[place.key]
    return "removed" if value is None else str(value)


def _map(value: Any) -> Manifest:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
