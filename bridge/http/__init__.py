"""HTTP under every server of the bridge: the endpoints for machines, the admin socket, the page, replication, and the
posts of audit events.

access         admits a request by a token, or from this machine
certificates   a certificate that no authority signs
listener       bounds clients' connections from their acceptance, and answers their requests
socket_file    the file of the admin socket in the state directory

A connection is counted by ``listener``, which reads its request within bounds; then ``access`` admits it or raises a
refusal, and the handler of the server answers. Each server is a ``Listener`` with handlers of its own.

Invariant, with its test:

- A server counts a client's connection from its acceptance, and bounds the number of connections, for each client too,
  the time for a request, and the time for reading its answer. ``tests/bridge/http/test_listener.py``
"""
