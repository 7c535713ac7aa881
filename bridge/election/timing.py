"""The durations of an election."""

from __future__ import annotations

import msgspec


class LeaseTiming(msgspec.Struct, frozen=True, kw_only=True):
    """In seconds."""

    lease_duration: float = 15.0
    """Others take the Lease after so long without a change of it."""
    renew_deadline: float = 10.0
    """The holder stops its work so long after the start of its last successful renewal."""
    retry_period: float = 2.0
    """Between two renewals, and between two attempts."""
