"""Distribution of records to the sinks.

shared_processor   the log that listeners read, and their errors; a bounded look at what is distributed; distributes
                   to every listener without waiting for any; a listener's bounded window over the log

Invariant, with its tests:

- A listener never delays another listener. ``distribute`` does not wait; records beyond a listener's window are read
  from the log. ``tests/bridge/processor/test_shared_processor.py``,
  ``tests/scenarios/test_a_stuck_sink_holds_nobody_up.py``
"""
