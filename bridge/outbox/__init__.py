"""The state on disk: every record until all sinks have settled it, the ledger of objects, positions and cursors.

outbox         the interface for the other rooms
opening        takes the directory, opens the database or replaces a damaged one, and reads the state
appender       a batch of changes into records, ledger and position in one transaction
ledger         the last exported state of every object, and the informer that has the object
store          one writer, readers with short transactions, bodies by sequence number
writer         the writer thread with group commit
maintenance    the log in memory, its trimming and cleaning
sink_cursors   cursor, backfill and dead letters of every sink
registration   sinks that come and go while the bridge runs
selections     the sinks' selections, and the difference that a changed selection makes
snapshots      snapshots on demand
dead_letters   rejected and parked records of a sink
progress       progress that a destination stores with the records, recognised after a restart
commits        write transactions as data, for other replicas
copied_state   a copy of the whole database for another replica, and the database of a replica that follows
errors         exceptions of this room
log            SQL and decisions for records and ledger: encoding, cleaning
consumers      SQL and decisions for each sink: its cursor, backfills, compaction
letters        SQL of dead letters
storage        the database and the files of the state directory
encryption     encryption of objects' content, and its keys
checks         integrity of a database, and the state of another process

``Outbox.open`` takes the directory (``opening``). From then on, an informer's batch goes through ``appender``, which
numbers its records, and ``writer``, which commits log, ledger and position together; only then are the records
distributed. A sink that falls behind reads them with ``Outbox.read``, or as items of a backfill. Twice a second (once
while no record comes), ``Outbox.maintain`` saves the cursors, trims the log behind all of them, and lets the cleaner
(``maintenance``) remove records that no sink and no object needs. ``log``, ``consumers`` and ``letters`` hold the SQL
and the decisions, mostly as functions on a connection; the modules beside the folders run on the event loop, and hand
such functions to the writer or to a reader.

Log, ledger, positions and cursors are one database, because they change in one transaction. Segment files append twice
as fast, but every tool of this field with a file format of its own took years to stop losing data, each time because
two files that were saved separately disagreed. LMDB needs its size in advance, and never shrinks.

Invariants, each with its test:

- The ledger has exactly the exported objects, each from its first record to its ``deleted``, with the number of the
  record that has its last state; that record stays as long as the object does. An object exists while a row names an
  informer for it and no other row replaces that row (``ledger_sql.PRESENT``). The informer's own store names the
  replaced record (``Change.before``), so the ledger is never searched for that. ``tests/bridge/outbox/test_ledger.py``,
  ``tests/properties/test_outbox.py``
- A possible delivery counts as a delivery. Compaction leaves out the ``added`` of an object that came and went only if
  the sink cannot have received it: not handed out in this run, and not in the log when this run began.
  ``tests/properties/test_compaction.py``
- A pause outlasts the process: it is in the cursor's row, and a crash resumes no sink.
  ``tests/bridge/operations/admin/test_operations.py``
- Order and age never depend on the wall clock: order is the sequence, and ages are counted while the bridge runs.
  ``tests/bridge/outbox/test_room.py``
"""

from bridge.outbox.appender import utc_now
from bridge.outbox.checks.inspection import LedgerObject, StateInspection, look_at
from bridge.outbox.commits import Capture
from bridge.outbox.consumers.backfill import Backfill
from bridge.outbox.consumers.compaction import why_full
from bridge.outbox.consumers.cursors import SinkCursor
from bridge.outbox.consumers.judged import JudgedRecords
from bridge.outbox.consumers.replays import condition
from bridge.outbox.consumers.selections import EVERYTHING, StoredSelection
from bridge.outbox.copied_state import BaseCopy
from bridge.outbox.dead_letters import DeadLetters
from bridge.outbox.encryption.cipher import OPTION as KEY_FILES_OPTION
from bridge.outbox.encryption.cipher import Cipher, EncryptionKey
from bridge.outbox.errors import Damaged, OtherCluster, OtherShard, StateError, StateUnusable, UnknownFormat
from bridge.outbox.ledger import Ledger
from bridge.outbox.log.cleaner import CleanerPolicy
from bridge.outbox.log.ledger_sql import covering
from bridge.outbox.log.sparse_index import Retention
from bridge.outbox.log.statements import Decide
from bridge.outbox.log.turns import Turns
from bridge.outbox.opening import number_of_now
from bridge.outbox.outbox import Outbox
from bridge.outbox.selections import LastState, Moved, Selections
from bridge.outbox.sink_cursors import SinkCursors
from bridge.outbox.snapshots import Snapshots
from bridge.outbox.storage.directory_lock import FILE, is_held, unusable
from bridge.outbox.storage.shard_file import found_in

__all__ = [
    "EVERYTHING",
    "FILE",
    "KEY_FILES_OPTION",
    "Backfill",
    "BaseCopy",
    "Capture",
    "Cipher",
    "CleanerPolicy",
    "Damaged",
    "DeadLetters",
    "Decide",
    "EncryptionKey",
    "JudgedRecords",
    "LastState",
    "Ledger",
    "LedgerObject",
    "Moved",
    "OtherCluster",
    "OtherShard",
    "Outbox",
    "Retention",
    "Selections",
    "SinkCursor",
    "SinkCursors",
    "Snapshots",
    "StateError",
    "StateInspection",
    "StateUnusable",
    "StoredSelection",
    "Turns",
    "UnknownFormat",
    "condition",
    "covering",
    "found_in",
    "is_held",
    "look_at",
    "number_of_now",
    "unusable",
    "utc_now",
    "why_full",
]
