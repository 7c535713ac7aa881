"""Which objects, and which of their steps, a sink gets.

compile       texts of the configuration → a SinkSelection, with all mistakes at once
decisions     which sinks get a record, and with which op
entries       entries as texts, for the state
evaluation    expressions on one record, each evaluated once for all sinks
failures      counts of failed evaluations
known_values  values of expressions on parts of objects that came before
language      CEL expressions: compile, check, find the paths that they read, evaluate
names         entries that name no watched resource
selector      an entry of ``select``, and the selection of a sink
views         the selections of all sinks, by resource

Invariants, each with its test:

- A sink has exactly the selected objects. Which sinks a record is for is decided once, before the commit, and stored
  with the record; so is, with each object, which selections contain it. A changed selection appends its difference to
  the log. ``tests/properties/test_selected_sinks.py``, ``tests/scenarios/test_sinks_that_select.py``
- An expression is evaluated only if the sizes of the values that it reads bound its time and memory
  (``language.cost``). ``tests/bridge/selection/test_cost.py``
"""

from bridge.selection.compile import SelectorText, WrongSelection, compile_selection
from bridge.selection.decisions import Decisions
from bridge.selection.entries import decode_entries, encode_entries
from bridge.selection.evaluation import Evaluation, Evaluator
from bridge.selection.failures import FailedEvaluation, Failures
from bridge.selection.names import Unwatched, find_unwatched
from bridge.selection.selector import Selector, SinkSelection
from bridge.selection.views import ResourceViews, Views

__all__ = [
    "Decisions",
    "Evaluation",
    "Evaluator",
    "FailedEvaluation",
    "Failures",
    "ResourceViews",
    "Selector",
    "SelectorText",
    "SinkSelection",
    "Unwatched",
    "Views",
    "WrongSelection",
    "compile_selection",
    "decode_entries",
    "encode_entries",
    "find_unwatched",
]
