from __future__ import annotations

import json
from typing import Any

import pytest

from bridge.kube.pages import read_page
from bridge.model.answers import Expired, Failed, Page
from bridge.model.resource import Resource

PODS = Resource("", "v1", "pods", "Pod", namespaced=True)
ENDPOINTS = Resource("", "v1", "endpoints", "Endpoints", namespaced=True)
WIDGETS = Resource("example.com", "v1beta1", "widgets", "Widget", namespaced=True)

DEEP = b'{"kind":"PodList","items":[%b]}' % (b"[" * 100_000 + b"]" * 100_000)
NOT_UTF_8 = b'{"kind":"\xff"}'


def item(name: str = "web-1", **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "shop", "uid": f"uid-{name}", "resourceVersion": "7"}, **more}


def page(*items: Any, kind: str = "PodList", **metadata: Any) -> bytes:
    metadata = {"resourceVersion": "41", **metadata}
    found = {"kind": kind, "apiVersion": "v1", "metadata": metadata, "items": items}
    return json.dumps(found, separators=(",", ":")).encode()


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
def test_items_of_a_list_get_the_kind_and_api_version_that_they_lack(
    resource: Resource, kind: str, api_version: str
) -> None:
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


def test_an_indented_list_is_read_too() -> None:
    body = json.dumps(json.loads(page(item(), item("b"))), indent=2).encode()
    assert [thing.manifest()["kind"] for thing in read(body).objects] == ["Pod", "Pod"]


def test_items_that_cannot_be_told_apart_are_named_and_lose_nothing_else() -> None:
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
        (page(resourceVersion=""), "the list has no metadata.resourceVersion: it cannot be watched from here"),
    ],
)
def test_an_answer_that_is_not_a_list_to_go_on_from_is_a_failure(body: bytes, reason: str) -> None:
    assert read_page(body, PODS) == Failed(reason)


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"<html>", page(item())[:-1], page(item()).replace(b":", b""), DEEP, NOT_UTF_8]
)
def test_a_malformed_list_is_a_failure(body: bytes) -> None:
    answer = read_page(body, PODS)
    assert isinstance(answer, Failed)
    assert answer.reason.startswith("the list could not be read: ")
    assert "web-1" not in answer.reason


def test_a_status_in_place_of_a_list_is_what_it_says() -> None:
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "token too old"}
    assert read_page(json.dumps(status).encode(), PODS) == Expired("410 Expired: token too old")
