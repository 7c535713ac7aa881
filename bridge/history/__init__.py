"""History in one file: every step of every object that a stream told, and the states of all objects at any time.

``kubedelta history build`` reads a stream and keeps it in a file of SQLite; ``history``, ``diff``, ``at`` and
``restore`` ask that file, and no cluster. What a record means is decided by ``kubedelta_reader`` alone: the room keeps
the steps that its ``Reader`` makes.

actors     who made the changes, by the API server's audit log
points     a time or a version in the past, as an operator writes it
bodies     states as packed texts, and the patches from each state back to the one before
tables     the file in SQL: its tables, how it is opened, and what a reader of the stream knows
recorder   keeps the steps of a stream in the file, and trims it
retained_log  the log that a bridge retains, as a stream
file       HistoryFile: the states at a point, what differs between two, the steps behind one or of an object, gaps and
           coverage
restore    a manifest that can be applied, out of a state

How other commands use it::

    with HistoryFile.open(path) as history:
        point = PastPoint.parsed("2h")
        history.bound(point).text                      # how exact a cut at this point is, for the operator
        for found in history.at(point, namespace="shop"):
            found.key, found.uid, found.version, found.state, found.uncertain
        for step in history.changes(point):
            step.sequence, step.op, step.state

**The file.** An incarnation of an object (its key and uid) is a row of ``objects``, with the newest state. A row of
``steps`` has the way back from its state to the state before: an RFC 7396 merge patch, or the whole state (where no
patch leads there, where it would not be smaller, and at each sixteenth step, so that a state is sixteen patches away at
most). So a new step appends a row, and changes no row of an earlier step; and old steps are removed from the
beginning without any other being written again. A patch that leads forward would be read faster at the beginning of a
history, where nobody asks, and a trim would have to write the first step that stays anew.

**Coverage** says since when a resource is told, and how its objects of that time came. Which namespaces and selectors
the bridge watched, and what the API server refused, is in ``watched``, as the ends of snapshots tell it. A notice of
its own would tell it from the first list on, and each change at once. It would also be one more kind of record for the
log, every form and every reader; and a snapshot has to say what it proves.

Invariants, each with its test:

- A state is, as a JSON value, the one that the stream told. ``tests/bridge/history/test_against_a_model.py``; on a real
  API server ``tests/bridge/history/test_against_an_oracle.py``
- Objects, steps, the reader's notes and the position in the stream are one transaction: a build that is killed goes on
  as if it had not been. ``tests/bridge/history/test_recorder.py``
- A trim changes no answer about a point behind the kept beginning. ``tests/bridge/history/test_against_a_model.py``
- Whatever the stream has left out is told: as an uncertain state, a gap between steps, or an error for a point that the
  file does not reach. ``tests/bridge/history/test_gaps.py``
- Nothing that redaction left is restored as if it were the value. ``tests/bridge/history/test_restore.py``
"""

from bridge.history.file import HistoryFile, HistoryStep, PointBound, StateAt
from bridge.history.points import NotInHistory, PastPoint

__all__ = ["HistoryFile", "HistoryStep", "NotInHistory", "PastPoint", "PointBound", "StateAt"]
