"""From an informer into the outbox, and from the outbox to each sink's worker.

backpressure    keeps each backlog within its bounds
content_thread  makes the content of records, in a thread where that takes long
exporter        appends an informer's batch to the outbox
feeds           joins the outbox, the processor and the feeds
judging         judges records of the log by the present selection of a sink
live_tail       shows what is committed to people who watch
running_sinks   begins and ends the pipelines of the configured sinks
select_meaning  the meaning of a sink's `select` on a cluster
selecting       puts the sinks' selections into effect, and exports the difference
sink_feed       the records of one sink in order: the log, with backfills in between
sink_pipeline   creates a sink, its feed and the worker that delivers to it
sink_view       the records of the log as a sink with a selection gets them
snapshots       snapshots on demand and by schedule

An informer's batch goes through ``Exporter`` into the outbox, whose commit distributes the records to the listener of
every sink. A sink's ``SinkFeed`` reads its listener and, in front of the log, its backfills; ``sink_view`` makes of
each record the one that a sink with a selection gets; and a worker of ``delivery`` takes from the feed and settles
there. Beside this way stand those who change it: ``Backpressure`` compacts or drops a backlog, or stops the intake, and
``Selecting`` and ``Snapshots`` append or plan records for a single sink.
"""
