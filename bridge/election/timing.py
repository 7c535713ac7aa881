"""The durations of an election."""

from __future__ import annotations

import msgspec

ANSWER_PART = 0.5
"""Of the renew deadline: a request over a dead connection leaves time for another."""


class LeaseTiming(msgspec.Struct, frozen=True, kw_only=True):
    """In seconds."""

    lease_duration: float = 15.0
    """Others take the Lease after so long without a change of it."""
    renew_deadline: float = 10.0
    """The holder stops its work so long after the start of its last successful renewal."""
    retry_period: float = 2.0
    """Between two renewals, and between two attempts."""

    @property
    def return_time(self) -> float:
        """In which a holder renews the Lease once the API server answers again: the end of a request that had no
        answer, and one more attempt."""
        return ANSWER_PART * self.renew_deadline + 1.5 * self.retry_period
