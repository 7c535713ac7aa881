"""The part of the known objects that is of the present history."""

from __future__ import annotations

from collections.abc import Sequence

from bridge.informer.delta_fifo import DeltaFIFO
from bridge.informer.deltas import QueuedDelta
from bridge.informer.indexer import Indexer
from bridge.informer.reflector.assurance import Comparison
from tests.kit.objects import a_pod

WEB, DB = a_pod("web").at(7), a_pod("db").at(8)


async def passed_on(fifo: DeltaFIFO) -> None:
    async def process(_deltas: Sequence[QueuedDelta], _position: str | None) -> None: ...

    await fifo.drain(process)


def listed(fifo: DeltaFIFO, comparison: Comparison) -> None:
    fifo.begin_replace()
    fifo.replaced([WEB])
    comparison.listed([WEB])


async def test_a_listed_object_counts_once_its_delta_is_passed_on() -> None:
    fifo = DeltaFIFO(Indexer())
    fifo.restored()
    comparison = Comparison(fifo)
    assert (comparison.vouches_for, comparison.has_begun) == ([], False)
    listed(fifo, comparison)
    assert (comparison.vouches_for, comparison.has_begun) == ([], True)
    await passed_on(fifo)
    fifo.replaced([DB])
    comparison.listed([DB])

    assert comparison.vouches_for == [WEB.key]


async def test_a_complete_list_ends_it_once_its_deltas_are_passed_on() -> None:
    fifo = DeltaFIFO(Indexer())
    comparison = Comparison(fifo)
    assert comparison.vouches_for is None, "every object is of this history"
    comparison.begin()
    listed(fifo, comparison)
    comparison.list_ended(complete=False)
    await passed_on(fifo)
    assert comparison.vouches_for == [WEB.key]

    listed(fifo, comparison)
    comparison.list_ended(complete=True)
    assert comparison.vouches_for == []
    await passed_on(fifo)
    assert comparison.vouches_for is None
    assert not comparison.has_begun


async def test_where_it_begins_again_nothing_listed_before_counts() -> None:
    fifo = DeltaFIFO(Indexer())
    fifo.restored()
    comparison = Comparison(fifo)
    listed(fifo, comparison)
    await passed_on(fifo)
    comparison.begin()

    assert comparison.vouches_for == []
