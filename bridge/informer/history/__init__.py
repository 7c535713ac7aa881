"""Proves that an API server still has the known history, and that no backup was restored.

An informer asks as a Member. The History of its store makes one proof for all informers that ask at the same
time: it chooses members whose servers are asked, ``member`` requests lists from them, and ``proof`` draws the
conclusion from the answers.

history   proves the history of a store once, for all of its informers
member    asks a single member's server
proof     compares answers with the known history

A server that was restored from a backup, and has since passed the saved position, answers a watch as if nothing had
happened. So after a start, and after a broken connection, three questions are asked, once for all informers of a store
and with ``list`` alone: Is a consistent list at least as new as the position? Did the newest known object exist at its
version (``resourceVersionMatch=Exact``), with its uid and its state? And the newest known delete?

A restore may also come in the middle of the comparison that follows another restore, or between a proof and the watch
that builds on it. Then an id could be used for two contents, or the final state could be wrong: before the rules below,
in 45 of 3,000 seeds of ``tests/properties/test_restores.py``. The invariant: all versions that informers vouch for
belong to one history, and an informer exports one history in each epoch.

- An answer counts by its arrival: a page or an open watch is used within ``ASSURED`` seconds of another answer of the
  known history; otherwise a proof that begins after the arrival decides. The first page of a new informer is proven
  too, if another informer has known versions. A proof that is valid for seconds would not do: a restored API server may
  pass the position in that time.
- A proof belongs to the moment in which it begins, and only the informers that asked before share it. Queued deltas of
  all informers reach the Indexer first, for at most a second; then the proof is tried again later.
- A comparison proves its listed objects only, at once. The next page of a slow list needs no second list.
- A comparison that breaks off begins the list again, in a single page. If it began an epoch and has exported a part of
  it, another epoch begins for this informer. Without a restore no epoch begins.

The price is a further proof, of two requests with at most one object, where an API server needs longer than ``ASSURED``
between two answers. These cases stay open; the simulation excludes 1, 2 and 5:

- 1: between the newest known object or delete and the position there is no object to ask for. A cluster that was
  restored to a moment in that time, and changed before it passed the position, is taken for the same history.
- 2: the restored store has compacted the version of the newest known object before the proof, and has changed that
  object since.
- 3: the bridge itself ends between two restores, in the middle of a comparison. The next process cannot tell which of
  the known objects were exported in the current epoch, and continues in it.
- 4: the store is replaced in less than ``ASSURED`` seconds, without a broken connection.
- 5: the store is restored while a resource cannot be listed that alone has undone objects, and has passed its versions
  when it can be again: 13 of 11,600 seeds.
"""
