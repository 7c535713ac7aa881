from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.kube.wire.objects import Nesting
from bridge.kube.wire.pages import LONGEST_OBJECT, PageReader
from bridge.model.answers import ErrorAnswer, Expired, Failed, Page
from bridge.model.resource import Resource
from tests.kit.growth import grows_linearly
from tests.kit.objects import BEYOND_ANY_STACK

PODS = Resource("", "v1", "pods", "Pod", namespaced=True)
ENDPOINTS = Resource("", "v1", "endpoints", "Endpoints", namespaced=True)
WIDGETS = Resource("example.com", "v1beta1", "widgets", "Widget", namespaced=True)

NOT_UTF_8 = b'{"kind":"\xff"}'


def item(name: str = "web-1", **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "shop", "uid": f"uid-{name}", "resourceVersion": "7"}, **more}


def page(*items: Any, kind: str = "PodList", **metadata: Any) -> bytes:
    metadata = {"resourceVersion": "41", **metadata}
    found = {"kind": kind, "apiVersion": "v1", "metadata": metadata, "items": items}
    return json.dumps(found, separators=(",", ":")).encode()


def read_page(body: bytes, resource: Resource) -> Page | ErrorAnswer:
    reader = PageReader(resource)
    reader.feed(body)
    return reader.end()


def read(body: bytes, resource: Resource = PODS) -> Page:
    answer = read_page(body, resource)
    assert isinstance(answer, Page)
    return answer


def test_a_page_has_its_objects_the_lists_version_and_the_way_on() -> None:
    answer = read(page(item("a"), item("b"), **{"continue": "token"}))
    assert [thing.key for thing in answer.objects] == ["shop/a", "shop/b"]
    assert [(thing.uid, thing.resource_version) for thing in answer.objects] == [("uid-a", "7"), ("uid-b", "7")]
    assert (answer.version, answer.next_page, answer.unreadable) == ("41", "token", ())


@pytest.mark.parametrize("body", [page(), page(**{"continue": ""}), page().replace(b"[]", b"null")])
def test_the_last_page_leads_nowhere(body: bytes) -> None:
    answer = read(body)
    assert (answer.objects, answer.next_page) == ([], None)


@pytest.mark.parametrize(
    ("resource", "kind", "api_version"),
    [(PODS, "Pod", "v1"), (ENDPOINTS, "Endpoints", "v1"), (WIDGETS, "Widget", "example.com/v1beta1")],
)
def test_list_items_get_their_missing_kind_and_api_version(resource: Resource, kind: str, api_version: str) -> None:
    [thing] = read(page(item(spec={"a": 1}), kind=f"{kind}List"), resource).objects
    assert thing.manifest() == {"kind": kind, "apiVersion": api_version, **item(spec={"a": 1})}
    assert thing.body.startswith(f'{{"kind":"{kind}","apiVersion":"{api_version}","metadata":'.encode())


def test_items_that_say_their_kind_keep_the_servers_bytes() -> None:
    widget = {"apiVersion": "example.com/v1beta1", "kind": "Widget", **item()}
    [thing] = read(page(widget, kind="WidgetList"), WIDGETS).objects
    assert thing.body == json.dumps(widget, separators=(",", ":")).encode()


def test_items_that_say_half_of_it_get_the_other_half() -> None:
    things = read(page({"kind": "Pod", **item("a")}, {"apiVersion": "v1", **item("b")})).objects
    assert [(thing.manifest()["kind"], thing.manifest()["apiVersion"]) for thing in things] == [("Pod", "v1")] * 2
    assert all(thing.body.count(b'"kind"') == thing.body.count(b'"apiVersion"') == 1 for thing in things)


def test_items_without_identity_are_named_and_lose_no_others() -> None:
    nameless = {"metadata": {"uid": "u"}}
    without_uid = {"metadata": {"name": "x", "resourceVersion": "1"}}
    answer = read(page(item("a"), nameless, 7, {}, without_uid, item("b")))
    assert [thing.name for thing in answer.objects] == ["a", "b"]
    assert answer.unreadable == (
        "an object without metadata.name",
        "Expected `object`, got `int`",
        "an object without metadata",
        "x has no metadata.uid",
    )


