"""Order of resourceVersions: integers of any length within one resource since Kubernetes 1.35 (KEP-5504)."""

from __future__ import annotations

from collections.abc import Iterable


def newest_of(versions: Iterable[str | None]) -> str | None:
    """The newest of these; the first where they have no order, None where there is none."""
    newest: str | None = None
    for version in versions:
        if version is not None and (newest is None or is_older(newest, version)):
            newest = version
    return newest


def is_reached(version: str, position: str) -> bool:
    """True only where both are integers and the first is not the greater one."""
    return version.isdecimal() and position.isdecimal() and (len(version), version) <= (len(position), position)


def is_older(version: str, than: str) -> bool:
    """True only where both are integers and the first is smaller: an aggregated API may use any text, which has no
    order, and then nothing is claimed."""
    if not (version.isdecimal() and than.isdecimal()):
        return False
    return (len(version), version) < (len(than), than)
