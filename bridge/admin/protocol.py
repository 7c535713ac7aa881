"""Messages on the admin socket, beside the values of ``bridge.model.admin``."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

SOCKET = "admin.sock"
PREFIX = "/v1"
LARGEST_REQUEST = 1024 * 1024
"""Bytes of a body: the numbers of about 100,000 dead letters."""
LARGEST_LINE = 256 << 20
"""Bytes of a part of a stream: a few records, of which the largest may have 16 MiB, with their states before."""
LARGEST_PAGE = 1000
"""Dead letters in an answer."""

_SHOWN = 10

Number: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]


class DeadLetterQuery(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    sink: str | None = None
    after: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=LARGEST_PAGE)] = LARGEST_PAGE


class DeadLetterChoice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A choice of a sink's dead letters."""

    sink: str
    numbers: list[Number] | None
    """None for all."""

    def __str__(self) -> str:
        """The operator's notation, with the first ten numbers."""
        if self.numbers is None:
            return f"{self.sink} --all"
        first = " ".join(map(str, self.numbers[:_SHOWN]))
        return f"{self.sink} {first}" + (f" and {more} more" if (more := len(self.numbers) - _SHOWN) > 0 else "")


class FollowQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    sink: str | None = None
    """None for the records as they are stored."""


class SinkName(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A sink, by its name."""

    sink: str


class Changed(msgspec.Struct, frozen=True):
    changed: bool


class Count(msgspec.Struct, frozen=True):
    count: int


class Refusal(msgspec.Struct, frozen=True):
    error: str
