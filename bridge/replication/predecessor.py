"""The last identity that took the Lease with a state directory: its process ended before this one could lock the
directory, so its Lease is free."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from bridge.model.primitives.election import replica_of
from bridge.plan.private_file import write_private

FILE = "lease-holder"
_LONGEST = 512
"""Bytes."""


def read_predecessor(state: Path, name: str) -> str:
    """The identity in ``state``, if it is of the replica ``name``; else an empty text: a copied directory may have
    that of another replica. The caller holds the lock of the directory."""
    with suppress(OSError, UnicodeDecodeError), os.fdopen(os.open(state / FILE, os.O_RDONLY | os.O_NOFOLLOW)) as file:
        identity = file.read(_LONGEST)
        if replica_of(identity) == name:
            return identity
    return ""


def write_identity(state: Path, identity: str) -> None:
    """See ``write_private``."""
    write_private(state / FILE, identity)
