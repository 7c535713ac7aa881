"""An API server inside the process: ``kubedelta demo`` runs on it, and so do the tests.

It speaks HTTP as kube-apiserver 1.36 does, compared with it by a test, and misbehaves on request.
"""

from bridge.playground.http.errors import ApiError
from bridge.playground.http.front import Seen
from bridge.playground.misbehaviour import Misbehaviour
from bridge.playground.objects.store import Snapshot
from bridge.playground.rules import DISCOVERY, Rule
from bridge.playground.server import Playground
from bridge.playground.simulation.life import Life

__all__ = ["DISCOVERY", "ApiError", "Life", "Misbehaviour", "Playground", "Rule", "Seen", "Snapshot"]
