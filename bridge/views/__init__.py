"""Which objects a sink gets, which of their steps, and the content that its options make of them.

content_maker   compiles the expressions in a sink's options, and adds the content that they ask for to its records
decisions       decides which sinks get a record, and as which step
differences     compares two states of an object: the paths that differ, a merge patch, a JSON patch
evaluation      evaluates expressions on a record, each once for all sinks, and counts failures
language        CEL: what an expression reads, what it may cost, and its evaluation
selection       a sink's ``select``: its entries, their compilation, and entries without a watched resource

A record meets the room twice. Before its commit, ``Decisions`` evaluates the selections of all sinks (``where`` on the
object's state, ``when`` on its step), and who gets the record is stored with it. Before an attempt, a ``ContentMaker``
makes the content that the options of one sink ask for: data, parts of texts, differences, managers. Both go through an
``Evaluator`` for each resource, which decodes an object once, as far as some expression reads it. A failed evaluation
is an answer here, and no exception: ``on_error`` decides for a selection, and a record whose content failed is rejected
with the reason.

The room has no clock, no event loop and no I/O, so that a decision depends on the record alone.

Invariants, each with its test:

- A sink has exactly the selected objects. Which sinks a record is for is decided once, before the commit, and stored
  with the record; so is, with each object, which selections contain it. A changed selection appends its difference to
  the log. ``tests/properties/test_selected_sinks.py``, ``tests/scenarios/test_six_views.py``
- An expression is evaluated only if the sizes of the values that it reads bound its time and memory
  (``language.cost``). ``tests/bridge/views/test_cost.py``
"""
