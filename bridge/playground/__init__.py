"""An API server inside the process, for `kubedelta demo` and for tests.

Its HTTP answers follow kube-apiserver 1.36; a test compares them.

http           requests, responses, watch streams
objects        kinds, storage, validation, writes
server         the server
simulation     a cluster with deployments, pods and crashes
"""

from bridge.playground.http.errors import StatusError
from bridge.playground.http.front import SeenRequest
from bridge.playground.objects.store import StoreSnapshot
from bridge.playground.server import Playground
from bridge.playground.simulation.life import ClusterSimulation

__all__ = [
    "ClusterSimulation",
    "Playground",
    "SeenRequest",
    "StatusError",
    "StoreSnapshot",
]
