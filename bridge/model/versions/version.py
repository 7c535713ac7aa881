"""Order of resourceVersions: integers of any length, comparable within a resource since Kubernetes 1.35 (KEP-5504)."""

from __future__ import annotations

from collections.abc import Iterable

LONGEST_NUMBER = 18
"""Digits. etcd's revisions count writes, and stay below 10^18."""


def number_of(version: str) -> int | None:
    """The version as a revision of etcd; None if it cannot be one."""
    return int(version) if version.isascii() and version.isdecimal() and len(version) <= LONGEST_NUMBER else None


def newest_of(versions: Iterable[str | None]) -> str | None:
    """The newest version. Of versions without an order the first; None without versions."""
    newest: str | None = None
    for version in versions:
        if version is not None and (newest is None or is_older(newest, version)):
            newest = version
    return newest


def is_reached(version: str, position: str) -> bool:
    """Whether both are integers, and ``version`` is at most ``position``."""
    return version.isdecimal() and position.isdecimal() and (len(version), version) <= (len(position), position)


def is_older(version: str, than: str) -> bool:
    """Whether both are integers, and ``version`` is less than ``than``. An aggregated API may use other texts, which
    have no order: then the answer is False in both directions."""
    if not (version.isdecimal() and than.isdecimal()):
        return False
    # Digits of one length have the order of their numbers, without a conversion.
    return (len(version), version) < (len(than), than)
