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
"""
