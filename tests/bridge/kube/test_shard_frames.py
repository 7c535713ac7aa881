"""A watch stream for a bridge with a shard: lines of other shards are not decoded, all others as ever."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.kube.wire.frames import Frames, ShardFrames
from bridge.model.answers import Announced, Bookmark, EventType, Unreadable
from bridge.model.primitives.shard import Shard, ShardBy
from tests.bridge.kube.written import bookmark, line
from tests.kit.examples import examples
from tests.kit.records import PODS

SHARD = Shard(2, 0)
OWN, OTHER = "ff2f0d3e-0000-4000-8000-000000000001", "6a2f0d3e-0000-4000-8000-000000000001"


def of(uid: str, version: int = 7, kind: str = "MODIFIED", metadata: Mapping[str, str] | None = None) -> bytes:
    named = {"name": "web", **(metadata or {}), "namespace": "shop", "uid": uid, "resourceVersion": str(version)}
    return line(kind, {"kind": "Pod", "apiVersion": "v1", "metadata": named, "spec": {"nodeName": "n"}})


def shard_frames(shard: Shard = SHARD) -> ShardFrames:
    return ShardFrames(PODS, shard)


def test_the_uids_of_these_tests_are_in_different_shards() -> None:
    assert SHARD.contains(OWN, "shop/web")
    assert not SHARD.contains(OTHER, "shop/web")


@pytest.mark.parametrize("kind", EventType)
@pytest.mark.parametrize("metadata", [{}, {"generateName": "web-"}])
def test_an_object_of_another_shard_has_no_body(kind: EventType, metadata: dict[str, str]) -> None:
    [answer] = shard_frames().feed(of(OTHER, kind=kind, metadata=metadata))

    assert isinstance(answer, Announced)
    [(event, thing)] = answer.events
    assert (event, thing.key, thing.uid, thing.resource_version, thing.body) == (kind, "shop/web", OTHER, "7", b"")


def test_it_need_not_even_be_json() -> None:
    broken = of(OTHER).replace(b'"spec"', b"spec")

    assert isinstance(Frames(PODS).feed(broken)[0], Unreadable)
    assert isinstance(shard_frames().feed(broken)[0], Announced)


def test_by_namespace_the_namespace_decides() -> None:
    shards = [Shard(2, index, ShardBy.NAMESPACE) for index in range(2)]
    bodies = [each.body for shard in shards for _, each in announced(shard_frames(shard), of(OWN))]

    assert sorted(map(bool, bodies)) == [False, True]


def announced(frames: Frames, lines: bytes) -> list[Any]:
    return [event for answer in frames.feed(lines) if isinstance(answer, Announced) for event in answer.events]


@pytest.mark.parametrize(
    "other",
    [
        of(OTHER).replace(b'"name":"web"', b'"name":"w\\u0065b"'),
        of(OTHER).replace(b'"kind":"Pod","apiVersion":"v1"', b'"apiVersion":"v1","kind":"Pod"'),
        of(OTHER).replace(b'"type":"MODIFIED"', b'"type": "MODIFIED"'),
    ],
)
def test_a_line_in_another_format_is_read_as_ever(other: bytes) -> None:
    assert announced(shard_frames(), other) == announced(Frames(PODS), other) != []


def test_bookmarks_pass() -> None:
    assert shard_frames().feed(bookmark("9")) == [Bookmark("9")]


@examples(50)
@given(st.lists(st.tuples(st.uuids().map(str), st.sampled_from(EventType)), min_size=1), st.integers(1, 400))
def test_own_objects_are_read_as_without_a_shard(drawn: list[tuple[str, EventType]], size: int) -> None:
    lines = b"".join(of(uid, number, kind) for number, (uid, kind) in enumerate(drawn, 1))
    sharded, whole = shard_frames(), Frames(PODS)
    pieces = [lines[at : at + size] for at in range(0, len(lines), size)]

    found = [event for piece in pieces for event in announced(sharded, piece)]
    expected = [event for piece in pieces for event in announced(whole, piece)]

    assert [each for each in found if SHARD.contains(each[1].uid, "")] == [
        each for each in expected if SHARD.contains(each[1].uid, "")
    ]
    assert [each[1].resource_version for each in found] == [each[1].resource_version for each in expected]
