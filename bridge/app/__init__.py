"""The composition root: it builds the rooms of a bridge from a plan, joins them, runs them in one task group, and ends
them in order. While they run, it puts a changed configuration into effect, and operators act on them: with commands on
a socket, and on a page.

admin               commands for a running bridge over its socket, and for the state of a stopped one
bridge              a run: opens the connection and the outbox, runs the rooms on them, and closes both
endpoints           HTTP for machines: /metrics, /healthz, /readyz
live_change         foresees a change, and carries it out in the running rooms
operators           opens the control socket, and the page
page                the page for people
profiling           CPU time of a run, by stage
reloader            notices that the file changed, reads it, and accepts or refuses the change
running             the rooms on an open outbox: begins and ends them, and collects their state
stages              the functions on the way of a change at which a profile and a trace take times
tracing             spans of the batches of a run, for a collector
watched_resources   starts and stops informers as resources appear and vanish

``Bridge`` decides when this replica leads. Then it opens the connection and the outbox, and ``RunningBridge`` joins the
path of a change: the factory makes informers with the transform of their resource, an informer hands its batch to the
exporter, which commits it to the outbox, and the processor passes it on to the sinks. ``WatchedResources`` follow
discovery and decide which informers there are. No rule about a change of an object lives here.

**A reload** takes the way of a start, and touches the parts that change. The outbox owns cursors: a sink that changes
is saved and read again from the database in one transaction (``SinkCursors.begin``), and records that it had taken and
not settled come again, as after a crash. Its worker ends first, and has the grace period for the records in flight,
unless its destination fails anyway. ``resources`` own informers: one whose scopes or rules change is released behind
its last change, and another begins at the ledger's checkpoint, by the code that a start runs. Selections move objects
that informers know, so a change of a selection releases all informers for the time of the difference; each watch goes
on at its position.

To build all rooms anew in the process would be simpler, and would repeat the records in flight of every sink for the
change of a single one. To change scopes, members and views in running informers would need a second way for each, and a
lock on the way of every delta.

A reload is refused rather than guessed. A start exports deletes for objects that left the configuration, however many;
a file that is watched may be half of what its author meant. So the deletes are counted before anything changes, from
the ledger, and for selectors from the names that the server chooses. More than 1,000 need ``kubedelta reload
--allow-deletes N``: the operator confirms a number and not a file, so the command has no state, and a larger number is
refused again.

Invariants, each with its tests:

- A change of the configuration takes effect as a whole, or is refused as a whole with every reason.
  ``tests/bridge/app/test_refusals.py``
- A reload interrupts only the sinks and informers that it changes. ``tests/bridge/app/test_reload.py``
- Ready needs both: HasSynced, which is latched once the first list is processed, and live, which means that a watch is
  open; and an intake that is not blocked. ``tests/bridge/model/test_status.py``
- A command on a running bridge takes effect at once; on the files of a stopped one, at its next start.
  ``tests/bridge/app/admin/test_operations.py``
- Only the bridge's user (and root) can open the socket. ``tests/bridge/app/admin/test_server.py``
- Without a token the page changes nothing, and with one nobody without it gets any data.
  ``tests/bridge/app/page/test_access.py``
- A bridge that was ready stays ready over a change. ``tests/bridge/app/test_steady_readiness.py``
- Where a definition comes back with another scope, or a short name has a new meaning, informers begin as at a restart.
  ``tests/bridge/app/test_divided_anew.py``
"""
