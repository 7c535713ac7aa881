"""What the stream has left out is told."""

from __future__ import annotations

from pathlib import Path

from bridge.history import HistoryFile, PastPoint
from tests.bridge.history.streams import Stream, build, found, point, states, time_of

NOW = PastPoint.parsed("now")


def uncertain(path: Path, at: PastPoint) -> dict[str, str]:
    return {each.key.rsplit("/", 1)[1]: each.uncertain for each in found(path, at)}


def test_a_gap_makes_the_states_of_its_resources_uncertain_from_then_on_until_a_snapshot_ends(tmp_path: Path) -> None:
    stream = Stream()
    stream.tell("web", {"n": 1})
    stream.tell("token", {"n": 2}, plural="secrets")
    stream.notice("gap", {"first": 3, "last": 3, "count": 1, "reason": "the backlog was full", "resources": ["pods"]})
    before = stream.number
    stream.tell("other", {"n": 3})
    stream.notice("snapshot.began", {"count": 3}, snapshot="s")
    began = stream.number
    for name, plural, number in (("web", "pods", 9), ("other", "pods", 3), ("token", "secrets", 2)):
        stream.tell(name, {"n": number}, "sync", plural=plural, snapshot="s", sequence=began)
    stream.notice("snapshot.ended", {"count": 3, "objects": 3}, snapshot="s", sequence=began)
    path = build(tmp_path / "k8s.db", stream.events)

    words = "1 record never came: the backlog was full"
    assert uncertain(path, point(2)) == {"web": "", "token": ""}
    assert uncertain(path, point(before)) == {"web": words, "token": ""}
    assert uncertain(path, point(before + 1)) == {"web": words, "token": "", "other": ""}
    assert uncertain(path, NOW) == {"web": "", "token": "", "other": ""}


def test_an_object_that_is_told_again_as_it_was_is_certain_again(tmp_path: Path) -> None:
    stream = Stream()
    stream.tell("web", {"n": 1})
    stream.notice("gap", {"reason": "lost", "resources": None})
    stream.tell("web", {"n": 1}, "sync")
    path = build(tmp_path / "k8s.db", stream.events)

    assert uncertain(path, point(2))["web"] == "records never came: lost"
    assert uncertain(path, point(3))["web"] == uncertain(path, NOW)["web"] == ""


def test_a_sync_that_changes_nothing_is_no_step_without_a_gap(tmp_path: Path) -> None:
    stream = Stream()
    stream.tell("web", {"n": 1})
    stream.snapshot({"web": {"n": 1}})
    path = build(tmp_path / "k8s.db", stream.events)

    with HistoryFile.open(path) as history:
        assert [step.op for step in history.steps("pods", "web")] == ["updated"]


def test_a_snapshot_ends_objects_that_it_lacks_and_steps_behind_a_hole_say_so(tmp_path: Path) -> None:
    stream = Stream()
    stream.tell("web", {"n": 1})
    stream.tell("gone", {"n": 1})
    stream.snapshot({"web": {"n": 5}})
    path = build(tmp_path / "k8s.db", stream.events)

    assert states(path, NOW) == {"web": {"n": 5}}
    assert states(path, point(2)) == {"web": {"n": 1}, "gone": {"n": 1}}
    with HistoryFile.open(path) as history:
        assert [(step.op, step.evidence, step.blind) for step in history.steps("pods", "gone")] == [
            ("updated", "watched", None),
            ("deleted", "swept", time_of(2)),
        ]
        assert [step.blind for step in history.steps("pods", "web")] == [None, time_of(2)]


def test_a_state_is_uncertain_while_the_bridge_may_have_been_blind_for_the_next_one(tmp_path: Path) -> None:
    stream = Stream()
    stream.tell("web", {"n": 1})
    stream.tell("token", {"n": 1}, plural="secrets")
    stream.tell("other", {"n": 1})
    stream.tell("quiet", {"n": 1}, plural="secrets")
    stream.tell("web", {"n": 9}, evidence="relisted")
    path = build(tmp_path / "k8s.db", stream.events)

    words = "the bridge did not see the next change, which it found later by a comparison"
    assert uncertain(path, point(2)) == {"web": "", "token": ""}
    assert uncertain(path, point(4)) == {"web": words, "token": "", "other": "", "quiet": ""}
    assert uncertain(path, PastPoint.parsed("pods=3"))["web"] == words
    assert set(uncertain(path, NOW).values()) == {""}


def test_an_epoch_makes_the_states_of_its_resource_uncertain(tmp_path: Path) -> None:
    stream = Stream()
    stream.tell("web", {"n": 1})
    stream.tell("other", {"n": 1}, epoch=2)
    path = build(tmp_path / "k8s.db", stream.events)

    assert uncertain(path, NOW) == {"web": "versions of the API server ran backwards", "other": ""}


def test_coverage_tells_since_when_a_resource_is_told_and_whether_with_all_its_objects(tmp_path: Path) -> None:
    stream = Stream()
    stream.tell("web", {"n": 1}, "added", evidence="listed")
    stream.tell("token", {"n": 1}, plural="secrets")
    stream.snapshot({"web": {"n": 1}})
    path = build(tmp_path / "k8s.db", stream.events)

    with HistoryFile.open(path) as history:
        assert [(each.resource, each.how) for each in history.coverage()] == [
            ("pods", "listed"),
            ("secrets", "records"),
            ("secrets", "snapshot"),
        ]
