"""Serves the Kubernetes API inside the process, for `kubedelta demo` and for tests.

A request comes over real HTTP to `http.front`, which authenticates the user, resolves the path and answers from
`objects`: a store with the versions of all objects, as etcd and the watch cache have them, and the rules for writes.
Objects are also changed in the process, by the methods of `Playground`. The answers follow kube-apiserver 1.36, down to
the order of members and the texts of errors; ``tests/bridge/playground/test_fidelity.py`` compares them with the real
server's. A test's server misbehaves on request, by overriding the hooks of `http.streams.Faults`.

http         requests, responses, watch streams
manifests    realistic manifests to create objects with
objects      kinds, storage, validation, writes
server       the server
past         a server for the objects of another time, to be read alone
simulation   a cluster with deployments, pods and crashes
"""

from bridge.playground.http.errors import StatusError
from bridge.playground.http.front import SeenRequest
from bridge.playground.objects.columns import columns_of
from bridge.playground.objects.store import StoreSnapshot
from bridge.playground.past import PastCluster, PastObject, past_kind, past_selection
from bridge.playground.server import Playground
from bridge.playground.simulation import ClusterSimulation

__all__ = [
    "ClusterSimulation",
    "PastCluster",
    "PastObject",
    "Playground",
    "SeenRequest",
    "StatusError",
    "StoreSnapshot",
    "columns_of",
    "past_kind",
    "past_selection",
]
