"""HTTP endpoints for machines. They change no state.

access        by a token, or from this machine
connections   bounds on the number and the duration of clients' connections, from their acceptance
listener      the HTTP server that all servers of the bridge stand on
readiness     /readyz?verbose
server        /metrics, /healthz, /readyz
startable     what serves between start and stop
wrong_tokens  wrong tokens of each client (pure)
"""

from bridge.web.server import WebServer

__all__ = ["WebServer"]
