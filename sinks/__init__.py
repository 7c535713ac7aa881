"""Sinks bring records to their destinations: a folder for each kind of destination, and beside the folders what they
share. Every sink keeps the promise of ``base``, which has all names that an author of a sink needs; only ``registry``
knows which sinks there are.

base           the promise that every sink keeps, and all names that an author of a sink needs
channels       says where a sink sends which messages, with their schemas
excerpt        cuts a safe excerpt out of a destination's answer
file           lines of JSON in a file or a pipe
gaps           names the newest gap in later envelopes
kafka          records of Kafka topics
keys           reads keys of Standard Webhooks, and signs requests and seals with them
nats           messages of a JetStream stream
options        declares options that sinks have in common
reader         the promise of those who read a destination again
receipt        the result of a delivery, the errors of a sink, and the rule about rejected records
registry       finds the types of sinks, those of other packages too
secret_files   reads secrets and certificates from files, and again when they change
state          delivers the newest form of each object beside the history
template       makes names of topics and subjects
webhook        HTTP requests to an endpoint

A worker of the bridge hands a batch of records to ``deliver`` and gets a ``Receipt``: stored, pending and rejected
records. A sink encodes each record (``encode``), sends what it may (``delivery``, through a ``connection`` or a
``producer``), and collects the results in a ``BatchResult``, which keeps the promised order. Waiting, retrying,
counting and logging are the work of the bridge (``bridge.delivery``).

The folders have the same modules, as far as the destination needs them: ``options``, ``encode``, ``connection`` (or
``producer``), ``delivery``, ``sink``, ``reader``. The ``__init__`` of a folder declares the type and
imports no client library: a library is loaded when a sink of its type is made.

Invariants, each with its test:

- Every sink keeps the promise of ``base``: the same examination holds for all. ``tests/contracts/test_every_sink.py``
- An answer brings no credentials back. Refusals that are kept pass ``excerpt``: a bounded part, without our secret
  headers, keys, signatures and URL however quoted, and without control characters. The excerpt is in the dead letter,
  and in no log. ``tests/sinks/test_excerpt.py``
"""
