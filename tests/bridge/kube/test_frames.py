from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.kube.wire.frames import Frames
from bridge.kube.wire.objects import LONGEST_NAME, LONGEST_NAMESPACE, LONGEST_UID, LONGEST_VERSION
from bridge.model.answers import (
    Announced,
    Bookmark,
    Busy,
    EventType,
    Expired,
    Failed,
    Unreadable,
    Unsupported,
    WatchAnswer,
)
from bridge.model.object import ApiObject
from bridge.model.resource import Resource
from tests.bridge.kube.written import INITIAL_EVENTS_END, bookmark, compact, line, pod, status
from tests.kit.objects import BEYOND_ANY_STACK
from tests.kit.records import PODS

WIDGETS = Resource("example.com", "v1", "widgets", "Widget", namespaced=True)

LINE_ENDS_OF_OTHERS = "\x85\u2028\u2029\x0b\x0c\x1c"
"""What str.splitlines cuts at, and JSON lines must not be cut at."""

DEEP = b"[" * 100_000 + b"]" * 100_000


def read(*chunks: bytes, frames: Frames | None = None) -> list[WatchAnswer]:
    frames = frames or Frames(PODS)
    return [answer for chunk in chunks for answer in frames.feed(chunk)]


def events(answers: list[WatchAnswer]) -> list[tuple[EventType, ApiObject]]:
    return [event for answer in answers if isinstance(answer, Announced) for event in answer.events]


def test_an_event_is_parsed_and_its_object_keeps_the_bytes() -> None:
    body = compact(pod(spec={"text": "süß – 東京", "numbers": "HERE"}))
    body = body.replace(b'"HERE"', b"[1.0,1.50,1e400,123456789012345678901234567890]")  # No decoder would keep these.
    [(kind, found)] = events(read(b'{"type":"MODIFIED","object":%b}' % body + b"\n"))
    assert kind is EventType.MODIFIED
    assert found == ApiObject("shop/web-1", "uid-web-1", "7", body)


def test_a_cluster_scoped_object_is_known_by_its_name_alone() -> None:
    node = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1", "uid": "u", "resourceVersion": "1"}}
    [(_, found)] = events(read(line("ADDED", node)))
    assert found.key == "n1"


def test_events_side_by_side_are_one_announcement_and_all_else_stays_in_its_place() -> None:
    chunk = line("ADDED", pod("a")) + bookmark("8") + line("MODIFIED", pod("b")) + b"nonsense\n"
    answers = read(chunk + line("ADDED", pod("c")) + line("DELETED", pod("d")))
    assert [type(answer) for answer in answers] == [Announced, Bookmark, Announced, Unreadable, Announced]
    found = [(kind.value, thing.name) for kind, thing in events(answers)]
    assert found == [("ADDED", "a"), ("MODIFIED", "b"), ("ADDED", "c"), ("DELETED", "d")]


def test_a_bookmark_has_its_version_and_says_whether_it_closes_the_initial_events() -> None:
    assert read(bookmark("41")) == [Bookmark("41")]
    assert read(bookmark("41", **INITIAL_EVENTS_END)) == [Bookmark("41", initial_events_end=True)]
    odd = bookmark("9").replace(b'"annotations":{}', b'"annotations":{"a":null,"b":[1]}')
    assert read(odd) == [Bookmark("9")]


def test_a_line_cut_off_by_the_streams_end_is_ignored() -> None:
    frames = Frames(PODS)
    answers = read(line("ADDED", pod("a")), line("ADDED", pod("b"))[:-2], frames=frames)
    assert [thing.name for _, thing in events(answers)] == ["a"]
    assert len(answers) == 1
    assert frames.mid_line


def test_other_line_ends_inside_strings_do_not_end_a_line() -> None:
    [(_, found)] = events(read(line("ADDED", pod(data=f"one{LINE_ENDS_OF_OTHERS}two"))))
    assert found.manifest()["data"] == f"one{LINE_ENDS_OF_OTHERS}two"


