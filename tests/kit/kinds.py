"""Objects of many kinds, each with what real ones have: as kube-apiserver takes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Manifest = dict[str, Any]

_BEGAN, _ENDED = "2026-01-05T10:00:00Z", "2026-01-05T10:07:30Z"
_TEMPLATE: Manifest = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {
        "containers": [{"name": "web", "image": "web:1"}, {"name": "log", "image": "log:2"}],
        "nodeSelector": {"disk": "ssd"},
    },
}
_SELECTOR: Manifest = {
    "matchLabels": {"app": "web"},
    "matchExpressions": [
        {"key": "app", "operator": "In", "values": ["web", "api"]},
        {"key": "tier", "operator": "DoesNotExist"},
    ],
}


@dataclass(frozen=True, slots=True)
class Example:
    """An object that can be created, and the status that a controller then writes."""

    api_version: str
    kind: str
    plural: str
    body: Manifest
    status: Manifest = field(default_factory=dict)
    namespaced: bool = True
    name: str = "example"
    metadata: Manifest = field(default_factory=dict)

    def path(self, namespace: str = "") -> str:
        """Of the collection, in a namespace or in all."""
        prefix = "/apis" if "/" in self.api_version else "/api"
        inside = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return f"{prefix}/{self.api_version}{inside}/{self.plural}"

    def manifest(self, name: str) -> Manifest:
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "metadata": {"name": name, **self.metadata},
            **self.body,
        }

    @property
    def resource(self) -> str:
        """kubectl's name."""
        group, slash, _ = self.api_version.partition("/")
        return f"{self.plural}.{group}" if slash else self.plural


def _container_status(name: str, state: Manifest, *, ready: bool = False, restarts: int = 0) -> Manifest:
    last = {"lastState": {"terminated": {"exitCode": 1, "finishedAt": _ENDED}}} if restarts else {}
    return {
        "name": name,
        "image": "i",
        "imageID": "",
        "ready": ready,
        "restartCount": restarts,
        "state": state,
        "started": ready,
        **last,
    }


def _pod(name: str, status: Manifest, **spec: Any) -> Example:
    containers = [{"name": "web", "image": "web:1"}, {"name": "log", "image": "log:2"}]
    return Example("v1", "Pod", "pods", {"spec": {"containers": containers, **spec}}, status, name=name)


_RUNNING, _WAITING = {"running": {"startedAt": _BEGAN}}, {"waiting": {"reason": "CrashLoopBackOff"}}
_DONE = {"terminated": {"exitCode": 0, "reason": "Completed"}}
_INIT = [{"name": "side", "image": "s:1", "restartPolicy": "Always"}, {"name": "first", "image": "f:1"}]

PODS = (
    _pod("pending", {"nominatedNodeName": "b"}),
    _pod(
        "running",
        {
            "phase": "Running",
            "podIP": "10.1.2.3",
            "podIPs": [{"ip": "10.1.2.3"}],
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "gate.example/x", "status": "True"}],
            "containerStatuses": [
                _container_status("web", _RUNNING, ready=True),
                _container_status("log", _RUNNING, ready=True, restarts=3),
            ],
        },
        nodeName="a",
        readinessGates=[{"conditionType": "gate.example/x"}, {"conditionType": "gate.example/y"}],
    ),
    _pod(
        "crashing",
        {
            "phase": "Running",
            "containerStatuses": [
                _container_status("web", _WAITING, restarts=7),
                _container_status("log", _RUNNING, ready=True),
            ],
        },
    ),
    _pod(
        "half-done",
        {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "False"}],
            "containerStatuses": [
                _container_status("web", _DONE),
                _container_status("log", _RUNNING, ready=True),
            ],
        },
    ),
    _pod(
        "killed",
        {
            "phase": "Failed",
            "containerStatuses": [
                _container_status("web", {"terminated": {"exitCode": 137, "signal": 9}}),
                _container_status("log", {"terminated": {"exitCode": 2}}),
            ],
        },
    ),
    _pod("evicted", {"phase": "Failed", "reason": "Evicted"}),
    _pod("succeeded", {"phase": "Succeeded", "containerStatuses": [_container_status("web", _DONE)]}),
    _pod(
        "init",
        {
            "phase": "Pending",
            "initContainerStatuses": [
                _container_status("side", _RUNNING, ready=True, restarts=2),
                _container_status("first", {"waiting": {"reason": "PodInitializing"}}),
            ],
        },
        initContainers=_INIT,
    ),
    _pod(
        "init-fails",
        {
            "phase": "Pending",
            "initContainerStatuses": [
                _container_status("side", _RUNNING, ready=True),
                _container_status("first", {"terminated": {"exitCode": 3}}, restarts=1),
            ],
        },
        initContainers=_INIT,
    ),
    _pod(
        "after-init",
        {
            "phase": "Running",
            "conditions": [{"type": "Initialized", "status": "True"}, {"type": "Ready", "status": "True"}],
            "initContainerStatuses": [
                _container_status("side", _RUNNING, ready=True, restarts=1),
                _container_status("first", _DONE),
            ],
            "containerStatuses": [
                _container_status("web", _RUNNING, ready=True),
                _container_status("log", _RUNNING, ready=True),
            ],
        },
        initContainers=_INIT,
    ),
    _pod("gated", {}, schedulingGates=[{"name": "example.com/wait"}]),
)


