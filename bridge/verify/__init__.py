"""`kubedelta verify`: a destination compared with the cluster.

cluster_view  the live objects
compare       differences between a destination and live objects (pure)
ignored       versions that differ in ignored paths alone
selected      the live objects that a sink with a selection has to have
verify        reads both sides until the differences are certain
"""
