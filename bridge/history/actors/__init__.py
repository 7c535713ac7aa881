"""Tells who made the changes: reads the API server's audit log, and writes a record for each request that changed an
object, with the object's partition key.

A delta says what happened, and cannot say who did it: the API server tells that to its audit log alone, and up to half
a minute later. So deltas never wait for it. ``kubedelta actors`` is a process of its own beside the bridge, and readers
of both put them together.

    a source of the reader library: the log through its rotations, a topic ──▶ audit ──▶ actor_log
    or posts of the API server (collecting)                                ──▶           durable, with the position

audit       what an audit event says: the request, the object, and by what its step is found
actor_log   writes the actors, and how far the audit log was read
collecting  from a source to the file; takes posts of --audit-webhook-config-file
joining     decides which request made each step of an object, and how exactly that is known

Invariants, each with its test:

- Of a body, the uid and the resourceVersion are read, and nothing is kept.
  ``tests/bridge/history/actors/test_audit.py``
- A killed process goes on behind the last actors that are durable: an actor may come again with the same id, and none
  is missing. A post is answered when its actors are durable. ``tests/bridge/history/actors/test_collecting.py``
- No step has two requests, and a request that is said to have made a step did. The shares of each ``Join`` on a real
  API server are printed. ``tests/bridge/history/actors/test_on_a_real_server.py``

How it fails: where files of the audit log go before they are read, the end of the command says so and it exits 1. What
no request made (an Event that expires, a node that a controller of the API server itself changes) has no actor. A
compressed part may unpack to a thousand times its size: its memory is bounded, by the longest line that is read (64
MiB, in a few copies), and its time is not. Whoever can write such a part, in the API server's own folder, can also
forge events or remove them, and holds up this process alone.
"""
