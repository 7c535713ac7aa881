"""HTTP endpoints for machines. They change no state.

access      wrong tokens of each client (pure); by a token, or from this machine
listener    what serves between start and stop; bounds on the number and the duration of clients' connections, from
            their acceptance; the HTTP server that all servers of the bridge stand on
readiness   /readyz?verbose
server      /metrics, /healthz, /readyz

Invariants, each with its test:

- Ready needs both: HasSynced, which is latched once the first list is processed, and live, which means that a watch is
  open; and an intake that is not blocked. ``tests/bridge/model/test_status.py``
- A server counts a client's connection from its acceptance, and bounds the number of connections, for each client too,
  the time for a request, and the time for reading its answer. ``tests/bridge/http/test_listener.py``
"""

from bridge.http.server import WebServer

__all__ = ["WebServer"]
