"""The event bridge, from the API server's bytes to the sinks.

app           the composition root: builds the rooms, runs them, ends them in order; its probes, commands and page
checks        what is examined and not changed: a configuration before a start, its rights, a destination
cli           the `kubedelta` command
delivery      one worker for each sink: fetch, deliver, retry, add dead letters, settle
history       history in one file: every step of every object, all states at any time, and who made them
http          HTTP under every server: connections within bounds, and who may have an answer
informer      Reflector, DeltaFIFO, Controller, Indexer: what changed against the known version
kube          HTTP, credentials, discovery, and the bytes of lists and watches
model         values that all rooms share
outbox        the SQLite state: log, ledger, positions, cursors, dead letters
plan          the work of a bridge in the types of its rooms, made from the settings
playground    an API server inside the process, for `demo` and for tests
processor     distribution to every listener by reference
replication   several replicas: the leader by a Lease, and copies of its state
telemetry     facts as metrics and log lines
transform     stripping and redaction of objects
views         which objects, which steps and what form of them a sink gets: CEL, selections, content
"""
