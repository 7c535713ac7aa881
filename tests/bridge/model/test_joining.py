"""The frontier of several former shards."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from bridge.model.primitives.shard import Division, Shard
from bridge.model.versions.frontier import Frontier, Point, SinkFrontier
from bridge.model.versions.joining import joined

PODS = "pods"
HERE = Point(1, "100")


def former(index: int, bound: Point | str | None = "no", *, final: bool = True) -> tuple[Shard, Frontier]:
    bounds = {} if isinstance(bound, str) else {PODS: bound}
    sinks = {"audit": SinkFrontier()}
    found = Frontier(
        1, "prod", 3, f"kubedelta-{index}", "1.0", 5, informers={PODS: HERE}, sinks=sinks, final=final, bounds=bounds
    )
    return Shard(2, index), found


@pytest.mark.parametrize(
    ("bounds", "joint"),
    [
        (("no", "no"), {}),
        (("no", Point(1, "120")), {PODS: Point(1, "120")}),
        ((Point(1, "130"), Point(1, "120")), {PODS: Point(1, "130")}),
        ((Point(1, "130"), None), {PODS: None}),
        ((Point(1, "130"), Point(2, "90")), {PODS: None}),
    ],
    ids=["none", "one", "both", "one unknown", "two epochs"],
)
def test_leaders_of_a_shard_bound_what_follows(
    bounds: tuple[Point | str | None, ...], joint: dict[str, Point | None]
) -> None:
    found = joined([former(number, bound) for number, bound in enumerate(bounds)], Division(1, 0))
    assert found.frontier.bounds == joint
    assert found.frontier.final


def test_a_shard_that_did_not_end_in_order_leaves_all_unbounded() -> None:
    assert not joined([former(0), former(1, final=False)], Division(1, 0)).frontier.final


def test_the_renewals_of_several_shards_never_go_back() -> None:
    """Whichever shard gets another leader: else that would look like a restored store."""
    shards, frontiers = zip(*(former(index) for index in (0, 1)), strict=True)
    history = [(3, 90), (3, 40)], [(3, 90), (4, 70)], [(4, 1), (4, 70)], [(4, 2), (5, 1)]
    ranks = []
    for now in history:
        each = [
            replace(found, term=term, renewal=renewal) for found, (term, renewal) in zip(frontiers, now, strict=True)
        ]
        both = joined(list(zip(shards, each, strict=True)), Division(1, 0)).frontier
        ranks.append((both.term, both.renewal))
    assert ranks == [(3, 90), (4, 70), (4, 70), (5, 1)]
