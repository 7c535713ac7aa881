"""Lists the built-in kinds of Kubernetes 1.36, in the order of its discovery."""

from __future__ import annotations

from bridge.playground.objects.catalogue import EVERY_VERB, Kind, Subresource

_CHANGE = ("get", "patch", "update")
_VERBS = {
    "create-only": ("create",),
    "read-only": ("get", "list"),
    "kept": tuple(verb for verb in EVERY_VERB if verb != "deletecollection"),
}
_PROXY = ("create", "delete", "get", "patch", "update")


def _kinds(group: str, *rows: str, versions: tuple[str, ...] = ("v1",)) -> list[Kind]:
    """A row is: plural, kind, and words. ``cluster`` has no namespaces, ``status`` and ``scale`` are subresources,
    ``+all`` is a category, ``create-only`` and ``read-only`` kinds are never stored, ``kept`` kinds have no
    ``deletecollection``; other words are short names."""
    return [_kind(group, versions, *row.split()) for row in rows]


def _kind(group: str, versions: tuple[str, ...], plural: str, kind: str, *words: str) -> Kind:
    marks = {"cluster", "status", "scale", "create-only", "read-only", "kept"}
    subresources = [Subresource("status", kind, _CHANGE)] if "status" in words else []
    if "scale" in words:
        subresources.insert(0, Subresource("scale", "Scale", _CHANGE, "autoscaling", "v1"))
    return Kind(
        group=group,
        versions=versions,
        plural=plural,
        kind=kind,
        singular=kind.lower(),
        list_kind=f"{kind}List",
        namespaced="cluster" not in words,
        short_names=tuple(word for word in words if word not in marks and not word.startswith("+")),
        categories=tuple(word[1:] for word in words if word.startswith("+")),
        verbs=next((_VERBS[word] for word in words if word in _VERBS), EVERY_VERB),
        subresources=(*_MORE_SUBRESOURCES.get((group, plural), ()), *subresources),
        hash_version=_HASH_VERSIONS.get((group, plural), ""),
        stored_as="events" if (group, plural) == ("events.k8s.io", "events") else "",
    )


_MORE_SUBRESOURCES = {
    ("", "namespaces"): (Subresource("finalize", "Namespace", ("update",)),),
    ("", "nodes"): (Subresource("proxy", "NodeProxyOptions", _PROXY),),
    ("", "pods"): (
        Subresource("attach", "PodAttachOptions", ("create", "get")),
        Subresource("binding", "Binding", ("create",)),
        Subresource("ephemeralcontainers", "Pod", _CHANGE),
        Subresource("eviction", "Eviction", ("create",), "policy", "v1"),
        Subresource("exec", "PodExecOptions", ("create", "get")),
        Subresource("log", "Pod", ("get",)),
        Subresource("portforward", "PodPortForwardOptions", ("create", "get")),
        Subresource("proxy", "PodProxyOptions", _PROXY),
        Subresource("resize", "Pod", _CHANGE),
    ),
    ("", "serviceaccounts"): (Subresource("token", "TokenRequest", ("create",), "authentication.k8s.io", "v1"),),
    ("", "services"): (Subresource("proxy", "ServiceProxyOptions", _PROXY),),
    ("certificates.k8s.io", "certificatesigningrequests"): (
        Subresource("approval", "CertificateSigningRequest", _CHANGE),
    ),
}

_HASH_VERSIONS = {
    ("autoscaling", "horizontalpodautoscalers"): "v2",
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies"): "v1beta1",
    ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings"): "v1beta1",
    ("apiextensions.k8s.io", "customresourcedefinitions"): "v1beta1",
}
"""Kinds whose stored version is not the preferred version. Discovery shows it as storageVersionHash."""


