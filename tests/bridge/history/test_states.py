"""What a file answers about points in the past."""

from __future__ import annotations

import stat
from contextlib import closing
from pathlib import Path

import apsw
import msgspec
import pytest
from msgspec.structs import replace

from bridge.history import HistoryFile, NotInHistory, PastPoint
from bridge.history.points import in_words
from bridge.history.recorder import HistoryBounds, Recorder
from tests.bridge.history.streams import EVERYTHING, Stream, build, found, point, states, time_of

NOW = PastPoint.parsed("now")


def test_every_state_is_answered_as_it_was_at_a_time_in_the_steps_and_behind_a_point(tmp_path: Path) -> None:
    stream = Stream()
    for number in range(1, 60):
        stream.tell("web", {"metadata": {"name": "web"}, "spec": {"replicas": number, "image": "x" * 500}})

    path = build(tmp_path / "k8s.db", stream.events)

    for number in range(1, 60):
        assert states(path, point(number))["web"]["spec"]["replicas"] == number
    with HistoryFile.open(path) as history:
        assert [step.state for step in history.steps("pods", "web", "shop")] == [each.data for each in stream.events]
        assert [step.state for step in history.changes(point(30))] == [each.data for each in stream.events[30:]]


def test_an_object_that_comes_back_is_another_one_with_its_own_steps(tmp_path: Path) -> None:
    stream = Stream()
    stream.tell("web", {"n": 1}, "added", uid="first")
    stream.tell("web", {"n": 2}, "added", uid="second")

    path = build(tmp_path / "k8s.db", stream.events)

    with HistoryFile.open(path) as history:
        told = [(step.uid, step.op, step.evidence) for step in history.steps("pods", "web")]
    assert told == [("first", "added", "watched"), ("first", "deleted", "replaced"), ("second", "added", "watched")]
    assert [each.uid for each in found(path, point(1))] == ["first"]
    assert [each.uid for each in found(path, NOW)] == ["second"]


def test_an_object_that_left_the_view_may_come_back_as_it_was(tmp_path: Path) -> None:
    stream = Stream()
    stream.tell("web", {"n": 1}, "added")
    stream.tell("web", {"n": 1}, "deleted", evidence="unselected")
    stream.tell("web", {"n": 1}, "added")

    path = build(tmp_path / "k8s.db", stream.events)

    assert states(path, point(2)) == {}
    assert states(path, NOW) == {"web": {"n": 1}}


def test_repetitions_and_older_records_are_no_steps(tmp_path: Path) -> None:
    stream = Stream()
    for number in range(5):
        stream.tell("web", {"n": number})
    path = build(tmp_path / "k8s.db", stream.events)

    build(path, [*stream.events, *stream.events])

    with HistoryFile.open(path) as history:
        assert [step.sequence for step in history.steps("po", "web")] == [1, 2, 3, 4, 5]


def test_two_points_differ_by_pairs_and_an_object_that_was_replaced_is_two(tmp_path: Path) -> None:
    stream = Stream()
    for name in "abde":
        stream.tell(name, {"n": 1}, "added")
    began = stream.number
    stream.tell("a", {"n": 2})
    stream.tell("b", {"n": 1}, "deleted")
    stream.tell("b", {"n": 3}, "added", uid="another")
    stream.tell("c", {"n": 1}, "added")
    stream.tell("d", {"n": 1}, "deleted")
    path = build(tmp_path / "k8s.db", stream.events)

    with HistoryFile.open(path) as history:
        pairs = [
            [None if each is None else (each.key[-1], each.uid) for each in pair]
            for pair in history.compared(point(began), NOW)
        ]
    assert pairs == [
        [("a", "uid-a"), ("a", "uid-a")],
        [("b", "uid-b"), None],
        [None, ("b", "another")],
        [None, ("c", "uid-c")],
        [("d", "uid-d"), None],
    ]


def test_a_version_is_exact_for_its_resource(tmp_path: Path) -> None:
    stream = Stream()
    stream.tell("a", {"n": 1}, version="10")
    stream.tell("b", {"n": 2}, version="12")
    stream.tell("a", {"n": 3}, version="11", evidence="relisted")
    stream.tell("a", {"n": 4}, version="13")
    path = build(tmp_path / "k8s.db", stream.events)

    assert states(path, PastPoint.parsed("pods=11")) == {"a": {"n": 3}}
    assert states(path, PastPoint.parsed("po=12")) == {"a": {"n": 3}, "b": {"n": 2}}
    with HistoryFile.open(path) as history:
        assert history.bound(PastPoint.parsed("pods=13")).text.startswith("exact for pods; ")
        behind = history.bound(PastPoint.parsed("po=14"))
        assert behind.text.startswith("the file ends before that: the newest version of pods is 13; ")
        with pytest.raises(NotInHistory, match="begins with a later version"):
            history.bound(PastPoint.parsed("pods=9"))


def test_a_resource_is_named_as_for_kubectl_and_an_unknown_one_names_those_of_the_file(tmp_path: Path) -> None:
    stream = Stream()
    stream.tell("a", {"apiVersion": "v1", "kind": "Pod"})
    stream.tell("b", {"apiVersion": "v1", "kind": "Secret"}, plural="secrets")
    path = build(tmp_path / "k8s.db", stream.events)

    for name in ("po", "pod", "Pod", "pods"):
        assert [each.version for each in found(path, NOW, resource=name)] == ["1"]
    assert found(path, NOW, resource="secret", namespace="other") == []
    with pytest.raises(NotInHistory, match="no resource deploy; it has: pods, secrets"):
        found(path, NOW, resource="deploy")


