"""The only room that speaks to the API server.

access, kubeconfig, in_cluster, exec_plugin, auth, tls, proxy   where it is, whom we trust, who we are
transport, inflate, answering, status                           HTTP, and what its answers mean
frames, pages, wire, nesting                                    bytes → answers; pure, and the hot path
lister_watcher, paths                                           list and watch of one resource in one scope
catalogue, discovery, documents, accepted, names, short_names   what the server serves, and kubectl's names for it
api, client                                                     everything else, and the door for the others
"""

from bridge.kube.accepted import is_accepted
from bridge.kube.access import ClusterAccess, Connection, resolve
from bridge.kube.catalogue import Catalogue, CatalogueChange, Served, difference
from bridge.kube.client import KubeClient, connect
from bridge.kube.errors import ApiError, CredentialsError
from bridge.kube.lister_watcher import ApiListerWatcher
from bridge.kube.names import UnknownResource, store_of
from bridge.kube.names import resolve as resolve_name
from bridge.kube.short_names import SHORT_NAMES

__all__ = [
    "SHORT_NAMES",
    "ApiError",
    "ApiListerWatcher",
    "Catalogue",
    "CatalogueChange",
    "ClusterAccess",
    "Connection",
    "CredentialsError",
    "KubeClient",
    "Served",
    "UnknownResource",
    "connect",
    "difference",
    "is_accepted",
    "resolve",
    "resolve_name",
    "store_of",
]