# ── Bad input ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "bad",
    [
        b'{"type":"MODIFIED","object":{"kind":"Pod",}}\n',
        b'{"type":"MODIFIED","object":{"kind":"Pod"\n',
        b"nonsense\n",
        b"[1,2,3]\n",
        b'"a string"\n',
        b'{"type":"MODIFIED"}\n',
        b'{"type":"MODIFIED","object":null}\n',
        b'{"type":"MODIFIED","object":[]}\n',
        b'{"type":7,"object":{}}\n',
        line("RENAMED", pod()),
        line("BOOKMARK", {"kind": "Pod", "metadata": {}}),
        line("BOOKMARK", {"kind": "Pod"}),
        line("ADDED", pod("c")).replace(b'"c"', b'"\xff"'),
        line("BOOKMARK", {"metadata": {"resourceVersion": "9", "annotations": "deep"}}).replace(b'"deep"', DEEP),
    ],
)
def test_a_malformed_line_is_reported_and_loses_nothing_else(bad: bytes) -> None:
    answers = read(line("ADDED", pod("a")) + bad + line("ADDED", pod("b")))
    assert [type(answer) for answer in answers] == [Announced, Unreadable, Announced]
    assert [thing.name for _, thing in events(answers)] == ["a", "b"]


@pytest.mark.parametrize(
    ("thing", "reason"),
    [
        ({"kind": "Pod", "apiVersion": "v1"}, "ADDED: an object without metadata"),
        ({"kind": "Pod", "apiVersion": "v1", "metadata": None}, "ADDED: an object without metadata"),
        ({"kind": "Pod", "apiVersion": "v1", "metadata": {}}, "ADDED: an object without metadata.name"),
        (pod() | {"metadata": {"name": "x", "resourceVersion": "1"}}, "ADDED: x has no metadata.uid"),
        (
            pod() | {"metadata": {"name": "x", "namespace": "n", "uid": "u"}},
            "ADDED: n/x has no metadata.resourceVersion",
        ),
        ({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "rows": []}, "ADDED: a Table, not an object"),
    ],
)
def test_an_object_without_identity_is_reported_with_its_lack(thing: Any, reason: str) -> None:
    assert read(line("ADDED", thing)) == [Unreadable(reason)]


def test_the_report_of_a_bad_line_has_none_of_its_content() -> None:
    secret = "hunter2"
    bad = [
        b'{"type":"MODIFIED","object":{"data":"%b"' % secret.encode() + b"\n",
        line("MODIFIED", {"kind": "Secret", "apiVersion": "v1", "data": {"password": secret}}),
        line("MODIFIED", {"kind": secret, "metadata": {"name": 7}}),
    ]
    for each in bad:
        [answer] = read(each)
        assert isinstance(answer, Unreadable)
        assert secret not in answer.reason
    [answer] = read(b'{"type":"MODIFIED","object":{"kind":"Pod",\n')
    assert isinstance(answer, Unreadable)
    assert answer.reason.startswith("a line of 42 bytes is not a watch event: ")


def test_a_line_of_3_mb_is_an_event_like_any_other() -> None:
    thing = pod(data="x" * 3_000_000)
    chunk = line("ADDED", pod("a")) + line("MODIFIED", thing) + line("ADDED", pod("b"))
    pieces = [chunk[start : start + 16384] for start in range(0, len(chunk), 16384)]
    found = events(read(*pieces))
    assert [len(each.body) > 3_000_000 for _, each in found] == [False, True, False]


@pytest.mark.parametrize("size", [1, 7, 600, 10_000])
@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED"])
def test_an_object_too_long_for_a_line_is_exported_minimal(kind: str, size: int) -> None:
    """Other lines beyond the bound are left out by name."""
    long = line(kind, pod("long", "9", spec="x" * 1200))
    stream = line("ADDED", pod("a")) + long + b"x" * 1200 + b"\n" + line("ADDED", pod("b"))
    frames = Frames(PODS, longest_line=1000)

    answers = read(*(stream[at : at + size] for at in range(0, len(stream), size)), frames=frames)

    found = events(answers)
    assert [(event.value, thing.key) for event, thing in found] == [
        ("ADDED", "shop/a"),
        (kind, "shop/long"),
        ("ADDED", "shop/b"),
    ]
    metadata = {"name": "long", "namespace": "shop", "uid": "uid-long", "resourceVersion": "9"}
    assert found[1][1].manifest() == {"kind": "Pod", "apiVersion": "v1", "metadata": metadata}
    assert frames.left_bare == ["shop/long: it is longer than 1000 bytes"]
    reason = "a line is not a watch event that can be read: it is longer than 1000 bytes"
    assert [answer for answer in answers if not isinstance(answer, Announced)] == [Unreadable(reason)]
    assert not frames.mid_line


