"""Changes against the known versions: Reflector → DeltaFIFO → Controller → Indexer.

As a library: SharedInformerFactory makes informers with handlers and listers, as in client-go; a DeltaFIFO works alone,
with ``add``, ``update``, ``delete``, ``replace`` and ``pop``.

controller        the newest exported deletes (pure); updates that change only ignored paths (pure); compares queued
                  deltas with the known versions; the only writer of the Indexer (pure)
delta_fifo        the queue between Reflector and Controller: per key, deduplicated, bounded
deltas            an entry of the DeltaFIFO
factory           shares an informer among all users of a resource and scope
handlers          event handlers of an informer that is used as a library
history           proves that the API server still has the known history
indexer           the store: known versions and indexes; read access to the store
recovery          finds the steps that a lost watch did not announce
reflector         lists and watches
shared_informer   periodic resyncs; the status of an informer; all of the above, for a resource in a scope

Invariants, each with its test:

- A version is exported once. The Controller compares uid and resourceVersion with the Indexer, which begins as the
  ledger; an unchanged object of a relist is no change. A repeated delete is recognized by its version, which the
  position has passed; without a position, by the last 500 deletes. The id of a change (``uid/resourceVersion/op``)
  depends on the change only. ``tests/bridge/informer/test_controller.py``, ``tests/bridge/informer/test_tombstones.py``
- Known and requested state belong to one history. After a start, and after a watch that ended otherwise than by its own
  timeout, watches and lists wait until the server's history is proven to be the known one (``history``). In another
  history all informers of that server begin a new epoch and compare states, and all of them lose their old positions
  before any of them exports a change. ``tests/bridge/informer/test_history.py``, ``tests/properties/test_restores.py``,
  ``tests/scenarios/test_a_cluster_restored_from_a_backup.py``
"""

from bridge.informer.delta_fifo import DeltaFIFO
from bridge.informer.deltas import FifoClosed
from bridge.informer.factory import NotSyncedInTime, SharedInformerFactory
from bridge.informer.indexer import Lister, by_label, by_name, by_namespace
from bridge.informer.recovery.exact_lists import RecoveryLimits, RecoverySlots
from bridge.informer.reflector.pacing import Timing
from bridge.informer.shared_informer import SharedInformer

__all__ = [
    "DeltaFIFO",
    "FifoClosed",
    "Lister",
    "NotSyncedInTime",
    "RecoveryLimits",
    "RecoverySlots",
    "SharedInformer",
    "SharedInformerFactory",
    "Timing",
    "by_label",
    "by_name",
    "by_namespace",
]
