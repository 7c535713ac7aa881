"""The frontier, and its text in the annotation of a Lease."""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from bridge.model.resource import Scope
from bridge.model.versions import frontier
from bridge.model.versions.frontier import MOST_KEPT, Frontier, Point, SinkFrontier, informer_key, later
from bridge.model.versions.held import DIGEST, MOST_HELD

POINTS = st.builds(Point, st.integers(1, 5), st.text(max_size=20))
KEYS = st.text("abc/234", min_size=1, max_size=20)
SINKS = st.builds(
    SinkFrontier,
    behind=st.dictionaries(KEYS, st.none() | POINTS, max_size=3),
    backfill=st.sampled_from(["", "snapshot", "replay"]),
    dead_letters=st.integers(0, 9),
    objects=st.integers(0, 9),
    parked=st.binary(max_size=24),
)
FRONTIERS = st.builds(
    Frontier,
    v=st.just(1),
    cluster=st.text(max_size=9),
    term=st.integers(0, 1 << 40),
    by=st.text(max_size=9),
    version=st.text(max_size=9),
    sequence=st.integers(0, 1 << 53),
    replays=st.integers(0, 1 << 53),
    informers=st.dictionaries(KEYS, st.none() | POINTS, max_size=5),
    retired=st.lists(KEYS, max_size=3).map(tuple),
    sinks=st.dictionaries(st.text(max_size=9), SINKS, max_size=3),
    address=st.text(max_size=9),
    settings=st.dictionaries(st.text(max_size=9), st.text(max_size=9), max_size=3),
)


def of_size(informers: int) -> Frontier:
    points = {informer_key(f"kind{each}", Scope()): Point(1, str(10**9 + each)) for each in range(informers)}
    return Frontier(1, "prod", 7, "kubedelta-0/9f3c", "0.9.0", 42, informers=dict(points))


@given(FRONTIERS)
def test_a_frontier_comes_back(found: Frontier) -> None:
    assert frontier.decode(frontier.encode(found)) == found


def test_a_long_frontier_is_compressed() -> None:
    long = of_size(2000)
    text = frontier.encode(long)
    assert not text.startswith("{")
    assert len(text) < 80_000
    assert frontier.decode(text) == long
    assert frontier.encode(of_size(300)).startswith("{")


def too_large(parked: int = 0) -> Frontier:
    random = Random(1)
    points = [
        {informer_key(f"kind{each}", Scope()): Point(1, str(random.getrandbits(64))) for each in range(9000)}
        for _ in "abc"
    ]
    digests = random.randbytes(parked * DIGEST)
    sinks = {str(each): SinkFrontier(behind=dict(of_sink), parked=digests) for each, of_sink in enumerate(points)}
    return replace(of_size(9000), sinks=sinks, settings={"resources": "5f"}, retired=("a/1",))


def test_a_frontier_beyond_an_annotation_is_refused() -> None:
    with pytest.raises(ValueError, match=r"9000 informers .* characters, and an annotation holds 200000: watch fewer"):
        frontier.encode(too_large())


def test_a_frontier_that_is_too_large_has_no_positions() -> None:
    whole = too_large(parked=1)
    text, characters = frontier.fitted(whole)
    assert characters > frontier.MOST_CHARACTERS
    found = frontier.decode(text)
    assert (found.term, found.sequence, found.settings) == (whole.term, whole.sequence, whole.settings)
    assert found.informers.keys() == whole.informers.keys(), "a standby must know that it is not exact for them"
    assert found.sinks.keys() == whole.sinks.keys(), "another leader must not begin them anew"
    assert found.sinks["0"].parked == whole.sinks["0"].parked, "their later records wait"
    assert found.of("0", next(iter(whole.informers))) is None


def test_the_smallest_frontier_always_fits() -> None:
    whole = too_large(parked=MOST_HELD)
    text, _ = frontier.fitted(whole)
    found = frontier.decode(text)
    assert (found.term, found.sequence, found.sinks["2"].parked) == (whole.term, whole.sequence, b"")


def test_a_frontier_that_fits_is_published_whole() -> None:
    text = frontier.encode(of_size(3))
    assert frontier.fitted(of_size(3)) == (text, len(text))


@given(st.text(max_size=50))
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="the frontier cannot be read"):
        frontier.decode(text)


def packed(plain: bytes) -> str:
    return b64encode(zlib.compress(plain)).decode()


