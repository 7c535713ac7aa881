"""HTTP servers of the bridge: the endpoints for machines, and the listener that every server stands on. The endpoints
change no state.

access         admits a request by a token, or from this machine
certificates   a certificate that no authority signs
listener       bounds clients' connections from their acceptance, and answers their requests
readiness      the report of /readyz?verbose
server         /metrics, /healthz, /readyz
socket_file    the file of the admin socket in the state directory

A connection is counted by ``listener``, which reads its request within bounds; then ``access`` admits it or raises a
refusal, and the server's handler answers from a BridgeStatus. The page, the admin socket and replication have
handlers of their own on the same listener.

Invariants, each with its test:

- Ready needs both: HasSynced, which is latched once the first list is processed, and live, which means that a watch is
  open; and an intake that is not blocked. ``tests/bridge/model/test_status.py``
- A server counts a client's connection from its acceptance, and bounds the number of connections, for each client too,
  the time for a request, and the time for reading its answer. ``tests/bridge/http/test_listener.py``
"""
