"""Values that all rooms share. No I/O, no clock.

admin        commands of the operator and their results
answers      answers of the API server to a list or a watch
change       a change against the known version
diagnosis    what is wrong with a bridge, and what to do next
formats      CloudEvents, Debezium's envelope, rows and raw objects
object       annotations that are copies of the object, or tokens; identity and bytes of one object
policies     policies that the configuration chooses: start, full backlog, rejected record, redaction
primitives   general helpers: backoff, ring buffer, compression, printable text, shards
record       a record of the log: delta, gap or snapshot notice; dead letters; the reasons for a Gap, and the gap of
             each
resource     resources and scopes; kubectl's names for resources, parsed
selector     label selectors
status       state of informers and sinks at one moment
versions     resourceVersions: their order, and what is known or stored of each object
"""
