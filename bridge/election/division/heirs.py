"""The hand-over of a shard to the shards of another division, as an annotation of its Lease. Pure.

The heirs of a shard are those shards of the next division that have objects of it. Each names itself in the annotation
while it could go on without losing a step. Once all heirs are named, the holder of the Lease ends its deliveries, and
releases the Lease for good, in the write that has its last frontier. Only the holder does that: so nobody has to guess
whether it still works.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from bridge.model.primitives.shard import MOST_SHARDS, Division

HEIRS = "kubedelta/heirs"
"""The annotation; JSON."""
LONGEST = 128 << 10
"""Characters of the annotation."""


class Heirs(msgspec.Struct, frozen=True, omit_defaults=True):
    of: Annotated[int, Meta(ge=1, le=MOST_SHARDS)]
    """Number of shards of the next division."""
    ready: Annotated[dict[str, Annotated[str, Meta(max_length=512)]], Meta(max_length=MOST_SHARDS)] = {}
    """Index of an heir → the name of the replica that is exact."""
    done: bool = False
    """The shard has no holder any more, and its frontier is final."""

    def named(self, index: int, replica: str) -> Heirs:
        """With this replica of an heir."""
        return replace(self, ready={**self.ready, str(index): replica})

    def without(self, index: int, replica: str) -> Heirs:
        """Without this replica of an heir. Another replica stays."""
        if self.ready.get(str(index)) != replica:
            return self
        return replace(self, ready={each: name for each, name in self.ready.items() if each != str(index)})

    def are_ready(self, former: Division) -> bool:
        """Whether all heirs of this shard are named."""
        return all(str(index) in self.ready for index in former.heirs(self.of))


_decode = msgspec.json.Decoder(Heirs).decode


def heirs_of(text: str) -> Heirs | None:
    """None for no text. Raises ValueError."""
    if not text:
        return None
    if len(text) > LONGEST:
        raise ValueError(f"{len(text)} characters; allowed: {LONGEST}")
    return _decode(text)


def text_of(heirs: Heirs | None) -> str:
    return "" if heirs is None else msgspec.json.encode(heirs).decode()