BUILT_IN: tuple[Kind, ...] = (
    *_kinds(
        "",
        "bindings Binding create-only",
        "componentstatuses ComponentStatus cs cluster read-only",
        "configmaps ConfigMap cm",
        "endpoints Endpoints ep",
        "events Event ev",
        "limitranges LimitRange limits",
        "namespaces Namespace ns cluster status kept",
        "nodes Node no cluster status",
        "persistentvolumeclaims PersistentVolumeClaim pvc status",
        "persistentvolumes PersistentVolume pv cluster status",
        "pods Pod po +all status",
        "podtemplates PodTemplate",
        "replicationcontrollers ReplicationController rc +all scale status",
        "resourcequotas ResourceQuota quota status",
        "secrets Secret",
        "serviceaccounts ServiceAccount sa",
        "services Service svc +all status",
    ),
    *_kinds("apiregistration.k8s.io", "apiservices APIService cluster +api-extensions status"),
    *_kinds(
        "apps",
        "controllerrevisions ControllerRevision",
        "daemonsets DaemonSet ds +all status",
        "deployments Deployment deploy +all scale status",
        "replicasets ReplicaSet rs +all scale status",
        "statefulsets StatefulSet sts +all scale status",
    ),
    *_kinds("events.k8s.io", "events Event ev"),
    *_kinds(
        "authentication.k8s.io",
        "selfsubjectreviews SelfSubjectReview cluster create-only",
        "tokenreviews TokenReview cluster create-only",
    ),
    *_kinds(
        "authorization.k8s.io",
        "localsubjectaccessreviews LocalSubjectAccessReview create-only",
        "selfsubjectaccessreviews SelfSubjectAccessReview cluster create-only",
        "selfsubjectrulesreviews SelfSubjectRulesReview cluster create-only",
        "subjectaccessreviews SubjectAccessReview cluster create-only",
    ),
    *_kinds("autoscaling", "horizontalpodautoscalers HorizontalPodAutoscaler hpa +all status", versions=("v2", "v1")),
    *_kinds("batch", "cronjobs CronJob cj +all status", "jobs Job +all status"),
    *_kinds("certificates.k8s.io", "certificatesigningrequests CertificateSigningRequest csr cluster status"),
    *_kinds(
        "networking.k8s.io",
        "ingressclasses IngressClass cluster",
        "ingresses Ingress ing status",
        "ipaddresses IPAddress ip cluster",
        "networkpolicies NetworkPolicy netpol",
        "servicecidrs ServiceCIDR cluster status",
    ),
    *_kinds("policy", "poddisruptionbudgets PodDisruptionBudget pdb status"),
    *_kinds(
        "rbac.authorization.k8s.io",
        "clusterrolebindings ClusterRoleBinding cluster",
        "clusterroles ClusterRole cluster",
        "rolebindings RoleBinding",
        "roles Role",
    ),
    *_kinds(
        "storage.k8s.io",
        "csidrivers CSIDriver cluster",
        "csinodes CSINode cluster",
        "csistoragecapacities CSIStorageCapacity",
        "storageclasses StorageClass sc cluster",
        "volumeattachments VolumeAttachment cluster status",
        "volumeattributesclasses VolumeAttributesClass vac cluster",
    ),
    *_kinds(
        "admissionregistration.k8s.io",
        "mutatingadmissionpolicies MutatingAdmissionPolicy cluster +api-extensions",
        "mutatingadmissionpolicybindings MutatingAdmissionPolicyBinding cluster +api-extensions",
        "mutatingwebhookconfigurations MutatingWebhookConfiguration cluster +api-extensions",
        "validatingadmissionpolicies ValidatingAdmissionPolicy cluster +api-extensions status",
        "validatingadmissionpolicybindings ValidatingAdmissionPolicyBinding cluster +api-extensions",
        "validatingwebhookconfigurations ValidatingWebhookConfiguration cluster +api-extensions",
    ),
    *_kinds(
        "apiextensions.k8s.io",
        "customresourcedefinitions CustomResourceDefinition crd crds cluster +api-extensions status",
    ),
    *_kinds("scheduling.k8s.io", "priorityclasses PriorityClass pc cluster"),
    *_kinds("coordination.k8s.io", "leases Lease"),
    *_kinds("node.k8s.io", "runtimeclasses RuntimeClass cluster"),
    *_kinds("discovery.k8s.io", "endpointslices EndpointSlice"),
    *_kinds(
        "resource.k8s.io",
        "deviceclasses DeviceClass cluster",
        "resourceclaims ResourceClaim status",
        "resourceclaimtemplates ResourceClaimTemplate",
        "resourceslices ResourceSlice cluster",
    ),
    *_kinds(
        "flowcontrol.apiserver.k8s.io",
        "flowschemas FlowSchema cluster status",
        "prioritylevelconfigurations PriorityLevelConfiguration cluster status",
    ),
)
