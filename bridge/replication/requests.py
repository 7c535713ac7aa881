"""Reads and writes the Lease: bounded in time, with answers that fit an election."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from datetime import UTC, datetime
from enum import Enum, auto
from typing import TypeAlias

from bridge.facts import LeaseFailed, Report
from bridge.model.answers import Conflict, ErrorAnswer, Failed, Refused
from bridge.replication.lease import Lease, MalformedLease, lease_of
from bridge.replication.ports import LeaseApi

_NOT_FOUND = 404


class NoLease(Enum):
    """Answers without a Lease."""

    MISSING = auto()
    """It does not exist."""
    CHANGED = auto()
    """409: the version of the write is not the current one, or the Lease to create exists."""
    UNKNOWN = auto()
    """The request failed, and was reported; a write may have happened."""


LeaseAnswer: TypeAlias = Lease | NoLease


def utc() -> datetime:
    """Now."""
    return datetime.now(UTC)


class LeaseRequests:
    """Reports LeaseFailed."""

    def __init__(self, api: LeaseApi, where: str, timeout: float, report: Report) -> None:
        """``where``: the Lease as ``namespace/name``. ``timeout``: seconds for each request, connecting included."""
        self._api = api
        self._where = where
        self._timeout = timeout
        self._report = report

    async def read(self) -> LeaseAnswer:
        return await self._ask("get", self._api.read())

    async def write(self, before: Lease | None, body: bytes) -> LeaseAnswer:
        """Creates the Lease if there was none before, else updates it."""
        if before is None:
            return await self._ask("create", self._api.create(body))
        return await self._ask("update", self._api.update(body))

    def fail(self, verb: str, error: ErrorAnswer) -> None:
        self._report(LeaseFailed(verb, self._where, error.reason, isinstance(error, Refused)))

    async def _ask(self, verb: str, request: Awaitable[bytes | Conflict | ErrorAnswer]) -> LeaseAnswer:
        answer: bytes | Conflict | ErrorAnswer
        try:
            async with asyncio.timeout(self._timeout):
                answer = await request
        except TimeoutError:
            answer = Failed(f"no answer within {self._timeout:g} s")
        if isinstance(answer, bytes):
            try:
                return lease_of(answer)
            except MalformedLease as error:
                answer = Failed(str(error))
        if isinstance(answer, Conflict):
            return NoLease.CHANGED
        # A create is answered with 404 where the namespace is missing.
        if isinstance(answer, Refused) and answer.status == _NOT_FOUND and verb != "create":
            return NoLease.MISSING
        self.fail(verb, answer)
        return NoLease.UNKNOWN
