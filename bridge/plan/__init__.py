"""The work of a bridge, in the types of its rooms.

cluster_identity     the uid of the cluster
current_resources    the resources that are watched now
difference           compares two configurations: the part that a running bridge can put into effect, and the rest
keys                 writes a small file of the state directory (mode 0600); reads a file with a key; loads the keys
                     of the content in the state directory; loads the key of redaction, or makes it
plan                 the plan
plan_from_settings   the shard of this bridge; makes the plan from the configuration
preflight            finds mistakes that no retry can mend, before anything is watched
resolve              configured names into served resources (pure); the resources that entries of select mean (pure);
                     the effect of other entries on a bridge that runs

Configured resource names on a cluster.
"""
