"""HTTP endpoints for machines. They change no state.

access        who may read the details of readiness
connections   bounds on the clients' connections
readiness     /readyz?verbose
server        /metrics, /healthz, /readyz
"""

from bridge.web.server import WebServer

__all__ = ["WebServer"]
