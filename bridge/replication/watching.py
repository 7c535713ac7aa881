"""Watches the Lease, so that a follower sees a release at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from bridge.model.answers import (
    Announced,
    Busy,
    EventType,
    Expired,
    Failed,
    Refused,
    TooLarge,
    Unsupported,
    WatchRequest,
)
from bridge.model.object import ApiObject
from bridge.replication.lease import Lease, MalformedLease, lease_of
from bridge.replication.ports import LeaseApi

_WATCH_SECONDS = 300


class LeaseWatch:
    """Watches from the known version on, again and again. The elector reads the Lease where the watch brings nothing,
    so a failure here costs time, and no correctness."""

    def __init__(
        self,
        api: LeaseApi,
        key: str,
        *,
        version: Callable[[], str],
        heard: Callable[[Lease | None, str], None],
        fail: Callable[[str, Busy | Expired | Failed | Refused | TooLarge | Unsupported], None],
    ) -> None:
        """``key``: ``namespace/name``. ``version``: returns the known version; empty while no Lease is known to exist.
        ``heard`` gets each new state, None after a delete, with the version of the event."""
        self._api = api
        self._key = key
        self._version = version
        self._heard = heard
        self._fail = fail
        self._news = asyncio.Event()

    def wake(self) -> None:
        """Another version may be known."""
        self._news.set()

    async def run(self, pause: float) -> None:
        """``pause``: seconds between two attempts. The first begins as soon as a version is known."""
        expired = ""
        while True:
            self._news.clear()
            version = self._version()
            if version in ("", expired):
                await self._news.wait()
            else:
                expired = await self._watch(version)
                await asyncio.sleep(pause)

    async def _watch(self, version: str) -> str:
        """Returns the version if the API server has forgotten it: another is needed. Else an empty text."""
        async with self._api.watch(WatchRequest(version=version, timeout=_WATCH_SECONDS)) as answers:
            async for answer in answers:
                match answer:
                    case Announced(events):
                        for kind, each in events:
                            self._take(kind, each)
                    case Expired():
                        return version
                    case Busy() | Failed() | Refused() | TooLarge() | Unsupported():
                        self._fail("watch", answer)
        return ""

    def _take(self, kind: EventType, each: ApiObject) -> None:
        if each.key != self._key:  # A proxy may drop the field selector.
            return
        if kind is EventType.DELETED:
            self._heard(None, each.resource_version)
            return
        try:
            lease = lease_of(each.body)
        except MalformedLease as error:
            self._fail("watch", Failed(str(error)))
        else:
            self._heard(lease, lease.version)