def test_a_file_has_one_stream_and_is_private(tmp_path: Path) -> None:
    stream = Stream()
    stream.tell("a", {"n": 1})
    path = build(tmp_path / "k8s.db", stream.events)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(NotInHistory, match="has the history of a test; name another file for the stream k8s"):
        Recorder(path, "the stream k8s", EVERYTHING)
    (tmp_path / "other.db").write_bytes(b"something else" * 100)
    with pytest.raises(NotInHistory, match="is no history"), HistoryFile.open(tmp_path / "other.db"):
        pass
    with pytest.raises(NotInHistory, match="there is no history"), HistoryFile.open(tmp_path / "none.db"):
        pass


def test_a_kept_time_trims_what_is_older_and_answers_behind_it_as_before(tmp_path: Path) -> None:
    stream = Stream()
    stream.tell("quiet", {"n": 0})
    stream.tell("gone", {"n": 0})
    stream.tell("gone", {"n": 0}, "deleted")
    for number in range(200):
        stream.tell("web", {"n": number, "pad": "x" * 200})
    whole = build(tmp_path / "whole.db", stream.events)

    path = build(tmp_path / "k8s.db", stream.events, HistoryBounds(keep=50, max_bytes=1 << 40))

    with HistoryFile.open(path) as history:
        kept = [step.sequence for step in history.steps("pods", "web")]
        with pytest.raises(NotInHistory, match="no pods gone; there is quiet, web"):
            list(history.steps("pods", "gone"))
        with pytest.raises(NotInHistory, match="what was before is trimmed"):
            list(history.at(point(100)))
    assert kept == list(range(153, 204))
    for number in range(153, 204):
        assert states(path, point(number)) == states(whole, point(number))


def test_a_record_of_the_future_trims_nothing(tmp_path: Path) -> None:
    stream = Stream()
    for number in range(4):
        stream.tell("web", {"n": number})
    events = [*stream.events]
    events[2] = msgspec.structs.replace(events[2], time="2999-01-01T00:00:00Z")

    path = build(tmp_path / "k8s.db", events, HistoryBounds(keep=50 * 365 * 86_400, max_bytes=1 << 40))

    with HistoryFile.open(path) as history:
        assert [step.sequence for step in history.steps("pods", "web")] == [1, 2, 3, 4]
    assert states(path, point(2)) == {"web": {"n": 1}}
    assert states(path, NOW) == {"web": {"n": 3}}


def test_a_size_bounds_the_file(tmp_path: Path) -> None:
    stream = Stream()
    bounds = HistoryBounds(keep=1e9, max_bytes=400_000)
    for number in range(3000):
        stream.tell(f"web-{number % 7}", {"n": number, "noise": [hash((number, each)) for each in range(60)]})

    path = build(tmp_path / "k8s.db", stream.events, bounds)

    assert path.stat().st_size < 600_000
    with HistoryFile.open(path) as history:
        since = min(step.time for name in range(7) for step in history.steps("pods", f"web-{name}"))
    assert since > time_of(1000)
    assert states(path, NOW) == {
        f"web-{number % 7}": msgspec.json.decode(stream.events[number].data) for number in range(2993, 3000)
    }


def test_a_resource_has_a_dictionary_once_enough_of_it_was_told(tmp_path: Path) -> None:
    stream = Stream()
    for number in range(600):
        stream.tell(f"web-{number % 300}", {"n": number, "text": [f"{number}-{each}" for each in range(500)]})
    path = build(tmp_path / "k8s.db", stream.events, batch=100)

    build(path, stream.events)

    with closing(apsw.Connection(str(path))) as database:
        assert [resource for (resource,) in database.execute("SELECT resource FROM dictionaries")] == [1]
    assert states(path, NOW) == {f"web-{n - 300}": msgspec.json.decode(stream.events[n].data) for n in range(300, 600)}


def test_a_time_before_1970_is_none(tmp_path: Path) -> None:
    stream = Stream()
    event = stream.tell("a", {"n": 1})
    path = build(tmp_path / "k8s.db", [replace(event, time="0001-01-01T00:00:00+14:00")])

    with HistoryFile.open(path) as history:
        [step] = history.steps("pods", "a")
    assert in_words(step.time) == "1970-01-01T00:00:00.000Z"


def test_a_state_is_at_most_sixteen_steps_from_a_whole_one_also_where_nothing_changed(tmp_path: Path) -> None:
    stream = Stream()
    stream.tell("a", {"n": 1}, "added")
    stream.notice("gap", {"resources": None, "reason": "x"})
    for _ in range(40):
        stream.tell("a", {"n": 1}, "sync", evidence="listed")
    path = build(tmp_path / "k8s.db", stream.events)

    with HistoryFile.open(path) as history:
        assert [(step.state, step.blind) for step in history.steps("pods", "a")] == [(b'{"n":1}', None)] * 41
    steps = apsw.Connection(str(path)).execute("SELECT whole FROM steps ORDER BY id")
    assert [number for number, (whole,) in enumerate(steps) if whole] == [16, 32]
