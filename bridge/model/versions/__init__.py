"""Versions of objects.

beyond              objects of which a destination has more than a frontier says
followed_record     a record that a destination holds, read for `tail`
frontier            how far each sink has settled each informer, in numbers that all replicas share
held                objects whose later records wait behind a dead letter
joining             the frontiers of shards whose objects another shard takes
leading             records as they leave under the leader of a term
progress            how far a sink has come, as its destination stores it
record_forms        the record in a line or a message, in any format
selection_frontier  by which entries of ``select`` a sink got its records
stored_version      a version that a destination holds, read back for `verify`
version             order of resourceVersions
version_table       known versions of many objects in 64-byte rows
"""
