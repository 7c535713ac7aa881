"""A sink's way through the log.

backfill         a snapshot, compacted backlog, gap or replay in front of the log: its items and its progress
backfill_plans   the records that become items of a compacted or dropped backlog
beginnings       the cursor of a new sink, and the backfill with which it begins
compaction       the newest record of each object in a backlog (pure); bounds of a backlog, and the records to drop
                 above them (pure)
cursors          how far each sink has settled
judged           records of the log, judged by the present selection of a sink
notice_items     the objects that a gap or a snapshot of a backfill is about
own_log          the records in the log that a sink gets, counted, and the sizes of backlogs
replays          the records of a replay, and the objects of a snapshot on demand
selections       the bit of each sink with a selection, and its entries
"""
