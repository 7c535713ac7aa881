"""Sinks. Each has the same modules: options, encode, connection (or producer), delivery, sink, readback, examine.

base           the promise that every sink keeps, and all names that an author of a sink needs
channels       where a sink sends which messages, with their schemas
excerpt        an excerpt of a destination's answer
file           lines of JSON in a file or a pipe
gaps           names the newest gap in later envelopes
kafka          records of Kafka topics
nats           messages of a JetStream stream
options        options that sinks have in common
receipt        SinkUnavailable, NotLeading, WrongOption; the result of a delivery; no record behind a rejected record
registry       the types of sinks
secret_files   secrets in files; TLS contexts
state          the newest form of each object, beside the history
template       names of topics and subjects
webhook        HTTP requests to an endpoint

Invariants, each with its test:

- Every sink keeps the promise of ``base``: the same examination holds for all. ``tests/contracts/test_every_sink.py``
- An answer brings no credentials back. Refusals that are kept pass ``excerpt``: a bounded part, without our secret
  headers, keys, signatures and URL however quoted, and without control characters. The excerpt is in the dead letter,
  and in no log. ``tests/sinks/test_excerpt.py``
"""
