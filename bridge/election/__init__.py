"""Elects the replica that delivers, by a Lease of coordination.k8s.io/v1 (client-go's tools/leaderelection).

announcing  the facts of an election, and the frontiers of other holders
deciding    the election as a state machine: what follows from the Lease, from answers and from time (pure)
ending      how a holder leaves the Lease (pure)
division    another number of shards: the former shards hand over
elector     drives the state machine: requests, the watch of the Lease, the holder's work
lease       the Lease: its values, and their bounds (pure)
ports       the API server and the holder's work, as the elector sees them
requests    reads and writes the Lease
states      the states of an election, and what an elector does next (pure)
status      the state of an election for status and gauges (pure)
timing      the durations of an election
watching    watches the Lease
"""

from bridge.election.deciding import Rules
from bridge.election.division.inheriting import DivisionRefused, Former
from bridge.election.division.inheritor import Inheritor
from bridge.election.elector import Elector
from bridge.election.lease import LEASES
from bridge.election.ports import Duties, LeaseApi, Tenure
from bridge.election.timing import LeaseTiming

__all__ = [
    "LEASES",
    "DivisionRefused",
    "Duties",
    "Elector",
    "Former",
    "Inheritor",
    "LeaseApi",
    "LeaseTiming",
    "Rules",
    "Tenure",
]
