"""The entries of a selection as a text, for the state. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import msgspec

from bridge.selection.compile import SelectorText

_decode = msgspec.json.Decoder(tuple[SelectorText, ...]).decode


def encode_entries(entries: Sequence[SelectorText]) -> str:
    """The same text for equal entries."""
    found = [asdict(each) for each in entries]
    for each in found:
        each["namespaces"], each["operations"] = sorted(each["namespaces"]), sorted(each["operations"])
    return msgspec.json.encode(found).decode()


def decode_entries(text: str) -> tuple[SelectorText, ...]:
    """Raises msgspec.MsgspecError for another text."""
    return _decode(text)
