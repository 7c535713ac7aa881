"""Keeps the known state of a resource in a scope, and delivers every change of it: client-go's shared informer.

The Reflector lists and watches, and puts the events into the DeltaFIFO. The Controller takes them out in batches,
compares them with the Indexer, which has the known version of each object, and delivers the differences as changes. A
watch that cannot be resumed is followed by a list, whose differences to the known versions are changes too;
``recovery`` looks for the steps between, and ``history`` proves before that the list and the known versions are of one
history.

As a library: SharedInformerFactory makes informers with handlers and listers, as in client-go; a DeltaFIFO works alone,
with ``add``, ``update``, ``delete``, ``replace`` and ``pop``.

controller        compares queued deltas with the known versions, and is the only writer of the Indexer
delta_fifo        queues deltas between Reflector and Controller: per key, deduplicated, bounded
deltas            defines the entries of the DeltaFIFO
factory           shares an informer among all users of a resource and scope
handlers          runs the event handlers of an informer that is used as a library
history           proves that the API server still has the known history
indexer           stores the known versions with their indices, for the Controller and for readers
recovery          finds the steps that a lost watch did not announce
reflector         lists and watches
shared_informer   joins all of these into the informer of a resource in a scope

Invariants, each with its test:

- A version is exported once. The Controller compares uid and resourceVersion with the Indexer, which begins as the
  ledger; an unchanged object of a relist is no change. A repeated delete is recognized by its version, which the
  position has passed; without a position, by the last 500 deletes. The id of a change (``uid/resourceVersion/op``)
  depends on the change only. ``tests/bridge/informer/test_controller.py``
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
