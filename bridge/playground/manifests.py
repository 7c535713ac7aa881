"""Realistic manifests to create objects with."""

from __future__ import annotations

from typing import Any

from bridge.playground.objects.objects import Manifest

_PADDING = "x" * 1000


def config_map(
    name: str, data: dict[str, str] | None = None, *, namespace: str = "default", labels: dict[str, str] | None = None
) -> Manifest:
    return {**_head("v1", "ConfigMap", name, namespace, labels), "data": {"key": "value"} if data is None else data}


def secret(
    name: str, data: dict[str, str] | None = None, *, namespace: str = "default", labels: dict[str, str] | None = None
) -> Manifest:
    """A Secret. The values of ``data`` are base64, as in the API."""
    filled = {"password": "aHVudGVyMg=="} if data is None else data
    return {**_head("v1", "Secret", name, namespace, labels), "type": "Opaque", "data": filled}


def pod(
    name: str,
    *,
    namespace: str = "default",
    labels: dict[str, str] | None = None,
    image: str = "registry.example/web:1.4.2",
    node: str = "",
    phase: str = "Pending",
    size: int = 0,
) -> Manifest:
    """A pod with a container, probes, mounts and, if it has a ``node``, conditions: about 3 KB of JSON with its
    managedFields. ``size`` is added to its environment, in bytes of JSON."""
    spec = {
        "containers": [_container(image, size)],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "serviceAccount": "default",
        **({"nodeName": node} if node else {}),
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "tolerations": [_toleration("not-ready"), _toleration("unreachable")],
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
        "volumes": [{"name": "config", "configMap": {"name": "web", "defaultMode": 420}}],
    }
    status = pod_status(phase) if node else {"phase": phase, "qosClass": "Burstable"}
    return {
        **_head("v1", "Pod", name, namespace, {"app": "web"} if labels is None else labels),
        "spec": spec,
        "status": status,
    }


def pod_status(phase: str, *, ready: bool | None = None, restarts: int = 0) -> Manifest:
    """The status of a pod. ``ready`` defaults to True in the phase Running, else to False."""
    is_ready = phase == "Running" if ready is None else ready
    word = "True" if is_ready else "False"
    conditions = [
        {"type": name, "status": "True" if name in ("Initialized", "PodScheduled") else word}
        for name in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    state = {"running": {}} if phase == "Running" else {"waiting": {"reason": "ContainerCreating"}}
    container = {"name": "app", "state": state, "ready": is_ready, "restartCount": restarts, "started": is_ready}
    return {"phase": phase, "conditions": conditions, "containerStatuses": [container], "qosClass": "Burstable"}


def deployment(
    name: str,
    *,
    namespace: str = "default",
    replicas: int = 1,
    image: str = "registry.example/web:1.4.2",
    labels: dict[str, str] | None = None,
) -> Manifest:
    chosen = {"app": name} if labels is None else labels
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name, **chosen}}, "spec": {"containers": [_container(image, 0)]}},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
    }
    return {**_head("apps/v1", "Deployment", name, namespace, chosen), "spec": spec}


def replica_set(deployment: Manifest, suffix: str) -> Manifest:
    """A ReplicaSet of a deployment that the server returned; ``suffix`` ends its name."""
    metadata, spec = deployment["metadata"], deployment["spec"]
    labels = {**spec["template"]["metadata"]["labels"], "pod-template-hash": suffix}
    head = _head("apps/v1", "ReplicaSet", f"{metadata['name']}-{suffix}", metadata["namespace"], labels)
    head["metadata"]["ownerReferences"] = [_owner(deployment)]
    template = {"metadata": {"labels": labels}, "spec": spec["template"]["spec"]}
    return {**head, "spec": {"replicas": spec["replicas"], "selector": {"matchLabels": labels}, "template": template}}


def pod_of(owner: Manifest, suffix: str) -> Manifest:
    """A pod of a ReplicaSet that the server returned."""
    metadata, template = owner["metadata"], owner["spec"]["template"]
    (container,) = template["spec"]["containers"]
    made = pod(
        f"{metadata['name']}-{suffix}",
        namespace=metadata["namespace"],
        labels=template["metadata"]["labels"],
        image=container["image"],
    )
    made["metadata"]["ownerReferences"] = [_owner(owner)]
    return made


def node(name: str) -> Manifest:
    capacity = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    status = {
        "capacity": capacity,
        "allocatable": capacity,
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        "nodeInfo": {"kubeletVersion": "v1.36.3", "operatingSystem": "linux", "architecture": "amd64"},
    }
    return {**_head("v1", "Node", name, "", {"kubernetes.io/hostname": name}), "spec": {}, "status": status}


def lease(name: str, *, namespace: str = "default", holder: str = "", seconds: int = 15) -> Manifest:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": seconds}
    return {**_head("coordination.k8s.io/v1", "Lease", name, namespace, None), "spec": spec}


def definition(
    plural: str = "widgets",
    group: str = "example.com",
    kind: str = "Widget",
    *,
    versions: tuple[str, ...] = ("v1",),
    namespaced: bool = True,
    short_names: tuple[str, ...] = (),
) -> Manifest:
    """A CustomResourceDefinition that accepts any field; the first version is the stored version."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names: dict[str, Any] = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    if short_names:
        names["shortNames"] = list(short_names)
    served = [
        {"name": each, "served": True, "storage": each == versions[0], "schema": schema, "subresources": {"status": {}}}
        for each in versions
    ]
    head = _head("apiextensions.k8s.io/v1", "CustomResourceDefinition", f"{plural}.{group}", "", None)
    scope = "Namespaced" if namespaced else "Cluster"
    return {**head, "spec": {"group": group, "scope": scope, "names": names, "versions": served}}


def custom(
    name: str,
    *,
    kind: str = "Widget",
    api_version: str = "example.com/v1",
    namespace: str = "default",
    labels: dict[str, str] | None = None,
    **fields: Any,
) -> Manifest:
    """A custom resource with ``fields`` beside its metadata."""
    return {**_head(api_version, kind, name, namespace, labels), **fields}


def _head(api_version: str, kind: str, name: str, namespace: str, labels: dict[str, str] | None) -> Manifest:
    metadata: Manifest = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    if labels:
        metadata["labels"] = dict(labels)
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def _owner(manifest: Manifest) -> Manifest:
    kind = {"apiVersion": manifest["apiVersion"], "kind": manifest["kind"]}
    identity = {"name": manifest["metadata"]["name"], "uid": manifest["metadata"]["uid"]}
    return {**kind, **identity, "controller": True, "blockOwnerDeletion": True}


def _container(image: str, size: int) -> Manifest:
    probe = {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10, "timeoutSeconds": 1}
    environment = [{"name": "LOG_LEVEL", "value": "info"}]
    for number, start in enumerate(range(0, size, len(_PADDING))):
        environment.append({"name": f"PADDING_{number}", "value": _PADDING[: size - start]})
    return {
        "name": "app",
        "image": image,
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "env": environment,
        "resources": {"limits": {"memory": "256Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
        "volumeMounts": [{"name": "config", "readOnly": True, "mountPath": "/etc/app"}],
        "livenessProbe": probe,
        "readinessProbe": probe,
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }


def _toleration(condition: str) -> Manifest:
    key = f"node.kubernetes.io/{condition}"
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
