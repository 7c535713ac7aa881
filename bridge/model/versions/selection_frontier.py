"""By which entries of ``select`` a sink got its records: see ``frontier``."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

_Digest = Annotated[str, Meta(max_length=64)]

ALL_ENTRIES = "everything"
"""In ``SelectionFrontier.changing``: the sink will get everything. A digest has only hexadecimal digits."""


class SelectionFrontier(msgspec.Struct, frozen=True, omit_defaults=True):
    """By which entries a sink got what it has settled."""

    entries: _Digest = ""
    """A keyed digest of the entries; empty for a sink that gets everything."""
    changing: _Digest = ""
    """The same of other entries whose difference is under way; empty for none."""
    number: Annotated[int, Meta(ge=0, le=1 << 62)] = 0
    """Of the last change: see ``StoredSelection.number``."""
