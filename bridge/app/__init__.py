"""The composition root. It joins the rooms and holds no logic of its own.

base_copy          copies of the leader's state, if the plan has them
bridge             opens the connection and the outbox, runs the rooms on them, and closes both
catching_up        what the API server has, against what the outbox has
failures           chooses the exception with which a run ends
followed_leader    what another leader published, and how this replica differs from it
leadership         this replica in an election, if there is one
page               the page, if one is configured
predecessor        the last identity that took the Lease with this state directory
running            builds the rooms, runs them in one task group, and ends them in order
selection_changes  changed selections, in step with the leader's progress
status             collects the state of every informer and sink for /readyz and the gauges
steady_readiness   /readyz over a change of the configuration
"""
