"""The frontier of several former shards."""

from __future__ import annotations

import pytest

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
