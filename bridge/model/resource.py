"""Names a resource of the API, the watched part of a resource, and what an operator may have meant by kubectl's name
for a resource.

``ResourceName`` parses such a name; ``SHORT_NAMES`` are known without a cluster. The meaning of a name on a cluster is
for ``bridge.kube.catalogue``::

    pods                     plural, singular, short name or kind
    deployments.apps         of a group
    deployments.v1.apps      of a group, in a version
    *.cert-manager.io, *     all resources of a group, or of the cluster
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType

import msgspec


class Resource(msgspec.Struct, frozen=True):
    """A resource in a version, e.g. deployments.apps in v1."""

    group: str
    """Empty for the core group."""
    version: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def name(self) -> str:
        """kubectl's name: ``pods``, ``deployments.apps``. Unique in a cluster; all versions share it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None) -> str:
        """The API path of the collection (in a namespace, if given) or of an object in it."""
        path = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if namespace:
            path += f"/namespaces/{namespace}"
        path += f"/{self.plural}"
        return f"{path}/{name}" if name else path

    def __str__(self) -> str:
        return self.name


class Scope(msgspec.Struct, frozen=True):
    """The part of a resource that an informer watches. Selectors are in the API server's syntax."""

    namespace: str | None = None
    """None for all namespaces, and for resources without namespaces."""
    label_selector: str = ""
    field_selector: str = ""

    def meets(self, other: Scope) -> bool:
        """Whether an object may be in both scopes. Only different namespaces and different fixed names exclude that:
        labels and other fields of an object change."""
        namespaces = {self.namespace, other.namespace}
        names = {self.fixed_name, other.fixed_name}
        return (None in namespaces or len(namespaces) == 1) and (None in names or len(names) == 1)

    @property
    def fixed_name(self) -> str | None:
        """The only name that the field selector admits; None if it admits several."""
        for term in self.field_selector.split(","):
            field, _, value = term.partition("=")
            if field.strip() == "metadata.name":
                return value.removeprefix("=").strip()
        return None

    def __str__(self) -> str:
        parts = [self.namespace and f"namespace {self.namespace}", self.label_selector, self.field_selector]
        return ", ".join(part for part in parts if part) or "all"


LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True)
"""The resource of the Lease of an election."""


_VERSION = re.compile(r"v[0-9]+(?:(?:alpha|beta)[0-9]+)?")


@dataclass(frozen=True, slots=True)
class ResourceName:
    """The parts of a name, in small letters. Every text can be parsed; config checks the syntax."""

    word: str
    """The text before the first dot; ``*`` for a wildcard."""
    rest: str = ""
    """The text behind the first dot: a group, or a version and a group."""

    @classmethod
    def parsed(cls, text: str) -> ResourceName:
        word, _, rest = text.strip().lower().partition(".")
        return cls(word, rest)

    @property
    def is_wildcard(self) -> bool:
        return self.word == "*"

    @property
    def readings(self) -> tuple[tuple[str | None, str | None], ...]:
        """The possible (group, version), in kubectl's order. None matches any.

        Without a catalogue, ``v1.acme.io`` may be the version v1 of the group acme.io or the group v1.acme.io."""
        if not self.rest:
            return ((None, None),)
        version, dot, group = self.rest.partition(".")
        whole = (self.rest, None)
        return ((group, version), whole) if dot else (whole,)

    @property
    def group(self) -> str:
        """The most likely group: a first part that looks like a version (``v1``, ``v2beta1``) counts as a version."""
        version, _, group = self.rest.partition(".")
        return group if _VERSION.fullmatch(version) else self.rest

    def may_mean(self, group: str, plural: str) -> bool:
        """Whether the name may mean this resource, by its text alone. Short names and kinds need a catalogue."""
        return self.word in ("*", plural) and self.may_be_in(group)

    def may_be_in(self, group: str) -> bool:
        """Whether the name may mean a resource of this group."""
        return any(read in (None, group) for read, _ in self.readings)


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
"""The short names of kube-apiserver's own resources, for commands that work offline. Source: ``kubectl
api-resources``."""