def _cluster(api_version: str, kind: str, plural: str, body: Manifest, status: Manifest | None = None) -> Example:
    return Example(api_version, kind, plural, body, status or {}, namespaced=False)


_RULES = {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}
_SUBJECTS = {
    "subjects": [
        {"kind": "User", "name": "ann", "apiGroup": "rbac.authorization.k8s.io"},
        {"kind": "Group", "name": "ops", "apiGroup": "rbac.authorization.k8s.io"},
        {"kind": "ServiceAccount", "name": "robot", "namespace": "default"},
    ]
}
_CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
_REQUESTS = {
    "type": "Pods",
    "pods": {"metric": {"name": "requests"}, "target": {"type": "AverageValue", "averageValue": "1k"}},
}
_QUEUE = {
    "type": "External",
    "external": {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "30"}},
}

EXAMPLES = (
    Example("v1", "ConfigMap", "configmaps", {"data": {"a": "1", "b": "2"}, "binaryData": {"c": "eA=="}}),
    Example(
        "v1",
        "Endpoints",
        "endpoints",
        {
            "subsets": [
                {
                    "addresses": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}, {"ip": "fd00::3"}],
                    "ports": [{"name": "http", "port": 80}, {"name": "https", "port": 443}],
                }
            ]
        },
    ),
    Example("v1", "LimitRange", "limitranges", {"spec": {"limits": [{"type": "Pod", "max": {"cpu": "2"}}]}}),
    _cluster("v1", "Namespace", "namespaces", {}),
    _cluster(
        "v1",
        "Node",
        "nodes",
        {"spec": {"unschedulable": True, "providerID": "cloud://1"}},
        {
            "conditions": [{"type": "Ready", "status": "False"}],
            "addresses": [
                {"type": "InternalIP", "address": "10.0.0.9"},
                {"type": "InternalIP", "address": "10.0.0.10"},
            ],
            "nodeInfo": {
                "kubeletVersion": "v1.36.3",
                "architecture": "arm64",
                "osImage": "Linux",
                "kernelVersion": "6.1",
                "bootID": "",
                "containerRuntimeVersion": "",
                "kubeProxyVersion": "",
                "machineID": "",
                "operatingSystem": "linux",
                "systemUUID": "",
            },
        },
    ),
    Example(
        "v1",
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        {
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "5Gi"}},
                "storageClassName": "fast",
                "volumeName": "pv-1",
            }
        },
        {"phase": "Bound", "accessModes": ["ReadWriteOnce", "ReadOnlyMany"], "capacity": {"storage": "8Gi"}},
        metadata={"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
    ),
    _cluster(
        "v1",
        "PersistentVolume",
        "persistentvolumes",
        {
            "spec": {
                "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
                "capacity": {"storage": "10Gi"},
                "hostPath": {"path": "/data"},
                "claimRef": {"namespace": "default", "name": "claim", "uid": "u-1", "resourceVersion": "7"},
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": "slow",
            }
        },
        {"phase": "Bound"},
    ),
    Example(
        "v1",
        "ReplicationController",
        "replicationcontrollers",
        {"spec": {"replicas": 3, "selector": {"app": "web"}, "template": _TEMPLATE}},
        {"replicas": 2, "readyReplicas": 1},
    ),
    Example(
        "v1",
        "ResourceQuota",
        "resourcequotas",
        {"spec": {"hard": {"pods": "10", "limits.cpu": "4", "requests.cpu": "2"}}},
        {
            "hard": {"pods": "10", "limits.cpu": "4", "requests.cpu": "2"},
            "used": {"pods": "3", "limits.cpu": "1", "requests.cpu": "500m"},
        },
    ),
    Example("v1", "Secret", "secrets", {"data": {"password": "eA=="}, "type": "Opaque"}),
    Example(
        "v1",
        "Service",
        "services",
        {
            "spec": {
                "type": "LoadBalancer",
                "externalTrafficPolicy": "Local",
                "selector": {"app": "web"},
                "ports": [{"name": "http", "port": 80}, {"name": "dns", "port": 53, "protocol": "UDP"}],
            }
        },
        {"loadBalancer": {"ingress": [{"hostname": "balancer.example.com"}]}},
    ),
    Example("v1", "ServiceAccount", "serviceaccounts", {"secrets": [{"name": "robot-token-x"}]}),
    Example(
        "apps/v1",
        "ControllerRevision",
        "controllerrevisions",
        {"data": {"spec": {}}, "revision": 4},
        metadata={
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "u-2", "controller": True}
            ]
        },
    ),
    Example(
        "apps/v1",
        "DaemonSet",
        "daemonsets",
        {"spec": {"selector": {"matchLabels": {"app": "web"}}, "template": _TEMPLATE}},
        {"desiredNumberScheduled": 5, "currentNumberScheduled": 4, "numberReady": 3, "numberMisscheduled": 0},
    ),
    Example(
        "apps/v1",
        "Deployment",
        "deployments",
        {"spec": {"replicas": 4, "selector": _SELECTOR, "template": _TEMPLATE}},
        {"replicas": 4, "readyReplicas": 3, "updatedReplicas": 4, "availableReplicas": 2},
    ),
    Example(
        "apps/v1",
        "ReplicaSet",
        "replicasets",
        {"spec": {"replicas": 2, "selector": _SELECTOR, "template": _TEMPLATE}},
        {"replicas": 2, "readyReplicas": 1},
    ),
    Example(
        "apps/v1",
        "StatefulSet",
        "statefulsets",
        {"spec": {"serviceName": "db", "replicas": 3, "selector": _SELECTOR, "template": _TEMPLATE}},
        {"replicas": 3, "readyReplicas": 2},
    ),
    Example(
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        {
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "maxReplicas": 9,
                "metrics": [_CPU, _REQUESTS, _QUEUE],
            }
        },
        {
            "currentReplicas": 3,
            "desiredReplicas": 4,
            "currentMetrics": [
                {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 41}}},
                {"type": "Pods", "pods": {"metric": {"name": "requests"}, "current": {"averageValue": "900m"}}},
            ],
        },
    ),
    Example(
        "batch/v1",
        "CronJob",
        "cronjobs",
        {
            "spec": {
                "schedule": "0 4 * * *",
                "timeZone": "Europe/Berlin",
                "jobTemplate": {
                    "spec": {"template": {"spec": {**_TEMPLATE["spec"], "restartPolicy": "Never"}}},
                },
            }
        },
    ),
    Example(
        "batch/v1",
        "Job",
        "jobs",
        {
            "spec": {
                "completions": 4,
                "parallelism": 2,
                "template": {"spec": {**_TEMPLATE["spec"], "restartPolicy": "Never"}},
            }
        },
        {"startTime": _BEGAN, "succeeded": 2},
    ),
    _cluster(
        "networking.k8s.io/v1",
        "IngressClass",
        "ingressclasses",
        {
            "spec": {
                "controller": "example.com/balancer",
                "parameters": {"apiGroup": "example.com", "kind": "Settings", "name": "main"},
            }
        },
    ),
    Example(
        "networking.k8s.io/v1",
        "Ingress",
        "ingresses",
        {
            "spec": {
                "ingressClassName": "main",
                "tls": [{"hosts": ["a.example.com"]}],
                "defaultBackend": {"service": {"name": "web", "port": {"number": 80}}},
                "rules": [{"host": f"{letter}.example.com"} for letter in "abcde"],
            }
        },
        {"loadBalancer": {"ingress": [{"ip": "10.0.0.2"}, {"ip": "10.0.0.1"}]}},
    ),
    Example("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", {"spec": {"podSelector": _SELECTOR}}),
    Example(
        "policy/v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        {"spec": {"minAvailable": "50%", "selector": _SELECTOR}},
        {"disruptionsAllowed": 2, "currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 4},
    ),
    _cluster(
        "rbac.authorization.k8s.io/v1",
        "ClusterRoleBinding",
        "clusterrolebindings",
        {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}, **_SUBJECTS},
    ),
    _cluster("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", _RULES),
    Example(
        "rbac.authorization.k8s.io/v1",
        "RoleBinding",
        "rolebindings",
        {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "read"}, **_SUBJECTS},
    ),
    Example("rbac.authorization.k8s.io/v1", "Role", "roles", _RULES),
    Example(
        "storage.k8s.io/v1",
        "StorageClass",
        "storageclasses",
        {"provisioner": "example.com/disk", "allowVolumeExpansion": True},
        namespaced=False,
        metadata={"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    ),
    _cluster("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", {"value": 7, "preemptionPolicy": "Never"}),
    Example("coordination.k8s.io/v1", "Lease", "leases", {"spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}}),
    Example(
        "discovery.k8s.io/v1",
        "EndpointSlice",
        "endpointslices",
        {
            "addressType": "IPv4",
            "ports": [{"name": "http", "port": 80}],
            "endpoints": [{"addresses": ["10.0.0.1", "10.0.0.2"]}, {"addresses": ["10.0.0.3", "10.0.0.4"]}],
        },
    ),
    Example(
        "v1",
        "Event",
        "events",
        {
            "involvedObject": {"kind": "Pod", "name": "web-1", "fieldPath": "spec.containers{web}"},
            "reason": "Killing",
            "message": " Stopping ",
            "type": "Normal",
            "source": {"component": "kubelet", "host": "a"},
            "firstTimestamp": _BEGAN,
            "lastTimestamp": _ENDED,
            "count": 3,
        },
    ),
)
