"""Operators act on a bridge here, running or stopped, and look at its data: with commands on a socket, with checks
before a start, with a comparison of a destination, and on a page. (The option ``operations`` of a ``select`` is about
the ops of records.)

admin          commands for a running bridge over its socket, and for the state of a stopped one
check          ``kubedelta check``: reports mistakes before anything runs
cluster_view   lists the live objects of a cluster, completely or not at all
page           the page for people
rights         the rights that a configuration needs in its cluster, as manifests, and which of them the bridge lacks
verify         ``kubedelta verify``: compares a destination with the cluster

A running bridge opens ``admin`` and ``page``, which both call the same ``AdminOperations``. ``check``, ``verify`` and
``rights`` belong to commands with a process of their own: they read the cluster, the destinations and the state, and
deliver nothing.

Invariants, each with its tests:

- A command on a running bridge takes effect at once; on the files of a stopped one, at its next start.
  ``tests/bridge/operations/admin/test_operations.py``
- Only the bridge's user (and root) can open the socket. ``tests/bridge/operations/admin/test_server.py``
- Without a token the page changes nothing, and with one nobody without it gets any data.
  ``tests/bridge/operations/page/test_access.py``
- ``verify`` reports a difference only where the destination never reaches a state that the cluster had.
  ``tests/bridge/operations/verify/test_compare.py``
- A right covers exactly the resources, namespaces and names that an entry asks for.
  ``tests/bridge/operations/test_rights.py``
"""
