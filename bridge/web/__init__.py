"""HTTP endpoints for machines. They change no state.

access        clients on this machine, and holders of a token
connections   bounds on the clients' connections
listener      an HTTP server on an address, within bounds
readiness     /readyz?verbose
server        /metrics, /healthz, /readyz
startable     what serves between start and stop
wrong_tokens  how many wrong tokens a client may send (pure)
"""

from bridge.web.server import WebServer

__all__ = ["WebServer"]
