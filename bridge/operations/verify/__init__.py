"""`kubedelta verify`: a destination compared with the cluster. It changes neither.

compare    differences between a destination and live objects
expected   which live objects the destination has to have
verify     reads both sides until the differences are certain

``verify`` reads the destination, lists the cluster, and compares. Both go on changing, so an object that differs is a
candidate, which is read again and again until it is certain. A list that fails is never taken for an empty cluster:
``tests/bridge/operations/verify/test_verify.py``.
"""
