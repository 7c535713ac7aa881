"""The only room that speaks to the API server.

api              a single request: JSON in, JSON out
auth             the server's address, its certificates, and our credentials
client           reads, writes and watches one object; the interface for the other rooms
discovery        served resources, and kubectl's names for them
errors           exceptions of this room
gathering        the bytes of watches, gathered in a window that all watches share (hot)
lister_watcher   list and watch of one resource in one scope
parameters       query parameters of lists and watches (pure); URL paths (pure)
sharded          list and watch of the objects of a shard alone
transport        httpx over aiohttp, one connection for each watch
wire             bytes of lists, watches and errors into values (pure, hot)

Whatever the server sends is bounded before it is in memory, and names that it chose stay names.

Invariants, each with its test:

- An object has at most 16 MiB (of a longer one, its identity is exported), the part of a page beside its items 1 MiB,
  and a document that is read whole 32 MiB. All of these count inflated bytes, and at most 256 KiB are inflated at once.
  Names that are stored, sent back or used as keys are bounded in ``wire.bounds``. ``tests/bridge/kube/test_pages.py``,
  ``tests/scenarios/test_a_page_of_500_megabytes.py``
- Of a discovery document only DNS names are accepted, every segment of a path is quoted, and no other group can claim
  the names of built-in groups. ``tests/scenarios/test_names_that_an_aggregated_server_chose.py``
"""

from bridge.kube.auth.access import ClusterAccess, ClusterConnection, pod_namespace, resolve
from bridge.kube.client import KubeClient, NamedObject, connect
from bridge.kube.discovery.catalogue import SHORT_NAMES, Catalogue, Served, UnknownResource, store_of
from bridge.kube.discovery.catalogue import resolve as resolve_name
from bridge.kube.discovery.documents import is_accepted
from bridge.kube.errors import ApiError, CredentialsError
from bridge.kube.lister_watcher import ApiListerWatcher

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
