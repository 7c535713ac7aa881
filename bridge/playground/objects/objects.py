"""Packs manifests into stored bytes and back, with members in the real server's order.

A built-in kind has the order of its Go struct, a custom kind sorted members. ``managed_by`` writes
metadata.managedFields, which makes objects as large as real objects (KEP-555, FieldsV1). ``MEMBERS`` has the members
that Go writes even for an empty object (no ``omitempty``): bookmarks have them.
"""

from __future__ import annotations

from collections.abc import Mapping
from secrets import token_hex
from typing import Any, TypeAlias

from bridge.model.object import object_key
from bridge.playground.http.errors import decode, encode
from bridge.playground.objects.catalogue import Kind
from bridge.playground.objects.store import StoredObject

Manifest: TypeAlias = dict[str, Any]
METADATA = (
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
)
"""ObjectMeta's members in the order of its Go struct."""
_SORTED_MAPS = ("data", "binaryData", "stringData")
"""Members that are maps in Go, which writes them sorted by name."""
_API_VERSION, _RESOURCE_VERSION = f"~{token_hex(8)}~", f"~{token_hex(8)}~"  # No object has them.


def pack(kind: Kind, manifest: Manifest, version: int) -> StoredObject:
    """Packs a manifest, and leaves it unchanged. ``metadata`` has name, uid and, for a namespaced kind, namespace."""
    metadata = manifest["metadata"]
    ordered = {
        **(event_in_core(manifest) if kind.stored_as else manifest),
        "kind": kind.kind,
        "apiVersion": _API_VERSION,
    }
    kept = {name: value for name, value in metadata.items() if value not in ({}, [], None, "")}
    ordered["metadata"] = {**kept, "resourceVersion": _RESOURCE_VERSION}
    # Encoded once with two markers, and cut there: every API version and every DELETED event reuses these bytes.
    text = encode(ordered, sort=True) if kind.custom else encode(_in_go_order(ordered))
    opening, _, rest = text.partition(_API_VERSION.encode())
    middle, _, closing = rest.partition(_RESOURCE_VERSION.encode())
    return StoredObject(
        key=object_key(metadata.get("namespace", ""), metadata["name"]),
        uid=metadata["uid"],
        version=version,
        labels=dict(metadata.get("labels") or {}),
        opening=opening,
        middle=middle,
        closing=closing,
    )


def _in_go_order(manifest: Manifest) -> Manifest:
    ordered: Manifest = {"kind": manifest["kind"], "apiVersion": manifest["apiVersion"]}
    metadata = manifest["metadata"]
    ordered["metadata"] = {name: metadata[name] for name in METADATA if name in metadata}
    for name in ("labels", "annotations"):
        if name in metadata:
            ordered["metadata"][name] = _by_name(metadata[name])
    for name, value in manifest.items():
        if name not in ordered and not (name in _SORTED_MAPS and not value):
            ordered[name] = _by_name(value) if name in _SORTED_MAPS else value
    return ordered


def _by_name(members: Any) -> Any:
    return dict(sorted(members.items())) if isinstance(members, dict) else members


def unpack(kind: Kind, stored: StoredObject, version: str = "") -> Manifest:
    """The whole object, decoded at every call, so that the caller may change it."""
    manifest: Manifest = decode(body(kind, stored, version))
    return manifest


def body(kind: Kind, stored: StoredObject, version: str = "", at: int | None = None) -> bytes:
    """JSON in an API version (by default the preferred version); ``at`` replaces the object's resourceVersion."""
    text = stored.body(kind.api_version(version or kind.versions[0]).encode(), at)
    return encode(_event_in_group(decode(text))) if kind.stored_as else text


def list_item(kind: Kind, stored: StoredObject, version: str) -> bytes:
    """JSON of a list item: built-in kinds leave out kind and apiVersion in lists."""
    if kind.custom:
        return body(kind, stored, version)
    if kind.stored_as:
        item = unpack(kind, stored, version)
        return encode({name: value for name, value in item.items() if name not in ("kind", "apiVersion")})
    return b"{%b%d%b" % (stored.middle.removeprefix(b'",'), stored.version, stored.closing)


# ── The two forms of an event ────────────────────────────────────────────────

_IN_GROUP = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
"""Names in the core group, in whose form an event is stored → those in ``events.k8s.io``. An API server serves each
event in both groups: kubectl asks the one, k9s the other."""
_IN_CORE = {new: old for old, new in _IN_GROUP.items()}


def event_in_core(event: Mapping[str, Any]) -> dict[str, Any]:
    """In the form of the core group."""
    return {_IN_CORE.get(name, name): value for name, value in event.items()}


def _event_in_group(event: Mapping[str, Any]) -> dict[str, Any]:
    return {_IN_GROUP.get(name, name): value for name, value in event.items()}


# ── metadata.managedFields ───────────────────────────────────────────────────

