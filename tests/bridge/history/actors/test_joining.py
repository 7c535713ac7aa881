"""Which request made a step, and how exactly that is known."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from bridge.history.actors.audit import Actor, Join
from bridge.history.actors.joining import StepOfObject, made_by

NOON = datetime.fromisoformat("2026-11-27T12:00:00+00:00")


def step(version: str, before: str | None = None, *, deleted: bool = False, at: float = 0.0) -> StepOfObject:
    return StepOfObject(uid="u", version=version, before=before, deleted=deleted, time=NOON + timedelta(seconds=at))


def actor(
    id: str, join: Join, verb: str = "update", *, at: float = 0.0, uid: str = "u", version: str = "", before: str = ""
) -> Actor:
    moment = (NOON + timedelta(seconds=at)).isoformat()
    return Actor(
        id=id,
        key="k",
        verb=verb,
        join=join,
        received=moment,
        completed=moment,
        uid=uid,
        version=version,
        before=before,
    )


def made(steps: list[StepOfObject], *actors: Actor) -> list[tuple[str, Join] | None]:
    return [None if each is None else (each.actor.id, each.join) for each in made_by(steps, actors)]


def test_the_version_of_the_answer_names_the_step() -> None:
    found = made(
        [step("1"), step("2", "1")], actor("b", Join.VERSION, version="2"), actor("a", Join.VERSION, version="1")
    )
    assert found == [("a", Join.VERSION), ("b", Join.VERSION)]


def test_of_requests_with_one_version_the_first_made_it() -> None:
    """A request that changed nothing is answered with the present version."""
    again = actor("no-op", Join.VERSION, version="2", at=5)
    assert made([step("2", "1")], again, actor("real", Join.VERSION, version="2")) == [("real", Join.VERSION)]


def test_an_object_is_deleted_once() -> None:
    gone = actor("delete", Join.VERSION, "delete")
    assert made([step("1", at=-60), step("9", "1", deleted=True)], gone) == [None, ("delete", Join.VERSION)]


def test_the_version_before_names_the_step() -> None:
    assert made([step("2", "1"), step("3", "2")], actor("a", Join.BEFORE, before="2")) == [None, ("a", Join.BEFORE)]


def test_of_two_requests_with_one_version_before_the_time_decides_or_nobody() -> None:
    early = actor("early", Join.BEFORE, before="1", at=-60)
    late = actor("late", Join.BEFORE, before="1")
    assert made([step("2", "1")], early, late) == [("late", Join.BEFORE)]
    assert made([step("2", "1")], actor("other", Join.BEFORE, before="1"), late) == [None]


def test_a_single_request_around_the_step_is_its_likely_one() -> None:
    around = actor("around", Join.WINDOW, uid="", at=-0.5)
    assert made([step("2", "1")], around) == [("around", Join.WINDOW)]
    assert made([step("2", "1")], around, actor("other", Join.WINDOW, uid="", at=-0.2)) == [None]
    assert made([step("2", "1", at=60)], around) == [None]
    assert made([step("2", "1", deleted=True)], around) == [None]


def test_a_request_that_may_have_made_either_of_two_steps_is_named_for_none() -> None:
    steps = [step("2", "1"), step("3", "2")]
    assert made(steps, actor("a", Join.WINDOW, uid="")) == [None, None]


def test_a_new_object_was_made_by_its_create_and_a_known_one_by_nobody() -> None:
    create = actor("create", Join.BEFORE, "create")
    assert made([step("1", "")], create) == [("create", Join.BEFORE)]
    assert made([step("7", at=99)], create) == [None]


def test_a_delete_may_make_two_steps() -> None:
    steps = [step("2", "1"), step("3", "2", deleted=True)]
    gone = actor("delete", Join.VERSION, "delete", version="3")
    assert made(steps, gone) == [("delete", Join.WINDOW), ("delete", Join.VERSION)]
    assert made([step("2", "1", at=-60), steps[1]], gone) == [None, ("delete", Join.VERSION)]


def test_another_object_of_the_name_is_another_object() -> None:
    assert made([step("1")], actor("former", Join.VERSION, uid="v", version="1")) == [None]


def test_a_request_that_changed_nothing_is_not_named_for_a_step_that_came_later() -> None:
    """Another one, such as a binding, made the step, and its request says neither version."""
    steps = [step("2", "1"), step("3", "2", at=0.5)]
    real, again = actor("real", Join.VERSION, version="2"), actor("no-op", Join.VERSION, version="2", at=0.4)
    binding = actor("binding", Join.WINDOW, "create", uid="", at=0.45)
    assert made(steps, real, again, binding) == [("real", Join.VERSION), ("binding", Join.WINDOW)]


def test_times_that_are_none_name_nobody() -> None:
    hostile = Actor(id="x", key="k", verb="update", join=Join.WINDOW, received="soon", completed="later")
    nowhere = Actor(id="y", key="k", verb="update", join=Join.WINDOW, received="2026-11-27", completed="2026-11-28")
    late = msgspec.structs.replace(actor("a", Join.WINDOW), completed="9999-12-31T23:59:59.999999Z")
    assert made([step("2", "1")], hostile, nowhere, late) == [None]
