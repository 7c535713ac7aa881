"""Finds the API server from inside a pod.

https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bridge.kube.auth.kubeconfig import ChosenContext
from bridge.kube.auth.kubeconfig_file import Cluster, User

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""The folder in which the kubelet puts the token and the cluster's authority."""
ORIGIN = "the pod's service account"


def in_cluster(environ: Mapping[str, str], folder: Path = SERVICE_ACCOUNT) -> ChosenContext | None:
    """The cluster and the pod's service account; None outside of a pod, and in a pod without a token."""
    # An address, as client-go uses it: the name kubernetes.default.svc would need the cluster's DNS.
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
    token_file = folder / "token"
    if not (host and port and token_file.exists()):
        return None
    host = f"[{host}]" if ":" in host else host
    cluster = Cluster(server=f"https://{host}:{port}", certificate_authority=str(folder / "ca.crt"))
    return ChosenContext(ORIGIN, cluster, User(token_file=str(token_file)), ORIGIN, ORIGIN)


def pod_namespace(folder: Path = SERVICE_ACCOUNT) -> str:
    """The namespace of the pod; empty outside of a pod, and in a pod without a service account."""
    try:
        return (folder / "namespace").read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""
