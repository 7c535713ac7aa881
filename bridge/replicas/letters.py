"""The leader gets the dead letters of former leaders, from wherever the Lease says that they are: page by page, slowly
enough for deliveries, and again until the other replica has none."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from itertools import pairwise
from typing import Protocol

import aiohttp
import msgspec

from bridge.facts import Report
from bridge.facts.election import LettersFetched, LettersMissing
from bridge.model.dead_letter import LetterPage
from bridge.model.versions.held import KeptLetters
from bridge.plan.plan import CopyPlan
from bridge.replicas.requests import asked, whole
from bridge.replicas.sources import LETTERS, Unfit, url_of
from sinks.errors import WrongOption

_EVERY = 5.0
"""Seconds between two looks."""
_SILENCE_SECONDS = 30.0
_LARGEST = 96 << 20
"""Bytes of a page: one with a single large dead letter may have so many."""
_RATE = 16 << 20
"""Bytes a second."""

_decode = msgspec.msgpack.Decoder(LetterPage).decode


class Letters(Protocol):
    """The dead letters of the leader: see ``SharedLetters``."""

    @property
    def wanted(self) -> Mapping[str, KeptLetters]: ...

    async def take(self, page: LetterPage) -> str: ...

    def end(self, replica: str) -> None: ...


class LetterFetcher:
    def __init__(self, plan: CopyPlan, letters: Letters, report: Report, *, every: float = _EVERY) -> None:
        self._plan = plan
        self._letters = letters
        self._report = report
        self._every = every
        self._said: dict[str, str] = {}
        """Replica → the reason that was reported last."""

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(self._every)

    async def look(self) -> None:
        """Asks each former leader once for all that it has."""
        wanted = self._letters.wanted
        self._said = {replica: reason for replica, reason in self._said.items() if replica in wanted}
        for replica, kept in wanted.items():
            try:
                url = url_of(kept.address, allow_http=self._plan.allow_http) + LETTERS
                taken = await self._fetch(replica, url, kept)
            except (Unfit, WrongOption, OSError, aiohttp.ClientError) as error:  # A TimeoutError is an OSError.
                self._say(replica, _reason(error))
            else:
                self._said.pop(replica, None)
                if taken:
                    self._report(LettersFetched(replica, taken))

    async def _fetch(self, replica: str, url: str, kept: KeptLetters) -> int:
        """Returns the number of dead letters that were sent, and are stored here now as far as they are of this shard.
        Raises what ``asked`` raises, and Damaged for the own database."""
        taken, through = 0, max(kept.through, kept.since)
        while True:
            page = await self._page(replica, url, through)
            if not page.letters:
                if kept.former or not page.left:
                    self._letters.end(replica)
                return taken
            try:
                refused = await self._letters.take(page)
            except ValueError as error:
                raise Unfit(str(error)) from error
            if refused:
                raise Unfit(refused)
            taken += len(page.letters)
            through = page.letters[-1].number

    async def _page(self, replica: str, url: str, after: int) -> LetterPage:
        async with asked(self._plan, f"{url}?after={after}", "it", silence=_SILENCE_SECONDS) as answer:
            body = await whole(answer, _LARGEST, silence=_SILENCE_SECONDS)
        await asyncio.sleep(len(body) / _RATE)
        try:
            page = await asyncio.to_thread(_decode, body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise Unfit(f"its answer cannot be read: {error}") from error
        if page.replica != replica:
            raise Unfit(f"{page.replica} answers at this address: give each replica a url of its own")
        numbers = [after, *(each.number for each in page.letters)]
        if any(later <= earlier for earlier, later in pairwise(numbers)):
            raise Unfit("its dead letters are not in the order of their numbers")
        return page

    def _say(self, replica: str, reason: str) -> None:
        if self._said.get(replica) != reason:
            self._said[replica] = reason
            self._report(LettersMissing(replica, reason))


def _reason(error: Exception) -> str:
    """The same for each try."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        error = error.certificate_error
    elif isinstance(error, aiohttp.ClientConnectorError):
        error = error.os_error
    return str(error) or type(error).__name__
