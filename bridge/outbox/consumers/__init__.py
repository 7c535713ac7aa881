"""A sink's way through the log.

backfills      records outside the order of the log: snapshot, compacted backlog, replay, gap
backlog        bounds of a backlog, and what retention allows to leave (pure)
compaction     the newest record of each object in a backlog (pure)
cursors        how far each sink has settled
dead_letters   rejected and parked records
sink_cursors   cursor, backfill and dead letters of every sink
"""
