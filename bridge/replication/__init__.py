"""Lets several replicas of a bridge take turns: a follower has a copy of the leader's database, and a takeover is a
restart on it.

The state of a bridge is one SQLite file, and one function writes to it. So a replica that has the file as it was behind
the last transaction that any destination can know of goes on exactly as the leader would after a restart. Nothing else
of the bridge knows of several replicas.

`replica` is the loop of a process. Its `elector` holds the Lease, or waits for it, as `deciding` says; meanwhile the
replica follows (`following`), or leads, which is to run the bridge with a `serving.Replicator` behind the outbox.

How a commit goes through the room::

    outbox.writer ── COMMIT ──▶ outbox.commits.Capture: its number and its patchset
        │                                  │ Frame
        │ finish                           ▼
        └──◀── in_sync: replicated ◀── serving.Replicator ──▶ wire ──▶ following.StateFollower ──▶ outbox.copied_state
                                           ▲                                  │
                                           └────────── Acknowledged ──────────┘

deciding    decides the steps of an election
elector     reads, watches and writes the Lease, and runs the holder's work
following   the follower: connects, applies, acknowledges
identity    how both know each other, and who had the state directory before
in_sync     decides who is in sync, and how far deliveries may go
lease       the Lease: its values, and the objects that an elector writes
replica     the loop: follow, lead, follow
serving     the leader: frames, base copies, and when a transaction is done
wire        the messages between both

Invariants, each with its test:

- Two replicas never deliver at the same time. A holder stops at a deadline, counted from the start of its last renewal;
  another waits longer, from the last change that it saw. ``tests/properties/test_election.py``
- A transaction counts as done, and its records are delivered, when every replica that the Lease may name has it. So
  whoever is on the Lease's list has all that any destination can have seen.
  ``tests/bridge/replication/test_in_sync.py``
- A replica is taken off the list in the Lease *before* the leader goes on without it.
  ``tests/bridge/replication/test_in_sync.py``, ``tests/bridge/replication/test_copies.py``
- A commit number means one thing within a term. A term has one leader, and begins with a commit of its own before
  anything else is written. Its random mark tells it from another of the same number, which an API server that is
  restored from a backup makes possible. A state with another history than the leader's gets a base copy, whatever it
  has.
  ``tests/bridge/replication/test_copies.py``

How it fails: a follower that is slow, full or cut off holds deliveries up for ``patience`` seconds and a write of the
Lease, and follows again when it can. A leader that cannot write the Lease waits, until it is no leader any more. Who
has neither the redaction key nor the right to write the Lease can open some connections; who can write the Lease can
keep all replicas from leading, and neither reads nor changes what they have.

Why a copy. Replicas that watch for themselves, each with a log of its own, have to prove which of their records the
leader's correspond to, and everything that hangs on a record (a dead letter, a pause, a snapshot, a changed selection,
the progress of a transaction) needs another rule between replicas. With the leader's database a takeover goes the way
of a restart, which is the best-tested one. PostgreSQL's synchronous replication, and Kafka's in-sync replicas with
leader epochs (KIP-101), have this shape. Copied files of the write-ahead log (Litestream) are larger than patchsets,
and bind both sides to one checkpoint; a common database or a replicated log is a further system to run; a follower that
copies afterwards, without deliveries that wait for it, loses its last second. Without a follower in sync the leader
goes on alone, since most operators would rather have changes than wait. The price: an acknowledgement in front of each
delivery, up to a second of waiting for a follower that hangs, a base copy where tables change, and a takeover that says
what it may lack where no follower was in sync.
"""
