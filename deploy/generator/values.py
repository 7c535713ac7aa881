"""The values of the chart, beside ``config``. A test compares the defaults with values.yaml."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

Anything: TypeAlias = dict[str, Any]
"""A part of a Kubernetes object, which the API server validates."""
Texts: TypeAlias = dict[str, str]
Label: TypeAlias = Annotated[str, Field(max_length=63, pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$")]
Quantity: TypeAlias = Annotated[
    str, Field(pattern=r"^([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]+)?$")
]
"""Kubernetes' notation. Unlike sizes of the configuration it has no B: 1Gi, and not 1Gb or 1GiB."""
Time: TypeAlias = Annotated[str, Field(pattern=r"^([0-9]+(ms|s|m|h))+$")]
"""In Prometheus' notation."""


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Image(Part):
    repository: str = Field(default="kubedelta", min_length=1, description="Registry and name of the image.")
    tag: str = Field(default="", description="Empty for the chart's appVersion.")
    digest: str = Field(default="", pattern="^(sha256:[0-9a-f]{64})?$", description="Used in place of the tag.")
    pullPolicy: Literal["IfNotPresent", "Always", "Never"] = Field(
        default="IfNotPresent", description="When nodes pull it."
    )
    pullSecrets: list[Texts] = Field(default=[], description="References to Secrets with the registry's credentials.")


class ServiceAccount(Part):
    create: bool = Field(default=True, description="False for an account that exists.")
    name: str = Field(default="", description="Empty for the full name, or for default without create.")
    annotations: Texts = Field(default={}, description="Such as a cloud's role.")


class Rbac(Part):
    create: bool = Field(default=True, description="False where the output of `kubedelta rbac` is applied instead.")
    namespaced: bool = Field(
        default=False, description="Roles only; each entry of config.resources must name namespaces then."
    )


class Persistence(Part):
    enabled: bool = Field(
        default=True, description="False keeps the state in the pod: each restart begins with snapshots."
    )
    existingClaim: str = Field(default="", description="A PersistentVolumeClaim to use; empty for the chart's own.")
    storageClass: str = Field(default="", description="Empty for the cluster's default.")
    accessMode: Literal["ReadWriteOnce", "ReadWriteOncePod"] = Field(
        default="ReadWriteOnce", description="ReadWriteOncePod admits one pod, where the storage has that."
    )
    size: Quantity = Field(default="10Gi", description="A quantity of Kubernetes.")
    retain: bool = Field(default=True, description="`helm uninstall` leaves the claim.")
    annotations: Texts = Field(default={}, description="Of the claim.")


class Secret(Part):
    name: str = Field(min_length=1, description="Of a Secret in the release's namespace.")
    mountPath: str = Field(pattern="^/", description="The folder for its keys, each a file.")


class Encryption(Part):
    existingSecret: str = Field(default="", description="A Secret whose entries are keys; empty for no encryption.")
    keys: list[Annotated[str, Field(pattern=r"^[-._a-zA-Z0-9]+$")]] = Field(
        default=[], description="Names of entries, for state.encryption.key_files: new content has the first key."
    )


class Redaction(Part):
    existingSecret: str = Field(default="", description="A Secret with the key of digests; empty for the state's own.")
    key: str = Field(
        default="redaction.key", pattern=r"^[-._a-zA-Z0-9]+$", description="The name of its entry, for key_file."
    )


class Service(Part):
    annotations: Texts = Field(default={}, description="Of the Service.")