def test_no_object_keeps_the_page_in_memory() -> None:
    [thing] = read(page(item(), item(data="x" * 100))).objects[:1]
    assert type(thing.body) is bytes


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (page(kind="Table"), "the answer is a Table, not a list"),
        (page(kind="Pod"), "the answer is a Pod, not a list"),
        (b'{"items":[]}', "the answer is a nameless thing, not a list"),
        (page(resourceVersion=""), "the list has no metadata.resourceVersion, from which a watch could start"),
    ],
)
def test_an_answer_that_is_not_a_list_to_go_on_from_is_a_failure(body: bytes, reason: str) -> None:
    assert read_page(body, PODS) == Failed(reason)


@pytest.mark.parametrize("body", [b"", b"[]", b"<html>", page(item())[:-1], page(item()).replace(b":", b""), NOT_UTF_8])
def test_a_malformed_list_is_a_failure(body: bytes) -> None:
    answer = read_page(body, PODS)
    assert isinstance(answer, Failed)
    assert answer.reason.startswith("the list could not be read: ")
    assert "web-1" not in answer.reason


def test_a_status_in_place_of_a_list_is_what_it_says() -> None:
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "token too old"}
    assert read_page(json.dumps(status).encode(), PODS) == Expired("410 Expired: token too old")


# ── As it comes ──────────────────────────────────────────────────────────────


def in_pieces(body: bytes, size: int, longest_object: int = LONGEST_OBJECT, resource: Resource = PODS) -> PageReader:
    reader = PageReader(resource, least=1, longest_object=longest_object)
    for at in range(0, len(body), size):
        reader.feed(body[at : at + size])
    return reader


OWN_KIND: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "inner"}}
LIKE_ITEMS: list[Any] = ['},{"metadata":{"name":"', '},{"apiVersion":"v1","kind":"Pod","metadata":{"name":"']
LIKE_ITEMS += [[OWN_KIND, OWN_KIND], [{"metadata": {"name": "x"}}] * 2]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('{}[],:"\\ aä\n') | st.sampled_from(LIKE_ITEMS),
    lambda within: st.lists(within, max_size=4) | st.dictionaries(st.text('ab{"\\', max_size=3), within, max_size=4),
    max_leaves=12,
)


@given(
    specs=st.lists(JSON, max_size=6),
    cuts=st.lists(st.integers(0, 3000), max_size=8),
    first=st.sampled_from(["metadata", "items"]),
    beginning=st.sampled_from([{}, {"kind": "Pod"}, {"apiVersion": "v1", "kind": "Pod"}, {"spec": 1}]),
    indent=st.sampled_from([None, 1]),
)
def test_chunks_and_member_order_of_a_page_make_no_difference(
    specs: list[Any], cuts: list[int], first: str, beginning: dict[str, Any], indent: int | None
) -> None:
    items = [{**beginning, **item(f"n{number}", spec=spec)} for number, spec in enumerate(specs)]
    around = {"kind": "PodList", "metadata": {"resourceVersion": "41", "continue": "on"}}
    written = {"items": items, **around} if first == "items" else {**around, "items": items}
    separators = (",", ":") if indent is None else None
    body = json.dumps(written, separators=separators, indent=indent, ensure_ascii=False).encode()

    reader = PageReader(PODS, least=1)
    message = []
    for start, end in pairwise(sorted({0, len(body), *(cut % (len(body) + 1) for cut in cuts)})):
        reader.feed(body[start:end])
        message += reader.take()
    answer = reader.end()

    assert isinstance(answer, Page)
    assert (answer.version, answer.next_page, answer.unreadable) == ("41", "on", ())
    whole = [{"kind": "Pod", "apiVersion": "v1", **each} for each in items]
    assert [thing.manifest() for thing in (*message, *answer.objects)] == whole


