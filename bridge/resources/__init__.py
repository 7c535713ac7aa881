"""Configured resource names on a cluster.

cluster_identity    the uid of the cluster
current_resources   the resources that are watched now
resolve             configured names into served resources (pure)
resource_change     the effect of other entries on a bridge that runs
selected_resources  the resources that entries of select mean (pure)
watched_resources   starts and stops informers as resources appear and vanish
"""