class NetworkPolicy(Part):
    enabled: bool = Field(default=True, description="False admits every client.")
    from_: list[Anything] = Field(
        default=[{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
        alias="from",
        description="Peers that may connect; empty for none.",
    )
    pageFrom: list[Anything] = Field(
        default=[], description="Peers that may connect to config.page.listen beyond loopback; empty for none."
    )
    egress: list[Anything] = Field(
        default=[],
        description="Rules for DNS, the API server and every sink; empty leaves outgoing connections unbounded.",
    )


class PodDisruptionBudget(Part):
    enabled: bool = Field(default=False, description="Creates it.")
    maxUnavailable: Annotated[int, Field(ge=0)] | str = Field(
        default=1, description="0 keeps a node from being drained."
    )


class ServiceMonitor(Part):
    enabled: bool = Field(default=False, description="Creates it; needs the Prometheus Operator.")
    labels: Texts = Field(default={}, description="By which a Prometheus finds it.")
    interval: Time = Field(default="30s", description="Between two scrapes.")
    scrapeTimeout: Time = Field(default="10s", description="At most the interval.")


class PrometheusRule(Part):
    enabled: bool = Field(default=False, description="Creates it; needs the Prometheus Operator.")
    labels: Texts = Field(default={}, description="By which a Prometheus finds it.")
    runbookUrl: str = Field(
        default="", description="Where docs/alerts.md is published; each alert links to its section."
    )
    disabled: list[str] = Field(default=[], description="Names of alerts to leave out.")


class Dashboard(Part):
    enabled: bool = Field(default=False, description="Creates a ConfigMap with a dashboard for Grafana's sidecar.")
    labels: Texts = Field(default={"grafana_dashboard": "1"}, description="By which the sidecar finds it.")
    annotations: Texts = Field(default={}, description="Such as the sidecar's folder.")


class ContainerResources(BaseModel):
    model_config = ConfigDict(extra="allow")

    requests: dict[str, Quantity | Annotated[float, Field(ge=0)]] = Field(default={}, description="Quantities.")
    limits: dict[str, Quantity | Annotated[float, Field(ge=0)]] = Field(default={}, description="Quantities.")


def _toleration(taint: str) -> Anything:
    return {"key": f"node.kubernetes.io/{taint}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}


class Values(Part):
    """All values but ``config``."""

    image: Image = Field(default=Image(), description="The container's image.")
    replicas: Annotated[int, Field(ge=0, le=3)] = Field(
        default=1,
        description="Bridges, of which one watches and delivers; above 1 with config.election.enabled. 0 stops.",
    )
    shards: Literal[1, 2, 4, 8, 16, 32, 64, 128, 256] = Field(
        default=1, description="Parts of all objects, each with replicas of its own; 1 for bridges with all objects."
    )
    restartOnConfigChange: bool = Field(
        default=True,
        description="Restarts the pod for a changed config. False: the bridge reloads it about a minute later, as far "
        "as no option needs a restart.",
    )
    nameOverride: Label = Field(default="", description="In place of the chart's name.")
    fullnameOverride: Label = Field(default="", description="In place of release and name.")
    commonLabels: Texts = Field(default={}, description="Of every object.")
    podLabels: Texts = Field(default={}, description="Of the pod.")
    podAnnotations: Texts = Field(default={}, description="Of the pod.")
    serviceAccount: ServiceAccount = Field(default=ServiceAccount(), description="The bridge's account.")
    rbac: Rbac = Field(default=Rbac(), description="The rights that config.resources need.")
    persistence: Persistence = Field(default=Persistence(), description="The volume at config.state.directory.")
    secrets: list[Secret] = Field(default=[], description="Secrets as files, for options of config that end in _file.")
    encryption: Encryption = Field(default=Encryption(), description="Of objects' content on the volume.")
    redaction: Redaction = Field(default=Redaction(), description="The key of digests, for an election.")
    env: list[Anything] = Field(default=[], description="Environment variables of the container.")
    extraVolumes: list[Anything] = Field(default=[], description="Further volumes of the pod.")
    extraVolumeMounts: list[Anything] = Field(default=[], description="Their mounts.")
    service: Service = Field(default=Service(), description="The Service for /metrics.")
    networkPolicy: NetworkPolicy = Field(default=NetworkPolicy(), description="Who may connect, and where to.")
    podDisruptionBudget: PodDisruptionBudget = Field(
        default=PodDisruptionBudget(), description="Bounds evictions; there in any case with an election."
    )
    serviceMonitor: ServiceMonitor = Field(default=ServiceMonitor(), description="Of the Prometheus Operator.")
    prometheusRule: PrometheusRule = Field(
        default=PrometheusRule(), description="The alerts, for the Prometheus Operator."
    )
    dashboard: Dashboard = Field(default=Dashboard(), description="For Grafana.")
    resources: ContainerResources = Field(
        default=ContainerResources(
            requests={"cpu": "100m", "memory": "256Mi", "ephemeral-storage": "64Mi"}, limits={"memory": "1Gi"}
        ),
        description="Of the container.",
    )
    podSecurityContext: Anything = Field(
        default={
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "fsGroup": 65532,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        description="Of the pod.",
    )
    securityContext: Anything = Field(
        default={"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}},
        description="Of the container.",
    )
    tolerations: list[Anything] = Field(
        default=[_toleration("not-ready"), _toleration("unreachable")], description="Of the pod."
    )
    nodeSelector: Texts = Field(default={}, description="Of the pod.")
    affinity: Anything = Field(default={}, description="Of the pod.")
    topologySpreadConstraints: list[Anything] = Field(
        default=[], description="Of the pod. Empty: replicas of an election run on a node each."
    )
    priorityClassName: str = Field(default="", description="Of the pod.")