def test_an_endless_line_that_was_cut_off_is_thrown_away() -> None:
    frames = Frames(PODS, longest_line=1000)
    assert read(line("ADDED", pod("long", spec="x" * 1200))[:-5], frames=frames) == []
    assert frames.mid_line


@pytest.mark.parametrize(("resource", "depth"), [(WIDGETS, 10_000), (WIDGETS, 100_000), (PODS, BEYOND_ANY_STACK)])
@pytest.mark.parametrize("where", ["spec", "metadata"])
def test_an_object_nested_too_deep_is_exported_minimal(resource: Resource, depth: int, where: str) -> None:
    """Its managed fields are as deep as it is."""
    deep = b'{"a":[' * depth + b"1" + b"]}" * depth
    thing = pod("deep", "9")
    (thing["metadata"] if where == "metadata" else thing)["managedFields"] = "deep"
    thing["metadata"] = dict(sorted(thing["metadata"].items()))
    written = line("MODIFIED", thing).replace(b':"deep"', b":" + deep, 1)
    if where != "metadata":
        written = line("MODIFIED", thing).replace(b'"managedFields":"deep"', b'"managedFields":' + deep)
    frames = Frames(resource)

    answers = read(line("ADDED", pod("a")) + written + line("ADDED", pod("b")), frames=frames)

    [announced] = answers
    assert isinstance(announced, Announced)
    assert [thing.key for _, thing in announced.events] == ["shop/a", "shop/deep", "shop/b"]
    bare = announced.events[1][1]
    assert (bare.uid, bare.resource_version, bare.stripped) == ("uid-deep", "9", True)
    assert b"managedFields" not in bare.body
    [reason] = frames.left_bare
    assert reason.startswith("shop/deep: it is nested ")


def test_joining_a_long_line_takes_time_linear_in_its_length() -> None:
    """Counted in bytes that exist at once, not in seconds: joining at every chunk would copy the line 4,000 times."""
    chunk = b"x" * 4096
    frames = Frames(PODS)
    tracemalloc.start()
    try:
        for _ in range(4000):
            assert frames.feed(chunk) == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 200_000  # The chunk itself is shared; joined, this would be 16 MB.


def test_no_object_keeps_its_chunk_in_memory() -> None:
    filler = line("ADDED", pod("filler", data="x" * 1_000_000))
    tracemalloc.start()
    try:
        kept = [events(read(line("ADDED", pod(f"p-{number}")) + filler))[0] for number in range(20)]
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(kept) == 20
    assert held < 1_000_000


# ── Status in the middle of a watch ──────────────────────────────────────────


@pytest.mark.parametrize(
    ("thing", "answer"),
    [
        (status(410, "Expired", "too old resource version: 1"), Expired("410 Expired: too old resource version: 1")),
        (status(410, "Gone"), Expired("410 Gone")),
        (status(429, "TooManyRequests", "slow down", retryAfterSeconds=3), Busy("429 TooManyRequests: slow down", 3.0)),
        ({"kind": "Pod"}, Failed("an ERROR event without a Status")),
    ],
)
def test_a_status_in_the_middle_of_a_watch_is_its_last_answer(thing: Any, answer: WatchAnswer) -> None:
    """Which answer a Status is, ``test_lister_watcher`` shows of all."""
    frames = Frames(PODS)
    stream = line("ADDED", pod("a")) + line("ERROR", thing) + line("ADDED", pod("b")) + b"half a li"
    assert read(stream, frames=frames)[1:] == [answer]
    assert frames.ended
    assert not frames.mid_line
    assert frames.feed(line("ADDED", pod("c"))) == []