def changed(**fields: object) -> str:
    return json.dumps({**json.loads(frontier.encode(of_size(1))), **fields})


@pytest.mark.parametrize(
    "text",
    [
        changed(v=2),
        changed(term=-1),
        changed(sequence=(1 << 53) + 1),
        changed(replays=(1 << 53) + 1),
        changed(term=1 << 63),
        changed(informers={"": [1, "2"]}),
        changed(informers={"a": [0, "2"]}),
        changed(informers={"a": [1, "2", 3]}),
        changed(informers={"a" * 40: [1, "2"]}),
        changed(informers={"a": [1, "2" * 300]}),
        changed(informers={str(each): [1, "2"] for each in range(10_001)}),
        changed(retired=["a"] * 101),
        changed(sinks={"kafka": {"held": b64encode(bytes(8 * MOST_HELD + 1)).decode()}}),
        changed(kept={f"kubedelta-{each}": {} for each in range(MOST_KEPT + 1)}),
        changed(kept={"kubedelta-1": {"through": -1}}),
        packed(b"x" * 3_000_000),
        packed(frontier.encode(of_size(2)).encode())[:-8],
        packed(b"[" * 100_000),
        "x" * 200_001,
    ],
    ids=lambda text: text[:40],
)
def test_what_a_stranger_writes_is_bounded(text: str) -> None:
    with pytest.raises(ValueError, match="the frontier"):
        frontier.decode(text)


def test_names_of_an_earlier_version_are_passed_over() -> None:
    found = frontier.decode(changed(sinks={"kafka": {"dead_letters": 2, "parked": [["pods", "shop/a"]], "objects": 1}}))
    assert not found.sinks["kafka"].names_all_parked, "the sink is paused at a takeover"


def test_points_of_an_epoch_have_an_order() -> None:
    assert Point(1, "10").covers(Point(1, "9"))
    assert Point(1, "10").covers(Point(1, "10"))
    assert not Point(1, "9").covers(Point(1, "10"))
    assert not Point(2, "10").covers(Point(1, "9"))
    assert not Point(1, "9").covers(Point(2, "9"))


def test_versions_without_an_order_cover_themselves() -> None:
    assert Point(1, "b").covers(Point(1, "b"))
    assert not Point(1, "b").covers(Point(1, "a"))
    assert not Point(1, "10").covers(Point(1, "a"))


def test_the_later_of_two_points() -> None:
    assert later(None, Point(1, "5")) == later(Point(1, "5"), None) == Point(1, "5")
    assert later(Point(1, "5"), Point(1, "12")) == later(Point(1, "12"), Point(1, "5")) == Point(1, "12")
    assert later(Point(2, "5"), Point(1, "12")) == Point(2, "5")
    assert later(Point(1, "12"), Point(2, "5")) == Point(1, "12")


def test_a_point_of_an_epoch_that_began_here_is_later() -> None:
    for epoch, found in ((1, Point(1, "12")), (2, Point(2, "5")), (3, Point(2, "5"))):
        assert later(Point(1, "12"), Point(2, "5"), epoch) == found
    assert later(Point(2, "5"), Point(1, "12"), 2) == Point(2, "5")
    assert later(None, Point(2, "5"), 2) == later(Point(2, "5"), None, 2) == Point(2, "5")


def test_a_sink_may_lag_behind_an_informer() -> None:
    found = Frontier(
        1, "prod", 1, "", "", 0, informers={"a": Point(1, "9"), "b": Point(1, "9"), "c": None},
        sinks={"fast": SinkFrontier(), "slow": SinkFrontier(behind={"a": Point(1, "4"), "b": None})},
    )  # fmt: skip
    assert [found.of("fast", each) for each in "abcd"] == [Point(1, "9"), Point(1, "9"), None, None]
    assert [found.of("slow", each) for each in "abcd"] == [Point(1, "4"), None, None, None]
    assert found.of("unknown", "a") is None


def test_an_informer_has_the_same_key_on_every_replica() -> None:
    keys = {
        informer_key(resource, scope)
        for resource in ("pods", "deployments.apps")
        for scope in (Scope(), Scope("shop"), Scope("", "app=web"), Scope(None, "app=web"), Scope(None, "", "app=web"))
    }
    assert len(keys) == 10
    assert informer_key("pods", Scope()) == informer_key("pods", Scope())
    assert all(len(key) == 13 and key.isalnum() for key in keys)
