"""What an answer proves of a server's history."""

from __future__ import annotations

import pytest

from bridge.informer.history.proof import OtherHistory, Seen, is_behind, is_other_state, now, was_gone, was_there
from bridge.model.answers import Expired, Unsupported
from bridge.model.change import ObjectVersion
from bridge.model.object import ApiObject
from bridge.model.versions import Deleted
from tests.kit.objects import a_pod
from tests.kit.scripted_source import page

WEB = a_pod("web")
KNOWN = WEB.at(7)
REMEMBERED = ObjectVersion(KNOWN.uid, "7", b"")
REBORN = WEB.born_again()


def thing(body: str) -> ApiObject:
    return ApiObject("shop/web", "uid", "7", body.encode())


@pytest.mark.parametrize(("at", "behind"), [(6, True), (7, False), (8, False), ("opaque", False)])
def test_a_newest_version_below_a_delivered_one_is_a_new_history(at: str | int, behind: bool) -> None:
    assert isinstance(is_behind(page(at=at), "7"), OtherHistory) is behind


def test_the_object_was_there_at_its_version() -> None:
    assert was_there(page(KNOWN, at=7), KNOWN.key, KNOWN) == KNOWN


@pytest.mark.parametrize("found", [[], [WEB.at(5)], [REBORN.at(7)]], ids=["nothing", "an older one", "another one"])
def test_where_something_else_was_there_it_is_another_history(found: list[ApiObject]) -> None:
    assert isinstance(was_there(page(*found, at=7), KNOWN.key, KNOWN), OtherHistory)


@pytest.mark.parametrize(
    "answer",
    [Expired("compacted"), Unsupported("400"), page(WEB.at(9), at=9), page(at=7, unreadable=("no uid",))],
    ids=["its version is forgotten", "the server refuses to", "the server answers with the newest", "unreadable"],
)
def test_where_the_answer_does_not_say_nothing_is_claimed(answer: object) -> None:
    assert was_there(answer, KNOWN.key, KNOWN) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "seen"),
    [
        (page(KNOWN, at=9), Seen.SAME),
        (page(WEB.at(8), at=9), Seen.NEWER),
        (page(WEB.at(5), at=9), Seen.OLDER),
        (page(REBORN.at(5), at=9), Seen.OLDER),
        (page(REBORN.at(8), at=9), Seen.GONE),
        (page(at=9), Seen.GONE),
        (page(at=9, unreadable=("no uid",)), Seen.UNREADABLE),
    ],
)
def test_what_is_there_now(found: object, seen: Seen) -> None:
    assert now(found, REMEMBERED) is seen  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "known", "other"),
    [
        ('{"data":{"turn":"1"}}', '{"data":{"turn":"1"}}', False),
        ('{"data":{"turn":"1"}}', '{"data":{"turn":"2"}}', True),
        ('{"spec":{"list":[{"a":1}]}}', '{"spec":{"list":[{"a":2}]}}', True),
        ('{"spec":{"list":[1]}}', '{"spec":{"list":[1,2]}}', True),
        ('{"spec":{"a":1,"defaulted":true}}', '{"spec":{"a":1}}', False),
        ('{"apiVersion":"v2","a":1}', '{"apiVersion":"v1","a":2}', False),
        ('{"kind":"Secret","data":{"a":"digest"}}', '{"kind":"Secret","data":{"a":"with another key"}}', False),
        ("no JSON", "{}", False),
    ],
    ids=["same", "changed", "within a list", "longer", "a new default", "another version", "a Secret", "unreadable"],
)
def test_two_states_with_one_version(found: str, known: str, other: bool) -> None:
    assert is_other_state(thing(found), thing(known)) is other


@pytest.mark.parametrize(
    ("version", "found", "proven"),
    [
        ("6", [WEB.at(5)], True),
        ("6", [], None),
        ("6", [REBORN.at(6)], None),
        ("7", [], True),
        ("7", [REBORN.at(7)], True),
        ("7", [WEB.at(5)], None),
    ],
    ids=["there", "not there", "another", "gone", "gone, and made again", "still there"],
)
def test_a_delete_is_proven_by_the_states_before_and_at_it(
    version: str, found: list[ApiObject], proven: bool | None
) -> None:
    shown = was_gone(page(*found, at=version), version, Deleted(KNOWN.key, KNOWN.uid, "7"))

    assert shown is True if proven else isinstance(shown, OtherHistory)


@pytest.mark.parametrize(
    "answer", [Expired("compacted"), page(at=9), page(at=7, unreadable=("no uid",)), page(KNOWN, at=7)]
)
def test_an_unclear_answer_claims_nothing_of_a_delete(answer: object) -> None:
    assert was_gone(answer, "7", Deleted(KNOWN.key, KNOWN.uid, "7")) is False  # type: ignore[arg-type]