def test_an_error_that_cannot_be_read_is_one_all_the_same() -> None:
    bad = b'{"type":"ERROR","object":{"kind":"Status","message":"\xff"}}\n'
    assert read(bad) == [Failed("an ERROR event without a Status")]


def test_a_status_without_an_event_around_it_is_understood_too() -> None:
    assert read(compact(status(504, "Timeout", "late")) + b"\n") == [Failed("504 Timeout: late")]


def test_a_refused_watch_list_inside_the_stream_asks_for_a_list() -> None:
    frames = Frames(PODS, initial_events=True)
    [answer] = read(line("ERROR", status(422, "Invalid", "no sendInitialEvents here")), frames=frames)
    assert answer == Unsupported("422 Invalid: no sendInitialEvents here")


def test_a_servers_words_are_put_on_one_line_and_cut_short() -> None:
    [answer] = read(line("ERROR", status(500, "InternalError", "first\nsecond\u2028" + "x" * 5000)))
    assert isinstance(answer, Failed)
    assert answer.reason.startswith("500 InternalError: first second xxx")
    assert len(answer.reason) == 300


# ── Other servers than Go's ──────────────────────────────────────────────────


@pytest.mark.parametrize(
    "written",
    [
        b'{"object":%b,"type":"MODIFIED"}\n',
        b'{ "type": "MODIFIED", "object": %b }\n',
        b'{"type":"MODIFIED","object":%b,"more":{"a":1}}\n',
        b'{"type":"MODIFIED","object":%b }\r\n',
        b'  {"type":"MODIFIED","object":%b}\n',
    ],
)
def test_a_line_written_otherwise_gives_the_same_event(written: bytes) -> None:
    body = compact(pod())
    assert events(read(written % body)) == [(EventType.MODIFIED, ApiObject("shop/web-1", "uid-web-1", "7", body))]


def test_an_object_without_a_kind_gets_that_of_the_resource() -> None:
    thing = {"metadata": pod()["metadata"]}
    [(_, found)] = events(read(line("ADDED", thing)))
    assert found.body.startswith(b'{"kind":"Pod","apiVersion":"v1","metadata":')
    assert found.manifest() == pod()


def test_empty_lines_mean_nothing() -> None:
    assert [type(each) for each in read(b"\n\r\n" + line("ADDED", pod()) + b"\n")] == [Announced]


# ── However the stream is cut ────────────────────────────────────────────────

text = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(LINE_ENDS_OF_OTHERS), max_size=20)
things = st.builds(pod, name=st.sampled_from("abc"), version=st.integers(1, 99).map(str), data=text)
lines = st.one_of(
    st.builds(line, st.sampled_from(["ADDED", "MODIFIED", "DELETED"]), things),
    st.builds(bookmark, st.integers(1, 99).map(str)),
    st.sampled_from(
        [
            b"nonsense\n",
            b"\n",
            b'{ "object": {}, "type": "ADDED" }\n',
            b"y" * 3000 + b"\n",
            line("ERROR", status(410, "Expired")),
            line("ADDED", {"kind": "Table"}),
        ]
    ),
)


def flat(answers: list[WatchAnswer]) -> list[object]:
    """Announcements opened up: only how events are grouped may depend on the cuts."""
    return [part for each in answers for part in (each.events if isinstance(each, Announced) else [each])]


@given(st.lists(lines, max_size=8), st.binary(max_size=5), st.lists(st.integers(0, 4000), max_size=12))
def test_the_answers_are_the_same_however_the_bytes_are_cut(found: list[bytes], rest: bytes, cuts: list[int]) -> None:
    stream = b"".join(found) + rest.replace(b"\n", b"")
    places = sorted({min(cut, len(stream)) for cut in cuts})
    chunks = [stream[start:end] for start, end in zip([0, *places], [*places, len(stream)], strict=True)]

    whole, pieces = Frames(PODS, longest_line=2500), Frames(PODS, longest_line=2500)
    assert flat(read(*chunks, frames=pieces)) == flat(read(stream, frames=whole))
    assert (pieces.ended, pieces.mid_line) == (whole.ended, whole.mid_line)


