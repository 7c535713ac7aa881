"""The state of objects beside their history: two destinations of a sink, one behind the other.

The history has every record, the state the newest form of each object. Both come from the same batch, so one cursor
settles both.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import replace
from typing import TypeAlias

from bridge.model.record import Delta, Record
from config.rules import Given, Not, OfEverySink, Rule
from sinks.receipt import ALL_STORED, BatchResult, Receipt, RetryLater

Deliver: TypeAlias = Callable[[Sequence[Record]], Awaitable[Receipt]]


class StateBesideHistory:
    """Delivers each record to the history, and when that is acknowledged, the newest record of each key to the state.

    A record is stored when both have it. While the state fails, its records are pending, and the next ``deliver`` does
    not send them to the history again. After a crash they may be in the history twice, with equal ids, and the state of
    an object may be older than its history until they are delivered again. A record that the state rejects is rejected,
    and the state keeps the newest form that it takes.
    """

    def __init__(self, history: Deliver, state: Deliver, key: Callable[[Delta], Hashable]) -> None:
        """``key``: of a record in the state. Records with one key belong to one object."""
        self._history = history
        self._state = state
        self._key = key
        self._acknowledged: set[tuple[int, str]] = set()
        """Pending records that the history has."""

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        """Notices belong to the history alone."""
        if not isinstance(batch[0], Delta):
            return await self._history(batch)
        result = BatchResult(batch)
        known = self._acknowledged
        unsent = [index for index, record in enumerate(batch) if _identity(record) not in known] if known else None
        history, pending = await self._deliver_history(result, unsent)
        stored = result.sendable(index for index in range(len(batch)) if index not in pending)
        # Kept before the state is delivered, which may be cancelled.
        self._acknowledged = {_identity(batch[index]) for index in stored}
        missing, failure = await self._deliver_state(result, stored)
        if not (pending or missing or result.rejected):
            self._acknowledged = set()
            return history
        receipt = result.receipt(pending | missing, history.failure or failure)
        self._acknowledged &= {_identity(batch[index]) for index in receipt.pending}
        return replace(
            receipt, created=history.created, lost=history.lost, changed=history.changed, memory=history.memory
        )

    async def _deliver_history(self, result: BatchResult, unsent: list[int] | None) -> tuple[Receipt, set[int]]:
        """``unsent``: indexes of the records to deliver; None for all. Returns the history's receipt, and the indexes
        that it left pending."""
        if unsent is None:
            unsent = list(range(len(result.batch)))
        if not unsent:
            return ALL_STORED, set()
        receipt = await self._history([result.batch[index] for index in unsent])
        for place, reason in receipt.rejected.items():
            result.reject(unsent[place], reason, receipt.answers.get(place, ""))
        return receipt, {unsent[place] for place in receipt.pending}

    async def _deliver_state(self, result: BatchResult, stored: Sequence[int]) -> tuple[set[int], RetryLater | None]:
        """Returns the indexes of records whose state may not be stored, and the failure."""
        keys: dict[Hashable, list[int]] = {}
        for index in stored:
            record = result.batch[index]
            if isinstance(record, Delta):
                keys.setdefault(self._key(record), []).append(index)
        pending: set[int] = set()
        failure: RetryLater | None = None
        while keys and failure is None:
            newest = sorted(indexes[-1] for indexes in keys.values())
            receipt = await self._state([result.batch[index] for index in newest])
            for place, reason in receipt.rejected.items():
                result.reject(newest[place], f"the state: {reason}", receipt.answers.get(place, ""))
            pending |= {newest[place] for place in receipt.pending}
            failure = receipt.failure
            # The newest form that the state takes is the one before a rejected form.
            rejected = {newest[place] for place in receipt.rejected}
            keys = {key: indexes[:-1] for key, indexes in keys.items() if indexes[-1] in rejected and indexes[:-1]}
        return pending, failure


def _identity(record: Record) -> tuple[int, str]:
    return (record.sequence, record.id)


def state_rules(option: str) -> tuple[Rule, ...]:
    """Rules for an option that asks for state: without the policies under which the state of an object could stay
    older than its newest record."""
    asked = Given(option)
    return (
        Rule(
            asked,
            Not(OfEverySink("on_rejected", "pass")),
            f"{option} needs on_rejected: park: an older record that is delivered late would replace the newer state",
        ),
        Rule(
            asked,
            Not(OfEverySink("when_full", "drop")),
            f"{option} needs when_full: compact or block: the states of dropped records would be missing",
        ),
        Rule(
            asked,
            Not(OfEverySink("start", "now", "earliest")),
            f"{option} needs start: snapshot: without one, the state lacks the objects that do not change",
        ),
    )
