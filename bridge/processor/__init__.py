"""Distribution of records to the sinks.

shared_processor   listeners with bounded windows over a log, and the taps of people who watch

The outbox calls ``distribute`` with each batch once it is durable, in the order of the log. The processor offers the
batch, by reference, to the listener of every sink, and to the taps that are open at the moment. A sink takes from its
listener at its own pace: from the window in memory while it keeps up, and from the log once it has fallen behind.

Invariant, with its tests:

- A listener never delays another listener. ``distribute`` does not wait; records beyond a listener's window are read
  from the log. ``tests/bridge/processor/test_shared_processor.py``,
  ``tests/scenarios/test_a_stuck_sink_holds_nobody_up.py``
"""
