"""A sink's way through the log.

sink_cursors          cursor, backfill and backlog of every sink; sinks that come and go while the bridge runs
cursors               how far a sink has settled
backfill              a snapshot, compacted backlog, gap or replay in front of the log: its items and its progress
backfill_plans        the records that become items of a backfill
snapshot_plans        snapshots on demand
compaction            the newest record of each object in a backlog, and how much of a backlog beyond its bounds to drop
backlogs              the size of each sink's backlog, and the records in the log that a sink with a selection gets
selections            which objects each sink has, and the difference that a changed selection makes
dead_letters          rejected and parked records of a sink
destination_progress  progress that a destination stores with the records, recognised after a restart

A sink begins with a cursor and goes through the log as it settles records. Whatever it gets in another way than from
the log (a snapshot, the rest of a backlog that was compacted or dropped, a replay) is planned as items of one
``backfill``, which lies in front of the log and survives a crash. A sink with a selection skips the records of the log
whose bits (``selections``) do not name it. A record that the destination rejects is a dead letter; from then on the log
does not need it.
"""
