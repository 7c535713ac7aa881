"""What a shard may do that takes the objects of former shards over, as the Leases say. Pure.

A Lease belongs to its shard from the first frontier that the shard inherits, until its holder hands it over. Terms
ascend along all divisions, so that a hand-over of an earlier time is known by its term.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from bridge.election.division.heirs import HEIRS
from bridge.election.lease import TERM, Lease, is_handed_over, is_possible
from bridge.model.primitives.shard import Division


class DivisionRefused(Exception):
    """The configured change does not fit the Leases. The message has what to do."""


class Former(msgspec.Struct, frozen=True):
    """A former shard."""

    division: Division
    lease: str
    """The name of its Lease."""


class Begin(msgspec.Struct, frozen=True):
    """Elect: the objects are those of this shard."""


class Follow(msgspec.Struct, frozen=True):
    """Some former shard still delivers."""

    waits_for: str
    """What has to happen, for the operator; empty if nothing but time is needed."""


class Inherit(msgspec.Struct, frozen=True):
    """All former shards have ended: their frontiers are final."""

    term: int
    """The newest of theirs and ours to which an election comes."""


Step: TypeAlias = Begin | Follow | Inherit


def next_step(
    mine: Division, own: Lease | None, former: Sequence[tuple[Former, Lease | None]], highest_term: int
) -> Step:
    """``own``: our Lease. ``former``: all shards before that have objects of ours, with their Leases.
    ``highest_term``: of all terms that this state directory has seen. Raises DivisionRefused."""
    before = former[0][0].division.of
    if own is not None and own.term == 0:  # Made by an operator, for the first holder.
        own = None
    if own is not None and not is_handed_over(own):
        _refuse_two(former)
        return Begin()
    own_term = term_of(own, highest_term)
    if own is not None and own.heirs is not None:
        _refuse_return(mine, own_term, own.heirs.of, before, highest_term)
    waits_for = ""
    for each, lease in former:
        waits_for = _missing(mine, own_term, each, lease, highest_term) or waits_for
    if waits_for or not all(is_handed_over(lease) for _, lease in former):
        return Follow(waits_for)
    return Inherit(max(own_term, *(term_of(lease, highest_term) for _, lease in former)))


def term_of(lease: Lease | None, highest_term: int) -> int:
    """0 for a term to which no election comes: it says nothing. ``highest_term``: see ``next_step``."""
    return lease.term if lease is not None and is_possible(lease.term, highest_term) else 0


def _missing(mine: Division, own_term: int, former: Former, lease: Lease | None, highest_term: int) -> str:
    """Why this former shard cannot hand over now; empty if it can. Raises DivisionRefused."""
    name = f"{former.division}, with the Lease {former.lease},"
    if lease is not None and not is_possible(lease.term, highest_term):
        return (
            f"{name} has term {lease.term}, to which no election comes: its holder replaces it; where it has none,"
            f" write the term of its frontier into the annotation {TERM}"
        )
    if lease is None or lease.term <= own_term:
        return f"{name} has no leader yet: it has to run, with an election"
    heirs = lease.heirs
    if heirs is not None and heirs.of != mine.of and heirs.done:
        raise DivisionRefused(f"{name} was handed over to {_shards(heirs.of)}: set shard.former to {heirs.of}")
    if heirs is not None and heirs.of != mine.of and heirs.ready:
        raise DivisionRefused(
            f"{name} is being handed over to {_shards(heirs.of)}: finish that change first; or, if nobody makes it any "
            f"more, remove the annotation {HEIRS} of that Lease"
        )
    if not lease.holder and not is_handed_over(lease):
        return f"{name} has no leader: it has to run until it hands over"
    return ""


def _refuse_return(mine: Division, own_term: int, to: int, before: int, highest_term: int) -> None:
    """Else a bridge that was left over would take the objects back."""
    if to != before:
        raise DivisionRefused(f"{mine} was handed over to {_shards(to)}: stop this bridge, or set shard.former to {to}")
    if 0 < highest_term <= own_term:
        raise DivisionRefused(
            f"{mine} was handed over to {_shards(to)}, and the state directory is from before that: stop this bridge; "
            "or, to take the objects back, begin with an empty state directory"
        )


def _refuse_two(former: Sequence[tuple[Former, Lease | None]]) -> None:
    for each, lease in former:
        if lease is not None and lease.holder and not is_handed_over(lease):
            raise DivisionRefused(
                f"{each.division} was handed over, and {lease.holder} holds its Lease {each.lease} again: stop that"
            )


def _shards(number: int) -> str:
    return "a bridge with all objects" if number == 1 else f"{number} shards"
