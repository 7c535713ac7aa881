"""A shard: the part of all objects that a bridge has, by a range of hashes.

The number of shards is a power of two and static, as in kube-state-metrics: shards that are assigned while bridges run
(Argo CD) leave objects to nobody when a heartbeat lies. A uid keeps all versions of an object together and makes even
shards, but an object that is created again under its name has another uid. A destination that keeps the newest record
of a name is therefore refused, or needs ``by: namespace``.
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Final

import msgspec
from msgspec import Meta

HASHES: Final = 1 << 64
"""Number of hashes: they are 64 bits long."""
MOST_SHARDS: Final = 256
_BASIS = 0xCBF29CE484222325
_PRIME = 0x100000001B3


class ShardBy(StrEnum):
    """The field whose hash decides on the shard of an object."""

    UID = "uid"
    """Even shards, which API servers can select (KEP-5866). An object that is created again under its name may be in
    another shard."""
    NAMESPACE = "namespace"
    """A namespace is in a shard as a whole. Cluster-scoped objects are all in a single shard."""


class Shard(msgspec.Struct, frozen=True):
    """One of ``of`` equal ranges of the hashes. Each object is in exactly one of them, whatever its state.

    The hash of a uid is FNV-1a of 64 bits, as in the API server (apimachinery's ``pkg/sharding``). Its high bits, which
    decide, do not depend on the last two characters of a text. Uids are random; names of namespaces may differ in a
    number at their end alone (``team-10`` to ``team-99``), so that their hash is mixed once more. API servers cannot
    select by that."""

    of: Annotated[int, Meta(description="Number of shards: a power of two.")]
    index: Annotated[int, Meta(description="From 0.")]
    by: Annotated[ShardBy, Meta(description="The field whose hash decides on the shard.")] = ShardBy.UID

    def __post_init__(self) -> None:
        if not (1 < self.of <= MOST_SHARDS and self.of & (self.of - 1) == 0 and 0 <= self.index < self.of):
            raise ValueError(f"there is no shard {self.index} of {self.of}")

    @property
    def start(self) -> int:
        """The first hash."""
        return HASHES // self.of * self.index

    @property
    def end(self) -> int:
        """The hash behind the last."""
        return self.start + HASHES // self.of

    @property
    def name(self) -> str:
        """Such as ``2-of-4``."""
        return f"{self.index}-of-{self.of}"

    @property
    def suffix(self) -> str:
        """For a name of its own beside the names of other shards, such as ``-2-of-4``; fit for a DNS label."""
        return f"-{self.name}"

    def contains(self, uid: str, key: str) -> bool:
        """Whether the object is in the shard. ``key``: ``namespace/name`` or ``name``."""
        found = fnv1a_64(uid) if self.by is ShardBy.UID else mixed(fnv1a_64(key.rpartition("/")[0]))
        return found * self.of >> 64 == self.index

    def __str__(self) -> str:
        return f"shard {self.index} of {self.of} by {self.by}"


@lru_cache(maxsize=16_384)  # 4 MiB at most. An object that changes will change again.
def fnv1a_64(text: str) -> int:
    """FNV-1a of 64 bits, over UTF-8. Texts of a server may have half a surrogate pair."""
    found = _BASIS
    for byte in text.encode(errors="surrogatepass"):
        found = (found ^ byte) * _PRIME & 0xFFFF_FFFF_FFFF_FFFF
    return found


def mixed(found: int) -> int:
    """MurmurHash3's finalizer of 64 bits: every bit of the result depends on every bit."""
    found = (found ^ found >> 33) * 0xFF51AFD7ED558CCD & 0xFFFF_FFFF_FFFF_FFFF
    found = (found ^ found >> 33) * 0xC4CEB9FE1A85EC53 & 0xFFFF_FFFF_FFFF_FFFF
    return found ^ found >> 33
