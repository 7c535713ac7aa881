"""Recovers the steps that a lost watch did not announce, from the API server's history.

exact_lists   the bounds of the requests of a list; the requests
recovery      the recovery of an informer
walk          the meaning of an answer (pure); the versions to look at for objects that came and went (pure); the way
              of an object back to its known version (pure); the objects to be walked back, and their steps as deltas
              (pure)

A watch cannot begin before the API server's watch cache (75 s, and nothing after a restart), but etcd answers lists at
any version until its compaction. So the steps that a lost watch did not announce come from lists of single objects at
exact versions, back from the listed state: a request for each step (``tests/scenarios/test_steps_come_back.py`` prints
its time). Whole lists at sampled versions would miss steps, and an exact list of a large collection is the request that
API servers fear most (kubernetes/kubernetes#138494); a watch on etcd needs other credentials, another encoding, and
passes the API server's authorization by.

The walk stands between the queue and the comparison with the store, so a batch is stored with all of its steps or with
none, and no id depends on the way in which a step was found: a delete has the version at which the object vanished, as
from a watch. A proof of the history waits for the walk, at most 20 s. Since a store might be restored during the walk,
its newest state is requested once more at the end: a backup is older than that state, or has all states before it.
Whoever may create an object chooses its name, so a refused request says nothing about the server until a harmless name
was refused as well.
"""
