"""Observers of facts: metrics and log lines.

counters        counters between the API server and the outbox; counters between the outbox and the destinations;
                counters of the database, of the state, of the election and of traces
facts           what happens in the rooms, as values that observers get
gauges          gauges of a status snapshot
log_lines       facts of the process and of the election as log lines; facts of sinks as log lines; facts of the
                state as log lines
log_stream      one stream of log lines, with the libraries' lines
logs            facts of resources as log lines
metrics         the registry, and its text form
observers       passes each fact to every observer
throttled_log   the bridge's logger; logs a repeated failure every half minute
"""
