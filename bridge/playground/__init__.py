"""An API server inside the process, for `kubedelta demo` and for tests.

Its HTTP answers follow kube-apiserver 1.36; a test compares them.

http           requests, responses, watch streams
misbehaviour   faults on request
objects        kinds, storage, validation, writes
rules          faults that wait for a request
server         the server
simulation     a cluster with deployments, pods and crashes
"""

from bridge.playground.http.errors import StatusError
from bridge.playground.http.front import SeenRequest
from bridge.playground.misbehaviour import Misbehaviour
from bridge.playground.objects.store import StoreSnapshot
from bridge.playground.rules import DISCOVERY, FaultRule
from bridge.playground.server import Playground
from bridge.playground.simulation.life import ClusterSimulation

__all__ = [
    "DISCOVERY",
    "ClusterSimulation",
    "FaultRule",
    "Misbehaviour",
    "Playground",
    "SeenRequest",
    "StatusError",
    "StoreSnapshot",
]
