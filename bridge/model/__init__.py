"""Values that all rooms share: what an object, a change and a record are, how records are encoded, and what a bridge
says of its own state.

Nothing here reads a clock, a file or the network, so every room may import these values, and every test can make them.
On the way of the data an `object` becomes a `change`, when an informer compares the object with the version that it
knows, and a change becomes a `record` of the log, which `formats` encode for the destinations, and read back.
`status`, `diagnosis` and `admin` are the answers to an operator.

admin        requests of the operator and their answers
answers      answers of the API server to a list or a watch
change       a change against the known version
diagnosis    what is wrong with a bridge, and what to do next
formats      CloudEvents, Debezium's envelope, rows and raw objects; what a stored record of any of these is about
object       identity and bytes of an object, without members that do not leave
policies     policies that the configuration chooses: start, full backlog, rejected record, redaction, election
primitives   general helpers: backoff, ring buffer, compression, printable text, shards
progress     how far a sink has come, as its destination stores it
record       a record of the log (delta, gap or snapshot notice), dead letters, the gap of each reason, terms
resource     resources and scopes, and kubectl's names for resources
selector     label and field selectors
status       state of informers, sinks and the election at a moment
versions     the order of resourceVersions, and the known versions of many objects in 64-byte rows
"""
