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

Invariants, each with its test:

- Every sink keeps the promise of ``base``: the same examination holds for all. ``tests/contracts/test_every_sink.py``
- An answer brings no credentials back. Refusals that are kept pass ``excerpt``: a bounded part, without our secret
  headers, keys, signatures and URL however quoted, and without control characters. The excerpt is in the dead letter,
  and in no log. ``tests/sinks/test_excerpt.py``
"""
