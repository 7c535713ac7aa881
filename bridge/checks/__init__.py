"""Examines a configuration, its cluster and its destinations, and changes none of them: ``kubedelta check`` before a
start, ``kubedelta rbac``, and ``kubedelta verify`` while records are delivered. A bridge that runs is not affected.

check        makes all checks in their order: machine, cluster, resources, state, sinks; forecasts the next start
compare      differences between a destination and live objects
expressions  checks each entry of ``select``, and tries all expressions of sinks on the live objects
findings     the result of a check
machine      checks the state directory, its holder, its disk, and the listen address
noise        names the paths that change most often in the updates of some seconds
rights       the rights that a configuration needs in its cluster, as manifests, and which of them the bridge lacks
verify       reads a destination and the cluster until the differences are certain, and which of them are expected

Each check yields findings. ``verify`` reads the destination, lists the cluster, and compares. Both go on changing, so
an object that differs is a candidate, which is read again and again until it is certain. A list that fails is never
taken for an empty cluster: ``tests/bridge/checks/test_verify.py``.

Invariants, each with its tests:

- ``verify`` reports a difference only where the destination never reaches a state that the cluster had.
  ``tests/bridge/checks/test_compare.py``
- A right covers exactly the resources, namespaces and names that an entry asks for.
  ``tests/bridge/checks/test_rights.py``
"""
