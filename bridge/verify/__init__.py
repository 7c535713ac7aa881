"""`kubedelta verify`: a destination compared with the cluster.

compare   differences between a destination and live objects (pure)
verify    reads both sides until the differences are certain
"""
