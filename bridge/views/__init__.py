"""Which objects, which steps, and what form of them a sink gets.

content       values of recent records, which all sinks share; adds the content to the records of a sink; the
              expressions in a sink's options → SinkContent, with all mistakes at once
decisions     which sinks get a record, and with which op; the selections of all sinks, by resource
differences   the paths at which two states differ; JSON Merge Patch and JSON Patch from a state to the next; the
              differences between two states that sinks ask for
evaluation    values of expressions on parts of objects that came before; counts of failed evaluations; expressions
              on one record, each evaluated once for all sinks
language      CEL: what an expression reads, what it may cost, and its evaluation
selector      an entry of ``select``, and the selection of a sink; texts of the configuration → a SinkSelection, with
              all mistakes at once; entries as texts, for the state; entries that name no watched resource

The content that the options of sinks make of objects.

Which objects, and which of their steps, a sink gets.

Invariants, each with its test:

- A sink has exactly the selected objects. Which sinks a record is for is decided once, before the commit, and stored
  with the record; so is, with each object, which selections contain it. A changed selection appends its difference to
  the log. ``tests/properties/test_selected_sinks.py``, ``tests/scenarios/test_sinks_that_select.py``
- An expression is evaluated only if the sizes of the values that it reads bound its time and memory
  (``language.cost``). ``tests/bridge/views/test_cost.py``
"""