_NOT_OWNED = frozenset(
    {"name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp"}
    | {"deletionGracePeriodSeconds", "managedFields", "selfLink"}
)
_OWNED_WHOLE = ("data", "binaryData")
_LIST_KEYS = ("name", "type", "containerPort", "mountPath", "ip", "uid")
"""Members that identify the entries of a list. The real server reads them from each kind's schema."""


def managed_by(
    entries: list[dict[str, Any]],
    manifest: dict[str, Any],
    manager: str,
    api_version: str,
    time: str,
    *,
    status: bool,
    custom: bool,
) -> list[dict[str, Any]]:
    """``entries`` after ``manager`` wrote the manifest: its own entry is replaced, the other entries stay.

    Coarser than the real server, which knows each kind's schema: a manager owns all fields that it wrote, changed or
    not, and the shape of a list's entries decides which member identifies them.
    """
    owned = {"status": manifest.get("status")} if status else {**manifest, "status": None}
    fields = _object_fields(owned, custom=custom)
    entry = {
        "manager": manager,
        "operation": "Update",
        "apiVersion": api_version,
        "time": time,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
        **({"subresource": "status"} if status else {}),
    }
    others = [
        each
        for each in entries
        if not (each.get("manager") == manager and (each.get("subresource") == "status") == status)
    ]
    return [*others, entry] if fields else others


def _object_fields(manifest: dict[str, Any], *, custom: bool) -> dict[str, Any]:
    """The owned fields. A custom resource has no schema here, so "." marks each of its objects as owned whole."""
    fields: dict[str, Any] = {}
    for name, value in sorted(manifest.items()):
        if name in ("kind", "apiVersion") or value is None:
            continue
        if name == "metadata":
            if owned := _metadata_fields(value):
                fields["f:metadata"] = owned
        elif isinstance(value, dict):
            whole = custom or name in _OWNED_WHOLE
            fields[f"f:{name}"] = _members(value, custom=custom, whole=whole)
        else:
            fields[f"f:{name}"] = {}
    return fields


