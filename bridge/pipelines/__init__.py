"""From an informer into the outbox, and from the outbox to each sink's worker.

awareness       a sink's saved memory and the watched resources, handed to sinks that ask for them
backpressure    keeps each backlog within its bounds
exporter        appends an informer's batch to the outbox
feeds           joins the outbox, the processor and the feeds
sink_feed       the records of one sink in order: the log, with backfills in between
sink_pipeline   a feed and the worker that delivers it
"""
