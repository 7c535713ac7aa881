"""Receipts for scripted sinks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from bridge.model.record import Record
from sinks.base import BatchResult, Receipt, RetryLater


def receipt_of(
    batch: Sequence[Record],
    *,
    pending: Collection[int] = (),
    failure: RetryLater | None = None,
    rejected: Mapping[int, str] | None = None,
) -> Receipt:
    """As a sink makes it, with these indexes pending and rejected."""
    result = BatchResult(batch)
    for index, reason in (rejected or {}).items():
        result.reject(index, reason)
    return result.receipt(pending, failure)
