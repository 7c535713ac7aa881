"""The plan of a bridge: its configuration in the types of the other rooms, and its meaning on a cluster.

cluster_identity     identifies the cluster by a uid, and compares it with that in the state
cluster_view         lists the live objects of a cluster, completely or not at all
difference           compares two configurations: the part that a running bridge can put into effect, and the rest
entries              the resources of a cluster that the entries of ``resources`` and ``select`` mean
keys                 reads and makes files with keys: those of redaction, and those of the content of the state
plan                 the plan: its types, with the names that the cluster has not resolved yet; the watched ones
plan_from_settings   makes the plan from the settings, with the shard that this bridge has
preflight            finds mistakes that no retry can mend, before anything is watched
private_file         writes small files that nobody else may read

``plan_of`` turns validated settings into a ``Plan``, without any network; ``demo`` writes its plan in code.
``preflight`` asks everything that can be asked without the cluster, so that a configuration that can never work ends
the start. Then the cluster is identified, discovered, and each configured name resolved: an object has a single entry,
and a name that the cluster does not serve yet waits for a later discovery. A reload goes the same way:
``difference`` compares the settings, and ``entries.foresee`` says of other entries which informers end and begin.
"""
