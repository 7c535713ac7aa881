"""Tells operators of a running bridge: rooms report facts, and observers here make metrics and log lines of them.

counters        counts facts of resources, sinks, the state and the election
facts           the facts, as values that rooms report and observers get
gauges          makes gauges of a status snapshot
log_lines       writes facts of the process, the election, sinks and the state as log lines
log_stream      joins the bridge's lines and those of libraries to one stream
logs            writes facts of resources as log lines, and passes the others on
metrics         the registry, and its text form
observers       passes each fact to every observer
throttled_log   the bridge's logger, which logs a repeated failure every half minute

A room calls ``Report`` with a fact. ``Telemetry`` passes it to each observer in order: ``Metrics`` counts, ``Logs``
writes a line or none. State that is no event, such as a backlog, is read from a StatusSnapshot at each scrape, and is
not counted on the way of a change.

Invariants, each with its tests:

- An observer that raises stops neither the bridge nor another observer. ``tests/bridge/telemetry/test_observers.py``
- Every fact is counted or is a state, and every fact has a log line at some level.
  ``tests/bridge/telemetry/test_metrics.py::test_every_fact_there_is_is_tried_here``,
  ``tests/bridge/telemetry/test_logs.py::test_every_fact_is_reported_at_some_level``
- Labels come from the configuration and from closed sets, and the series of a resource or sink go with it.
  ``tests/bridge/telemetry/test_metrics.py``
- A failure that repeats, of whatever reasons, fills neither the log nor the memory.
  ``tests/bridge/telemetry/test_throttled_log.py``
- No line has a credential, a variable of a traceback, or a control character of a server.
  ``tests/bridge/telemetry/test_logs.py``
"""
