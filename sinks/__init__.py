"""Sinks. Each has the same modules: options, encode, connection (or producer), delivery, sink, readback, examine.

base          the promise that every sink keeps, and all names that an author of a sink needs
errors        SinkUnavailable, NotLeading, WrongOption
options       options that sinks have in common
channels      where a sink sends which messages, with their schemas
receipt       the result of a delivery; no record behind a rejected record
gaps          names the newest gap in later envelopes
state         the newest form of each object, beside the history
secret_files  secrets in files
excerpt       an excerpt of a destination's answer
template      names of topics and subjects
tls           TLS contexts
registry      the types of sinks
kafka         records of Kafka topics
nats          messages of a JetStream stream
webhook       HTTP requests to an endpoint
file          lines of JSON in a file or a pipe
"""