# ── Names that a server or a tenant chooses ──────────────────────────────────

LONG = "9" * 300


@pytest.mark.parametrize(
    ("name", "allowed"), [("uid", LONGEST_UID), ("resourceVersion", LONGEST_VERSION), ("namespace", LONGEST_NAMESPACE)]
)
@pytest.mark.parametrize("spaces", [False, True], ids=["as Go writes it", "another way"])
def test_a_line_with_too_long_an_identity_is_unreadable_alone(name: str, allowed: int, spaces: bool) -> None:
    def written(text: str) -> bytes:
        thing = pod("a")
        thing["metadata"][name] = text
        return line("ADDED", thing).replace(b'{"type"', b'{ "type"' if spaces else b'{"type"')

    good, bad, other = read(written("9" * allowed), written(LONG), line("ADDED", pod("b")))
    assert isinstance(good, Announced)
    assert bad == Unreadable(f"ADDED: the metadata.{name} of a has 300 characters, and at most {allowed} are allowed")
    assert isinstance(other, Announced)


@pytest.mark.parametrize("spaces", [False, True], ids=["as Go writes it", "another way"])
def test_an_object_with_a_long_name_is_left_out_and_named(spaces: bool) -> None:
    """RBAC's kinds have no bound, so any tenant with a right on Roles chooses it: no doubt follows for the others."""
    frames = Frames(PODS)
    long, longest = pod("x" * 600), pod("x" * LONGEST_NAME)
    long["metadata"]["uid"] = longest["metadata"]["uid"] = "u"
    lines = [line(kind, long) for kind in ("ADDED", "MODIFIED", "DELETED")]
    lines = [each.replace(b'{"type"', b'{ "type"') for each in lines] if spaces else lines

    found = read(*lines, line("ADDED", longest), frames=frames)

    assert [thing.name for _, thing in events(found)] == ["x" * LONGEST_NAME]
    assert len(found) == 1
    reason = f"{'x' * 100}…: it is left out, since its name has 600 characters; at most 512 are allowed"
    assert frames.left_bare == [reason] * 3


def test_an_endless_line_with_a_long_name_is_passed_over() -> None:
    frames = Frames(PODS, longest_line=2000)
    long = pod("x" * 600, text="y" * 3000)
    long["metadata"]["uid"] = "u"
    found = read(line("ADDED", long), line("ADDED", pod("b")), frames=frames)
    assert [type(each) for each in found] == [Unreadable, Announced]


def test_a_bookmark_with_too_long_a_version_is_no_position() -> None:
    assert [type(each) for each in read(bookmark(LONG), bookmark("9"))] == [Unreadable, Bookmark]


NOT_THESE: list[Any] = [
    None,
    7,
    -1.5,
    10**400,
    True,
    "",
    "x",
    [],
    [None],
    {},
    {"causes": None},
    {"retryAfterSeconds": "x"},
]


@pytest.mark.parametrize("name", ["code", "reason", "message", "details", "metadata", "status"])
def test_a_status_means_what_its_readable_members_say(name: str) -> None:
    """Two of its members say that the version is expired; a server may spoil any one."""
    for wrong in NOT_THESE:
        spoiled = {**status(410, "Expired", "too old", causes=[{"reason": "x"}]), name: wrong}
        [answer] = read(line("ERROR", spoiled))
        assert isinstance(answer, Expired), wrong


@pytest.mark.parametrize("causes", [None, 7, {}, [None], [7], [{}], [{"reason": None}, {"reason": 7}]])
def test_causes_of_any_form_leave_the_rest_of_a_status(causes: Any) -> None:
    [answer] = read(line("ERROR", status(429, "TooManyRequests", "busy", causes=causes, retryAfterSeconds=3)))
    assert answer == Busy("429 TooManyRequests: busy", 3.0)
