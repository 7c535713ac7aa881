"""Recovers the steps that a lost watch did not announce, from the API server's history.

``recovery`` gets a batch with the differences that a list has shown. For each of them ``walk`` says which version of
the object to request next, ``exact_lists`` requests it within the bounds of the list, and the steps that were found
take their place in front of the difference.

exact_lists   lists objects at exact versions, within the bounds of a list and of all informers
recovery      recovers the steps behind the differences of a batch
walk          finds an object's steps from the listed state back to its known one, and puts them into the batch

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
