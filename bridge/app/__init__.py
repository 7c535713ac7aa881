"""The composition root. It joins the rooms and holds no logic of its own.

bridge              chooses the exception with which a run ends; what a replica that follows answers to its operator;
                    opens the connection and the outbox, runs the rooms on them, and closes both
departures          counts the objects that a change would export as deleted
live_change         foresees a change, and carries it out in the running rooms
operators           where operators reach the process: the control socket, and the page
profiling           CPU time of a run, by stage
reloader            notices that the file changed, also behind the symbolic links of a ConfigMap; reads the file when
                    it changed or somebody asks, and accepts or refuses the change
running             /readyz over a change of the configuration; collects the state of every informer and sink for
                    /readyz and the gauges; builds the rooms, runs them in one task group, and ends them in order
tracing             spans of the batches of a run, for a collector
watched_resources   starts and stops informers as resources appear and vanish

Puts a changed configuration file into effect while the bridge runs.

A reload takes the way of a start, and touches the parts that change. The outbox owns cursors: a sink that changes is
saved and read again from the database in one transaction (``SinkRegistration``), and records that it had taken and not
settled come again, as after a crash. Its worker ends first, and has the grace period for the records in flight, unless
its destination fails anyway. ``resources`` own informers: one whose scopes or rules change is released behind its last
change, and another begins at the ledger's checkpoint, by the code that a start runs. Selections move objects that
informers know, so a change of a selection releases all informers for the time of the difference; each watch goes on at
its position.

To build all rooms anew in the process would be simpler, and would repeat the records in flight of every sink for the
change of a single one. To change scopes, members and views in running informers would need a second way for each, and a
lock on the way of every delta.

A reload is refused rather than guessed. A start exports deletes for objects that left the configuration, however many;
a file that is watched may be half of what its author meant. So the deletes are counted before anything changes, from
the ledger, and for selectors from the names that the server chooses. More than 1,000 need ``kubedelta reload
--allow-deletes N``: the operator confirms a number and not a file, so the command has no state, and a larger number is
refused again.
"""
