"""What changed, against what was known: Reflector → DeltaFIFO → Controller → Indexer.

reflector        decides on list and watch answers (pure)
pacing           decides how long to wait before the next request (pure)
list_limiter     how many of them list at the same time
proof            what an answer proves of the server's history (pure)
history          proves it, once for all informers of a server
watcher          makes the requests and fills the queue
delta_fifo       the queue: per key, deduplicated, bounded
handle_deltas    a queued delta against the known object (pure)
tombstones       which deletes were told (pure)
controller       the process loop, the Indexer's only writer
indexer, lister  what is known, and how to read it
shared_informer  one resource in one scope, with all of the above
handlers         who wants to know, where an informer is used as a library
factory          one informer for everybody who asks
"""

from bridge.informer.factory import NotSyncedInTime, SharedInformerFactory
from bridge.informer.indexer import by_label, by_name, by_namespace
from bridge.informer.lister import Lister
from bridge.informer.reflector.pacing import Timing
from bridge.informer.shared_informer import SharedInformer

__all__ = [
    "Lister",
    "NotSyncedInTime",
    "SharedInformer",
    "SharedInformerFactory",
    "Timing",
    "by_label",
    "by_name",
    "by_namespace",
]
