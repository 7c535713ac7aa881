"""The composition root. It joins the rooms and holds no logic of its own.

bridge             opens the connection and the outbox, runs the rooms on them, and closes both
failures           chooses the exception with which a run ends
following          what a replica that follows answers to its operator
operators          where operators reach the process: the control socket, and the page
running            builds the rooms, runs them in one task group, and ends them in order
status             collects the state of every informer and sink for /readyz and the gauges
steady_readiness   /readyz over a change of the configuration
"""
