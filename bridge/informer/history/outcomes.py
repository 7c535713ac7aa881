"""The outcomes of a proof that an API server still has the known history."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from bridge.model.answers import Busy, Failed, Refused


class SameHistory(msgspec.Struct, frozen=True):
    """The known objects belong to the server's history."""


class UnknownHistory(msgspec.Struct, frozen=True):
    """The server answered, but the proof is impossible, because the server has forgotten the known versions."""

    reason: str


class OtherHistory(msgspec.Struct, frozen=True):
    """The server has another history: its store was restored from a backup, or replaced."""

    was: str
    """The known state."""
    now: str
    """The state that contradicts it."""


Proof: TypeAlias = SameHistory | UnknownHistory | OtherHistory | Busy | Refused | Failed
"""Busy, Refused and Failed mean that the proof cannot be made now."""