@pytest.mark.parametrize(
    ("beginning", "spec"),
    [
        pytest.param(OWN_KIND, {"a": "b"}, id="sorted members, with managers of its own version"),
        pytest.param(OWN_KIND, {"objects": [OWN_KIND] * 3}, id="objects of its own kind"),
        pytest.param({}, {"templates": [{"metadata": {"name": "x"}}] * 3}, id="templates"),
        pytest.param({"data": {}}, {}, id="members in another order"),
        pytest.param({"kind": "Pod"}, {"text": '},{"kind":"Pod","metadata":{"name":"'}, id="a text"),
    ],
)
@pytest.mark.parametrize("indent", [None, 1])
def test_brackets_are_counted_only_where_no_decoder_reads(
    beginning: dict[str, Any], spec: Any, indent: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NoCounting(Nesting):
        def end(self, text: bytes, at: int = 0) -> int:
            raise AssertionError(f"brackets of {text[at : at + 99]!r} are counted")

    monkeypatch.setattr("bridge.kube.wire.pages.Nesting", NoCounting)
    managed = [{"apiVersion": "v1", "fieldsType": "FieldsV1", "manager": name} for name in "abc"]
    items = [{**beginning, **item(f"n{number}", spec=spec)} for number in range(30)]
    for each in items:
        each["metadata"]["managedFields"] = managed
    body = json.dumps(json.loads(page(*items)), indent=indent, separators=(",", ":")).encode()

    answer = in_pieces(body, 777).end()

    assert isinstance(answer, Page)
    assert [thing.name for thing in answer.objects] == [f"n{number}" for number in range(30)]


@pytest.mark.parametrize(
    "hostile",
    [
        pytest.param(b'{"metadata":{"name":"a","uid":"u","resourceVersion":"1"},"x":[', id="one item, many beginnings"),
        pytest.param(b"", id="items without a name"),
    ],
)
@pytest.mark.parametrize("piece", [b'{"metadata":{"name":"a"}},', b"[x],", b'{"a":1},', b"[],", b'{"a":[},', b'"],["'])
def test_a_hostile_page_takes_no_longer_than_its_length(hostile: bytes, piece: bytes) -> None:
    def reading(size: int) -> Callable[[], object]:
        items = (
            b'{"metadata":{"name":"first","uid":"u","resourceVersion":"1"}},' + hostile + piece * (size // len(piece))
        )
        body = page()[:-2] + items + b"{}]}"
        return lambda: in_pieces(body, 1 << 14).end()

    assert grows_linearly(reading, 40_000, 320_000)


def test_objects_come_before_the_page_ends_and_are_not_kept() -> None:
    reader = PageReader(PODS, least=1)
    body = page(*(item(f"n{number}") for number in range(100)))
    reader.feed(body[: len(body) // 2])

    assert reader.version == "41"
    assert len(reader.take()) > 40
    assert reader.take() == []


@pytest.mark.parametrize(("resource", "depth"), [(WIDGETS, 10_000), (WIDGETS, 100_000), (PODS, BEYOND_ANY_STACK)])
@pytest.mark.parametrize("size", [777, 1 << 20])
def test_an_item_nested_too_deep_is_minimal_in_a_complete_page(resource: Resource, depth: int, size: int) -> None:
    deep = b'{"a":[' * depth + b"1" + b"]}" * depth
    body = page(item("a"), item("deep", spec="deep"), item("b")).replace(b'"spec":"deep"', b'"spec":' + deep)
    reader = in_pieces(body, size, resource=resource)

    answer = reader.end()

    assert isinstance(answer, Page)
    assert answer.unreadable == ()
    assert [thing.key for thing in answer.objects] == ["shop/a", "shop/deep", "shop/b"]
    assert answer.objects[1].manifest() == {"kind": resource.kind, "apiVersion": resource.api_version, **item("deep")}
    assert reader.left_bare == [f"shop/deep: it is nested {2 * depth + 1} levels deep, and at most 500 are taken in"]


@pytest.mark.parametrize(
    ("levels", "resource", "bare"), [(500, WIDGETS, False), (501, WIDGETS, True), (501, PODS, False)]
)
def test_free_form_members_have_the_same_depth_limit_everywhere(levels: int, resource: Resource, bare: bool) -> None:
    """What a pod has is bounded by its definition: it is not looked at."""
    body = page(item("a", spec="deep")).replace(b'"deep"', b"[" * (levels - 1) + b"]" * (levels - 1))
    [thing] = read(body, resource).objects
    assert (b"spec" not in thing.body) == bare


def test_a_deep_item_without_identity_is_unreadable() -> None:
    deep = b'{"a":' * BEYOND_ANY_STACK + b"1" + b"}" * BEYOND_ANY_STACK
    answer = read(b'{"kind":"PodList","metadata":{"resourceVersion":"1"},"items":[%b]}' % deep)
    assert answer.unreadable == (
        f"an object without metadata, and it is nested {BEYOND_ANY_STACK} levels deep, and at most 500 are taken in",
    )


@pytest.mark.parametrize("size", [1, 100, 10_000])
def test_an_item_too_long_leaves_bare_by_name(size: int) -> None:
    body = page(item("a"), item("long", data="x" * 5000), item("b"), item("c", data="{" * 999))
    reader = in_pieces(body, size, longest_object=2000)

    answer = reader.end()

    assert isinstance(answer, Page)
    assert [thing.key for thing in answer.objects] == ["shop/a", "shop/long", "shop/b", "shop/c"]
    assert answer.objects[1].manifest() == {"kind": "Pod", "apiVersion": "v1", **item("long")}
    assert reader.left_bare == ["shop/long: it is longer than 2000 bytes"]


@pytest.mark.parametrize(
    "endless",
    [
        pytest.param([b"{" + b" " * 10_000], id="white space at the beginning"),
        pytest.param([page()[:-2], b" " * 10_000], id="white space among the items"),
        pytest.param([page(), b" " * 10_000], id="white space at the end"),
        pytest.param([page()[:-2], b'"' + b"x" * 10_000, b"x" * 10_000], id="a string for an item"),
        pytest.param([page(item())[:-3] + b',"a":"', b"x" * 10_000], id="an item without end"),
        pytest.param([page()[:-2], b"[" * 10_000], id="brackets without end"),
        pytest.param([b"x" * 10_000], id="no JSON"),
    ],
)
def test_an_answer_without_end_takes_no_memory(endless: list[bytes]) -> None:
    reader = PageReader(PODS)
    for piece in endless:
        reader.feed(piece)
    tracemalloc.start()
    try:
        for _ in range(7_500):  # 75 MB
            reader.feed(endless[-1])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64 << 20
    assert isinstance(reader.end(), Failed)


def test_items_that_come_twice_are_a_failure() -> None:
    answer = read_page(page(item()).replace(b"]}", b'],"items":[1]}'), PODS)
    assert answer == Failed("the list could not be read: it has two lists of items")


@pytest.mark.parametrize("broken", [b"}{", b"},,{", b"}:{", b"}]{"])
def test_items_that_are_no_list_are_a_failure(broken: bytes) -> None:
    body = page(item("a"), item("b")).replace(b"},{", broken)
    assert isinstance(read_page(body, PODS), Failed)


def test_one_item_that_is_no_json_is_named_and_loses_no_other() -> None:
    answer = read(page(item("a"), item("b", spec="HERE"), item("c")).replace(b'"HERE"', b"nonsense"))
    assert [thing.name for thing in answer.objects] == ["a", "c"]
    assert answer.unreadable[0].startswith("JSON is malformed")


# ── Names that a server or a tenant chooses ──────────────────────────────────


@pytest.mark.parametrize("name", ["uid", "resourceVersion", "namespace"])
def test_an_item_with_too_long_an_identity_is_unreadable_alone(name: str) -> None:
    bad = item("b")
    bad["metadata"][name] = "9" * 300
    answer = read(page(item("a"), bad, item("c")))
    assert [thing.name for thing in answer.objects] == ["a", "c"]
    [reason] = answer.unreadable
    assert reason.startswith(f"the metadata.{name} of b has 300 characters, and at most ")


def test_an_item_with_a_long_name_is_left_out_of_a_complete_list() -> None:
    reader = PageReader(PODS)
    long = item("x" * 600)
    long["metadata"]["uid"] = "u"
    reader.feed(page(item("a"), long, item("c")))
    answer = reader.end()
    assert isinstance(answer, Page)
    assert [thing.name for thing in answer.objects] == ["a", "c"]
    assert answer.unreadable == ()
    [reason] = reader.left_bare
    assert reason.endswith("…: it is left out, since its name has 600 characters; at most 512 are allowed")


@pytest.mark.parametrize("behind", [False, True], ids=["before the items", "behind them"])
def test_a_list_with_too_long_a_version_is_refused(behind: bool) -> None:
    metadata, items = {"resourceVersion": "4" * 300}, {"items": [item("a")]}
    members = {**items, "metadata": metadata} if behind else {"metadata": metadata, **items}
    answer = read_page(json.dumps({"kind": "PodList", "apiVersion": "v1", **members}).encode(), PODS)
    assert isinstance(answer, Failed)
    assert "length <= 128 - at `$.metadata.resourceVersion`" in answer.reason
