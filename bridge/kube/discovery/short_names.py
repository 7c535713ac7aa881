"""The short names of kube-apiserver's own resources, for commands that work offline. Source: ``kubectl
api-resources``."""

from __future__ import annotations

from types import MappingProxyType

SHORT_NAMES = MappingProxyType(
    {
        "componentstatuses": ("cs",),
        "configmaps": ("cm",),
        "endpoints": ("ep",),
        "events": ("ev",),
        "limitranges": ("limits",),
        "namespaces": ("ns",),
        "nodes": ("no",),
        "persistentvolumeclaims": ("pvc",),
        "persistentvolumes": ("pv",),
        "pods": ("po",),
        "replicationcontrollers": ("rc",),
        "resourcequotas": ("quota",),
        "serviceaccounts": ("sa",),
        "services": ("svc",),
        "customresourcedefinitions.apiextensions.k8s.io": ("crd", "crds"),
        "daemonsets.apps": ("ds",),
        "deployments.apps": ("deploy",),
        "replicasets.apps": ("rs",),
        "statefulsets.apps": ("sts",),
        "horizontalpodautoscalers.autoscaling": ("hpa",),
        "cronjobs.batch": ("cj",),
        "certificatesigningrequests.certificates.k8s.io": ("csr",),
        "events.events.k8s.io": ("ev",),
        "ingresses.networking.k8s.io": ("ing",),
        "ipaddresses.networking.k8s.io": ("ip",),
        "networkpolicies.networking.k8s.io": ("netpol",),
        "poddisruptionbudgets.policy": ("pdb",),
        "priorityclasses.scheduling.k8s.io": ("pc",),
        "storageclasses.storage.k8s.io": ("sc",),
        "volumeattributesclasses.storage.k8s.io": ("vac",),
    }
)
