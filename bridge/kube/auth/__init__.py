"""Resolves the operator's settings into a connection to the API server: its address, the trusted authority, the proxy,
and our credentials.

A kubeconfig, or the pod's service account, gives a cluster and a user (``kubeconfig``); ``access`` makes a connection
of them, whose files are read again during a run (``connection``). A user authenticates by a client certificate in the
TLS handshake, or by a bearer token that each request carries (``credentials``), which a plugin may print
(``exec_plugin``).

access        finds the connection that an operator's settings describe
connection    holds that connection, with its TLS context and its proxy, and renews it when its files change
credentials   authenticates requests by bearer tokens that change during a run
exec_plugin   runs credential plugins (client.authentication.k8s.io), with bounds on their time and output
kubeconfig    reads and merges kubeconfig files with bounds, and chooses a context

No error and no ``repr`` holds a token, a key or a password.
"""
