"""Tells operators of a running bridge: rooms report facts, and observers here make metrics and log lines of them.

fact_log    decides which lines facts write: throttles repeated failures, and remembers states
facts       the facts: values that rooms report, each with its log line and the metrics that it moves
logs        the observer that writes log lines, and the stream that they share with those of libraries
metrics     the observer that counts, the gauges of a BridgeStatus, and the registry with its text form
observers   passes each fact to every observer

A room calls ``Report`` with a fact. ``Telemetry`` passes it to each observer in order: ``Metrics`` moves the series
that the fact yields, and ``Logs`` has the fact write its lines. Neither of them names a fact, but for the few by which
resources and sinks come and go. State that is no event, such as a backlog, is read from a BridgeStatus at each
scrape, and is not counted on the way of a change.

Invariants, each with its tests:

- An observer that raises stops neither the bridge nor another observer. ``tests/bridge/telemetry/test_observers.py``
- Every fact is counted or is a state, and every fact has a log line at some level.
  ``tests/bridge/telemetry/test_metrics.py::test_every_fact_there_is_is_tried_here``,
  ``tests/bridge/telemetry/test_logs.py::test_every_fact_is_reported_at_some_level``
- Labels come from the configuration and from closed sets, and the series of a resource or sink go with it.
  ``tests/bridge/telemetry/test_metrics.py``
- A failure that repeats, of whatever reasons, fills neither the log nor the memory.
  ``tests/bridge/telemetry/test_fact_log.py``
- No line has a credential, a variable of a traceback, or a control character of a server.
  ``tests/bridge/telemetry/test_logs.py``
"""
