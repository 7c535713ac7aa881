"""An API server inside the process, for `kubedelta demo` and for tests.

It speaks HTTP as kube-apiserver 1.36 does; a test compares them.

http           requests, responses, watch streams
misbehaviour   faults on request
objects        kinds, storage, validation, writes
rules          faults that wait for a request
server         the server
simulation     a cluster with deployments, pods and crashes
"""

from bridge.playground.http.errors import ApiError
from bridge.playground.http.front import Seen
from bridge.playground.misbehaviour import Misbehaviour
from bridge.playground.objects.store import Snapshot
from bridge.playground.rules import DISCOVERY, Rule
from bridge.playground.server import Playground
from bridge.playground.simulation.life import Life

__all__ = ["DISCOVERY", "ApiError", "Life", "Misbehaviour", "Playground", "Rule", "Seen", "Snapshot"]
