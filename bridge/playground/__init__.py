"""An API server inside the process: ``kubedelta demo`` runs on it, and so do the tests.

It speaks HTTP as kube-apiserver 1.36 does, compared with it by a test, and misbehaves on request.
"""

from bridge.playground.errors import ApiError
from bridge.playground.front import Seen
from bridge.playground.life import Life
from bridge.playground.misbehaviour import Misbehaviour
from bridge.playground.rules import DISCOVERY, Rule
from bridge.playground.server import Playground
from bridge.playground.store import Snapshot

__all__ = ["DISCOVERY", "ApiError", "Life", "Misbehaviour", "Playground", "Rule", "Seen", "Snapshot"]
