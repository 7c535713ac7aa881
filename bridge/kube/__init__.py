"""The only room that speaks to the API server.

api              a single request: JSON in, JSON out
auth             the server's address, its certificates, and our credentials
client           the interface for the other rooms
discovery        served resources, and kubectl's names for them
errors           exceptions of this room
gathering        the bytes of watches, gathered in a window that all watches share (hot)
lister_watcher   list and watch of one resource in one scope
parameters       query parameters of lists and watches (pure)
named_object     reads, writes and watches one object
paths            URL paths (pure)
sharded          list and watch of the objects of a shard alone
transport        httpx over aiohttp, one connection for each watch
wire             bytes of lists, watches and errors into values (pure, hot)
"""

from bridge.kube.auth.access import ClusterAccess, ClusterConnection, resolve
from bridge.kube.auth.in_cluster import pod_namespace
from bridge.kube.client import KubeClient, connect
from bridge.kube.discovery.accepted import is_accepted
from bridge.kube.discovery.catalogue import Catalogue, Served
from bridge.kube.discovery.names import UnknownResource, store_of
from bridge.kube.discovery.names import resolve as resolve_name
from bridge.kube.discovery.short_names import SHORT_NAMES
from bridge.kube.errors import ApiError, CredentialsError
from bridge.kube.lister_watcher import ApiListerWatcher
from bridge.kube.named_object import NamedObject

__all__ = [
    "SHORT_NAMES",
    "ApiError",
    "ApiListerWatcher",
    "Catalogue",
    "ClusterAccess",
    "ClusterConnection",
    "CredentialsError",
    "KubeClient",
    "NamedObject",
    "Served",
    "UnknownResource",
    "connect",
    "is_accepted",
    "pod_namespace",
    "resolve",
    "resolve_name",
    "store_of",
]
