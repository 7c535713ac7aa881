"""The Kubernetes client, and the only room that speaks to the API server.

access, kubeconfig, in_cluster, exec_plugin, auth, tls, proxy   the server's address, its authority, our credentials
transport, inflate, answering, status                           HTTP, and the meaning of its answers
frames, pages, wire, nesting                                    bytes → answers; pure, and the hot path
lister_watcher, paths                                           list and watch of one resource in one scope
catalogue, discovery, documents, accepted, names, short_names   the served resources, and kubectl's names for them
api, client                                                     all other requests, and the entry for other rooms
"""

from bridge.kube.auth.access import ClusterAccess, Connection, resolve
from bridge.kube.client import KubeClient, connect
from bridge.kube.discovery.accepted import is_accepted
from bridge.kube.discovery.catalogue import Catalogue, Served
from bridge.kube.discovery.names import UnknownResource, store_of
from bridge.kube.discovery.names import resolve as resolve_name
from bridge.kube.discovery.short_names import SHORT_NAMES
from bridge.kube.errors import ApiError, CredentialsError
from bridge.kube.lister_watcher import ApiListerWatcher

__all__ = [
    "SHORT_NAMES",
    "ApiError",
    "ApiListerWatcher",
    "Catalogue",
    "ClusterAccess",
    "Connection",
    "CredentialsError",
    "KubeClient",
    "Served",
    "UnknownResource",
    "connect",
    "is_accepted",
    "resolve",
    "resolve_name",
    "store_of",
]
