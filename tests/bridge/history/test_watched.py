"""What a bridge watched, as the ends of its snapshots tell it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bridge.history import HistoryFile, NotInHistory
from bridge.history.file import Watched
from bridge.history.recorder import HistoryBounds
from tests.bridge.history.streams import Stream, build, time_of

LIVE = {"resource": "pods", "state": "live"}
ALL = Watched(True, "the bridge watched all of it")
NOTHING = Watched(False, "the bridge did not watch it")


def stream_of(*watched: Any) -> Stream:
    """A pod, and a snapshot for each of these."""
    stream = Stream()
    stream.tell("web", {"n": 1})
    for parts in watched:
        stream.snapshot({"web": {"n": 1}}, watched=parts)
    return stream


def watched_at(path: Path, resource: str, time: int | None = None) -> Watched | None:
    with HistoryFile.open(path) as history:
        return history.watched(resource, time)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([LIVE], "the bridge watched all of it"),
        ([LIVE | {"state": "reconnecting"}], "the bridge watched all of it"),
        ([LIVE | {"state": "refused"}], "the bridge watched all (refused)"),
        ([LIVE | {"namespace": "shop"}], "the bridge watched namespace shop"),
        ([LIVE | {"label_selector": "tier=web"}], "the bridge watched tier=web"),
        (
            [LIVE | {"namespace": "shop"}, LIVE | {"namespace": "till", "state": "refused"}],
            "the bridge watched namespace shop; namespace till (refused)",
        ),
        (
            [LIVE, LIVE | {"namespace": "till", "state": "later"}],
            "the bridge watched namespace till (later); all",
        ),
        ([{"resource": "secrets", "state": "live"}], "the bridge did not watch it"),
        ([], "the bridge did not watch it"),
    ],
)
def test_scope_and_rights_are_told(tmp_path: Path, parts: Any, words: str) -> None:
    path = build(tmp_path / "k8s.db", stream_of(parts).events)

    found = watched_at(path, "pods")

    assert found == Watched(words == ALL.words, words)


def test_each_time_has_what_the_last_snapshot_before_it_told(tmp_path: Path) -> None:
    stream = stream_of([], [LIVE], [LIVE], [])
    ends = [event for event in stream.events if event.type == "kubedelta.snapshot.ended.v1"]
    times = [time_of(stream.events.index(event) + 1) for event in ends]
    path = build(tmp_path / "k8s.db", stream.events)

    assert watched_at(path, "pods", times[0] - 1) is None
    assert [watched_at(path, "pods", time) for time in times] == [NOTHING, ALL, ALL, NOTHING]
    assert watched_at(path, "pods", times[1] - 1) == watched_at(path, "pods") == NOTHING


@pytest.mark.parametrize("parts", [None, "pods", [{"resource": 1}], [["pods"]]])
def test_a_form_that_is_not_known_tells_nothing(tmp_path: Path, parts: Any) -> None:
    path = build(tmp_path / "k8s.db", stream_of([LIVE], parts).events)

    assert watched_at(path, "pods") == ALL


def test_an_error_about_what_is_missing_says_whether_it_was_watched(tmp_path: Path) -> None:
    parts = [LIVE | {"namespace": "shop"}, {"resource": "deployments.apps", "state": "live"}]
    path = build(tmp_path / "k8s.db", stream_of(parts).events)

    with HistoryFile.open(path) as history:
        with pytest.raises(NotInHistory, match=r"no pods db; there is web; the bridge watched namespace shop$"):
            history.expect_known("po", "db")
        with pytest.raises(NotInHistory, match=r"no resource sts; it has: pods; the bridge did not watch it$"):
            history.meant("sts")
        with pytest.raises(NotInHistory, match=r"no resource deploy; it has: pods; the bridge watched all of it$"):
            history.meant("deploy")


def test_a_trim_keeps_what_was_watched_at_the_beginning(tmp_path: Path) -> None:
    stream = stream_of([], [LIVE])
    for number in range(100):
        stream.tell("web", {"n": number})
    path = build(tmp_path / "k8s.db", stream.events, HistoryBounds(keep=20, max_bytes=1 << 40))

    with HistoryFile.open(path) as history:
        assert history.since > time_of(20)
        assert history.watched("pods", history.since) == ALL
        assert history.watched("pods", time_of(3)) is None
