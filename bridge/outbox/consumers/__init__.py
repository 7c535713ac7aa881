"""A sink's way through the log.

cursors          how far each sink has settled
beginnings       the cursor of a new sink, and the backfill with which it begins
backfill         a snapshot, compacted backlog, gap or replay in front of the log: its items and its progress
backfill_plans   the records that become items of a compacted or dropped backlog
replays          the records of a replay, and the objects of a snapshot on demand
notice_items     the objects that a gap or a snapshot of a backfill is about
compaction       the newest record of each object in a backlog, and how much of a backlog beyond its bounds to drop
selections       the bit of each sink with a selection, and its entries
judged           records of the log, judged by the present selection of a sink
own_log          the records in the log that a sink gets, counted, and the sizes of backlogs

A sink begins with a cursor (``beginnings``) and goes through the log as it settles records (``cursors``). Whatever it
gets in another way than from the log (a snapshot, the rest of a backlog that was compacted or dropped, a replay) is
planned as items of one ``backfill``, which lies in front of the log and survives a crash. A sink with a selection skips
the records of the log whose bits (``selections``) do not name it.
"""
