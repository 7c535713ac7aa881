"""The event bridge, from the API server's bytes to the sinks.

admin        commands of the operator on a running bridge, or on the files of one that does not run
app          the composition root: builds the rooms, runs them, ends them in order
check        `kubedelta check`: this machine, the cluster, the sinks, and a forecast of the next start
cli          the `kubedelta` command
content      data and texts that expressions in the options of sinks make of objects
delivery     one worker for each sink: fetch, deliver, retry, add dead letters, settle
facts        records of events inside the bridge, for telemetry
informer     Reflector, DeltaFIFO, Controller, Indexer: what changed against the known version
kube         HTTP, credentials, discovery, and the bytes of lists and watches
model        values that all rooms share
outbox       the SQLite state: log, ledger, positions, cursors, dead letters
page         the web page for people
pipelines    from an informer into the outbox, and from the outbox to each sink's worker
plan         the work of a bridge in the types of its rooms, made from the settings
playground   an API server inside the process, for `demo` and for tests
processor    distribution to every listener by reference
profiling    CPU time by stage, for `--profile-stages`
reload       a changed configuration in a running bridge
replication  several replicas: the leader by a Lease, and copies of its state
resources    configured resource names, resolved and followed on the cluster
rights       the rights that a configuration needs in its cluster, as roles
selection    the objects and steps that a sink gets
telemetry    facts as metrics and log lines
tracing      traces of batches, for `tracing`
transform    stripping and redaction of objects
verify       `kubedelta verify`: a destination compared with the cluster
web          /metrics, /healthz and /readyz
"""
