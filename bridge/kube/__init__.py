"""Speaks to the API server: no other room sends it a request. Answers become values of ``bridge.model.answers``, and
failures of lists and watches are values too.

A configured cluster is resolved into a connection (``auth``), over which ``client`` makes everything else: the
catalogue of served resources (``discovery``), the ListerWatchers that informers read from, and single objects by their
names. The bytes of a list or a watch go from ``transport`` through ``gathering`` to the readers in ``wire``, which cut
objects out of them without decoding what nobody asks for.

auth                 finds the server's address, its certificates, and our credentials
catalogue            holds the served resources, and resolves kubectl's names for them
client               makes the client for the other rooms, and reads, writes and watches a single object
discovery            requests the discovery documents, with ETags
discovery_documents  reads both forms of discovery documents, and bounds their names and counts
gathering            gathers the bytes of watches in a window that all watches share
lister_watcher       lists and watches one resource in one scope, or the objects of a shard in it alone
transport            carries httpx over aiohttp, with a connection for each watch; makes single requests
wire                 turns the bytes of lists, watches and errors into values

Whatever the server sends is bounded before it is in memory, and names that it chose stay names. An aggregated API
server, or a tenant who writes an object, must not be able to fill the memory, to lead a request to another path, or to
stop the list of their neighbours.

Invariants, each with its test:

- An object has at most 16 MiB (of a longer one, its identity is exported), the part of a page beside its items 1 MiB,
  and a document that is read whole 32 MiB. All of these count inflated bytes, and at most 256 KiB are inflated at once.
  Names that are stored, sent back or used as keys are bounded in ``wire.objects``.
  ``tests/bridge/kube/test_pages.py``, ``tests/scenarios/test_a_page_of_500_megabytes.py``
- Of a discovery document only DNS names are accepted, every segment of a path is quoted, and no other group can claim
  the names of built-in groups. ``tests/scenarios/test_names_that_an_aggregated_server_chose.py``
"""

from bridge.kube.auth.access import ClusterAccess, find_connection, pod_namespace
from bridge.kube.auth.connection import ClusterConnection
from bridge.kube.auth.credentials import CredentialsError
from bridge.kube.catalogue import Catalogue, Served, UnknownResource, resolve_name, store_of
from bridge.kube.client import KubeClient, NamedObject, connect
from bridge.kube.discovery_documents import is_accepted
from bridge.kube.lister_watcher import ApiListerWatcher
from bridge.kube.transport import ApiError

__all__ = [
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
    "find_connection",
    "is_accepted",
    "pod_namespace",
    "resolve_name",
    "store_of",
]
