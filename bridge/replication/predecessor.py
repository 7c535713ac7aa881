"""The last identities that took the Lease with a state directory: their processes ended before this one could lock the
directory, so a Lease of theirs is free, and what one of them published last is true of the directory, however many
others were killed since before they published anything."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from bridge.model.primitives.election import replica_of
from bridge.plan.private_file import write_private

FILE = "lease-holder"
_MOST = 16
_LONGEST = 16 * 512
"""Bytes."""


def read_predecessors(state: Path, name: str) -> tuple[str, ...]:
    """The identities in ``state``, the last one first, if they are of the replica ``name``: a copied directory may have
    those of another replica. The caller holds the lock of the directory."""
    with suppress(OSError, UnicodeDecodeError), os.fdopen(os.open(state / FILE, os.O_RDONLY | os.O_NOFOLLOW)) as file:
        return tuple(each for each in file.read(_LONGEST).splitlines()[:_MOST] if replica_of(each) == name)
    return ()


def write_identities(state: Path, identities: Sequence[str]) -> None:
    """The last one first. See ``write_private``."""
    write_private(state / FILE, "\n".join(identities[:_MOST]))
