"""The event bridge, from the API server's bytes to the sinks.

actors        who made the changes, by the audit log of the API server
app           the composition root: builds the rooms, runs them, ends them in order
cli           the `kubedelta` command
delivery      one worker for each sink: fetch, deliver, retry, add dead letters, settle
history       history in one file: every step of every object, and all states at any time
http          HTTP for machines: /metrics, /healthz, /readyz; and the listener under every server
informer      Reflector, DeltaFIFO, Controller, Indexer: what changed against the known version
kube          HTTP, credentials, discovery, and the bytes of lists and watches
model         values that all rooms share
operations    what operators do to a bridge and look at: commands on a socket, the page, check, verify, rights
outbox        the SQLite state: log, ledger, positions, cursors, dead letters
plan          the work of a bridge in the types of its rooms, made from the settings
playground    an API server inside the process, for `demo` and for tests
processor     distribution to every listener by reference
replication   several replicas: the leader by a Lease, and copies of its state
telemetry     facts as metrics and log lines
transform     stripping and redaction of objects
views         which objects, which steps and what form of them a sink gets: CEL, selections, content
"""
