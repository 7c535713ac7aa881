"""`kubedelta verify`: a destination compared with the cluster.

cluster_view   versions that differ in ignored paths alone; the live objects that a sink with a selection has to
               have; the live objects
compare        differences between a destination and live objects (pure)
verify         reads both sides until the differences are certain
"""
