"""A Reflector without an informer around it, on a server that is never restored from a backup."""

from __future__ import annotations

from typing import TypedDict, cast

from bridge.informer.history.history import History
from bridge.informer.history.member import Member
from bridge.informer.history.proof import OtherHistory, Proof, SameHistory


class TrustedHistory(History):
    """Is the known history at every moment."""

    async def prove(self, member: Member) -> Proof:
        return SameHistory()

    async def disprove(self, member: Member, other: OtherHistory) -> None:
        pass

    async def renew(self, member: Member) -> None:
        pass

    def is_assured(self, member: Member) -> bool:
        return True


class _Nobody:
    async def wait_processed(self) -> None:
        pass


class OfHistory(TypedDict):
    history: History
    member: Member


def trusted() -> OfHistory:
    """Arguments of a Reflector."""
    return {"history": TrustedHistory(), "member": cast("Member", _Nobody())}
