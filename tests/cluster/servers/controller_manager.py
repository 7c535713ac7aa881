"""kube-controller-manager, which makes real churn: deployments become pods, owners take their objects with them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.cluster.servers.kube_apiserver import KubeApiServer
from tests.cluster.servers.ports import reserve_port
from tests.cluster.servers.process import Server, says_ok

CONTROLLERS = (
    "cronjob-controller",
    "daemonset-controller",
    "deployment-controller",
    "disruption-controller",
    "endpointslice-controller",
    "garbage-collector-controller",
    "horizontal-pod-autoscaler-controller",
    "job-controller",
    "namespace-controller",
    "persistentvolume-binder-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "replicaset-controller",
    "statefulset-controller",
)
"""Those that act on what a test creates. The rest put objects of their own into every namespace."""


class ControllerManager(Server):
    """Follows one API server, as its administrator. Without a kubelet pods stay Pending until a test says otherwise."""

    def __init__(self, folder: Path, build: Path, api: KubeApiServer) -> None:
        super().__init__(folder)
        self.api = api
        self.port = reserve_port()
        self._binary = build / "kube-controller-manager"

    def prepare(self) -> None:
        self.api.kubeconfig(self.folder / "kubeconfig")

    def command(self) -> Sequence[str | Path]:
        return [
            self._binary,
            f"--kubeconfig={self.folder / 'kubeconfig'}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.port}",
            f"--cert-dir={self.folder / 'certificates'}",
            f"--controllers={','.join(CONTROLLERS)}",
            "--leader-elect=false",
            "--use-service-account-credentials=false",
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
        ]

    def is_ready(self) -> bool:
        return says_ok(f"https://127.0.0.1:{self.port}/healthz")