def _metadata_fields(metadata: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in sorted(metadata.items()):
        if name in _NOT_OWNED or not value:
            continue
        if name == "finalizers":
            fields["f:finalizers"] = {".": {}} | {f'v:"{each}"': {} for each in value}
        elif name == "ownerReferences":
            fields["f:ownerReferences"] = {".": {}} | {f'k:{{"uid":"{each["uid"]}"}}': {} for each in value}
        elif isinstance(value, dict):
            fields[f"f:{name}"] = {".": {}} | {f"f:{each}": {} for each in sorted(value)}
        else:
            fields[f"f:{name}"] = {}
    return fields


def _members(value: dict[str, Any], *, custom: bool, whole: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {".": {}} if whole and value else {}
    for name, member in sorted(value.items()):
        if member is not None:
            fields[f"f:{name}"] = _fields(member, custom=custom)
    return fields


def _fields(value: Any, *, custom: bool) -> dict[str, Any]:
    if isinstance(value, dict):
        return _members(value, custom=custom, whole=custom)
    if custom or not (isinstance(value, list) and value and all(isinstance(each, dict) for each in value)):
        return {}
    key = next((key for key in _LIST_KEYS if all(key in each for each in value)), None)
    if key is None:
        return {}
    return {
        f'k:{{"{key}":{_literal(each[key])}}}': {".": {}} | _members(each, custom=False, whole=False) for each in value
    }


def _literal(value: Any) -> str:
    return str(value) if isinstance(value, int) else f'"{value}"'


# ── Members of empty objects ─────────────────────────────────────────────────

_ROWS = """
apiservices.apiregistration.k8s.io {"spec":{"groupPriorityMinimum":0,"versionPriority":0},"status":{}}
certificatesigningrequests.certificates.k8s.io {"spec":{"request":null,"signerName":""},"status":{}}
clusterrolebindings.rbac.authorization.k8s.io {"roleRef":{"apiGroup":"","kind":"","name":""}}
clusterroles.rbac.authorization.k8s.io {"rules":null}
controllerrevisions.apps {"data":null,"revision":0}
cronjobs.batch {"spec":{"schedule":"","jobTemplate":{"metadata":{},"spec":{"template":{"metadata":{},
    "spec":{"containers":null}}}}},"status":{}}
csidrivers.storage.k8s.io {"spec":{}}
csinodes.storage.k8s.io {"spec":{"drivers":null}}
csistoragecapacities.storage.k8s.io {"storageClassName":""}
customresourcedefinitions.apiextensions.k8s.io {"spec":{"group":"","names":{"plural":"","kind":""},"scope":"",
    "versions":null},"status":{"conditions":null,"acceptedNames":{"plural":"","kind":""},"storedVersions":null}}
daemonsets.apps {"spec":{"selector":null,"template":{"metadata":{},"spec":{"containers":null}},
    "updateStrategy":{}},"status":{"currentNumberScheduled":0,"numberMisscheduled":0,"desiredNumberScheduled":0,
    "numberReady":0}}
deployments.apps {"spec":{"replicas":0,"selector":null,"template":{"metadata":{},"spec":{"containers":null}},
    "strategy":{}},"status":{}}
deviceclasses.resource.k8s.io {"spec":{}}
endpointslices.discovery.k8s.io {"addressType":"","endpoints":null,"ports":null}
events {"involvedObject":{},"source":{},"firstTimestamp":null,"lastTimestamp":null,"eventTime":null,
    "reportingComponent":"","reportingInstance":""}
events.events.k8s.io {"eventTime":null,"regarding":{},"deprecatedSource":{},"deprecatedFirstTimestamp":null,
    "deprecatedLastTimestamp":null}
flowschemas.flowcontrol.apiserver.k8s.io {"spec":{"priorityLevelConfiguration":{"name":""},
    "matchingPrecedence":0},"status":{}}
horizontalpodautoscalers.autoscaling {"spec":{"scaleTargetRef":{"kind":"","name":""},"maxReplicas":0},
    "status":{"desiredReplicas":0,"currentMetrics":null}}
horizontalpodautoscalers.autoscaling/v1 {"spec":{"scaleTargetRef":{"kind":"","name":""},"maxReplicas":0},
    "status":{"currentReplicas":0,"desiredReplicas":0}}
ingressclasses.networking.k8s.io {"spec":{}}
ingresses.networking.k8s.io {"spec":{},"status":{"loadBalancer":{}}}
ipaddresses.networking.k8s.io {"spec":{}}
jobs.batch {"spec":{"template":{"metadata":{},"spec":{"containers":null}}},"status":{}}
leases.coordination.k8s.io {"spec":{}}
limitranges {"spec":{"limits":null}}
mutatingadmissionpolicies.admissionregistration.k8s.io {"spec":{}}
mutatingadmissionpolicybindings.admissionregistration.k8s.io {"spec":{}}
namespaces {"spec":{},"status":{}}
networkpolicies.networking.k8s.io {"spec":{"podSelector":{}}}
nodes {"spec":{},"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":0}},"nodeInfo":{"machineID":"",
    "systemUUID":"","bootID":"","kernelVersion":"","osImage":"","containerRuntimeVersion":"",
    "kubeletVersion":"","kubeProxyVersion":"","operatingSystem":"","architecture":""}}}
persistentvolumeclaims {"spec":{"resources":{}},"status":{}}
persistentvolumes {"spec":{},"status":{}}
poddisruptionbudgets.policy {"spec":{},"status":{"disruptionsAllowed":0,"currentHealthy":0,"desiredHealthy":0,
    "expectedPods":0}}
pods {"spec":{"containers":null},"status":{}}
podtemplates {"template":{"metadata":{},"spec":{"containers":null}}}
priorityclasses.scheduling.k8s.io {"value":0}
prioritylevelconfigurations.flowcontrol.apiserver.k8s.io {"spec":{"type":""},"status":{}}
replicasets.apps {"spec":{"replicas":0,"selector":null,"template":{"metadata":{},"spec":{"containers":null}}},
    "status":{"replicas":0}}
replicationcontrollers {"spec":{},"status":{"replicas":0}}
resourceclaims.resource.k8s.io {"spec":{"devices":{"requests":null}},"status":{}}
resourceclaimtemplates.resource.k8s.io {"spec":{"metadata":{},"spec":{"devices":{"requests":null}}}}
resourcequotas {"spec":{},"status":{}}
resourceslices.resource.k8s.io {"spec":{"driver":"","pool":{"name":"","generation":0,"resourceSliceCount":0}}}
rolebindings.rbac.authorization.k8s.io {"roleRef":{"apiGroup":"","kind":"","name":""}}
roles.rbac.authorization.k8s.io {"rules":null}
runtimeclasses.node.k8s.io {"handler":""}
servicecidrs.networking.k8s.io {"spec":{},"status":{}}
services {"spec":{},"status":{"loadBalancer":{}}}
statefulsets.apps {"spec":{"replicas":0,"selector":null,"template":{"metadata":{},"spec":{"containers":null}},
    "serviceName":"","updateStrategy":{}},"status":{"replicas":0,"availableReplicas":0}}
storageclasses.storage.k8s.io {"provisioner":""}
validatingadmissionpolicies.admissionregistration.k8s.io {"spec":{},"status":{}}
validatingadmissionpolicybindings.admissionregistration.k8s.io {"spec":{}}
volumeattachments.storage.k8s.io {"spec":{"attacher":"","source":{},"nodeName":""},"status":{"attached":false}}
volumeattributesclasses.storage.k8s.io {"driverName":""}
"""
MEMBERS: dict[str, bytes] = {
    name: text.encode()
    for name, _, text in (row.partition(" ") for row in _ROWS.replace("\n    ", "").strip().splitlines())
}
"""Name of the resource (or name/version, if versions differ) → JSON of an object."""
