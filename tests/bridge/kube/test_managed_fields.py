"""Managed fields are cut out where a line or an item is read, unless somebody wants them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.kube.wire.frames import Frames
from bridge.kube.wire.pages import PageReader
from bridge.model.answers import Announced, Page
from bridge.model.object import ApiObject
from bridge.model.resource import Resource
from bridge.transform.redaction import Redaction
from bridge.transform.redaction_key import RedactionKey
from bridge.transform.transform import transform_for
from tests.bridge.kube.written import compact, line

WIDGETS = Resource("example.com", "v1", "widgets", "Widget", namespaced=True)
MANAGED = [{"manager": "kubectl", "fieldsV1": {"f:metadata": {"f:annotations": {}}}, "time": "2026-01-12T09:40:51Z"}]

Json = dict[str, Any]


def widget(**more: Any) -> Json:
    metadata = {"name": "a", "namespace": "shop", "uid": "u", "resourceVersion": "7", **more}
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, "spec": {"text": "süß"}}


def watched(thing: Json, *, managed_fields: bool = False) -> bytes:
    return reported_of(thing, managed_fields=managed_fields).body


def reported_of(thing: Json, *, managed_fields: bool = False) -> ApiObject:
    [answer] = Frames(WIDGETS, managed_fields=managed_fields).feed(line("ADDED", thing))
    assert isinstance(answer, Announced), answer
    [(_, message)] = answer.events
    return message


def listed(thing: Json, *, managed_fields: bool = False) -> bytes:
    page = {"kind": "WidgetList", "metadata": {"resourceVersion": "9"}, "items": [thing]}
    reader = PageReader(WIDGETS, managed_fields=managed_fields)
    reader.feed(compact(page))
    answer = reader.end()
    assert isinstance(answer, Page), answer
    [message] = answer.objects
    return message.body


def without(thing: Json) -> Json:
    return {**thing, "metadata": {name: value for name, value in thing["metadata"].items() if name != "managedFields"}}


FIRST = {"metadata": {"managedFields": MANAGED, **widget()["metadata"]}}
PLACES = [
    pytest.param(widget(managedFields=MANAGED), id="at the end of the metadata"),
    pytest.param(widget(managedFields=MANAGED, labels={"a": "b"}), id="in the middle"),
    pytest.param({**widget(), **FIRST}, id="in front"),
]


@pytest.mark.parametrize("read", [watched, listed])
@pytest.mark.parametrize("thing", PLACES)
def test_they_are_left_out_and_every_other_byte_stays(thing: Json, read: Any) -> None:
    assert read(thing) == compact(without(thing))


def test_an_item_of_a_built_in_list_is_named_and_cut() -> None:
    item = widget(managedFields=MANAGED)
    del item["kind"], item["apiVersion"]
    named = {"kind": "Widget", "apiVersion": "example.com/v1", **without(item)}
    assert listed(item) == compact(named)


@pytest.mark.parametrize("read", [watched, listed])
@pytest.mark.parametrize("thing", PLACES)
def test_who_wants_them_has_them(thing: Json, read: Any) -> None:
    assert read(thing, managed_fields=True) == compact(thing)


@pytest.mark.parametrize("read", [watched, listed])
def test_what_is_called_so_elsewhere_stays(read: Any) -> None:
    inner = {"metadata": {"managedFields": MANAGED}}
    before = {"above": inner, **widget(managedFields=MANAGED)}
    assert json.loads(read(before))["above"] == inner
    labelled = widget(labels={"managedFields": "x"}, managedFields=MANAGED)
    assert json.loads(read(labelled))["metadata"]["labels"] == {"managedFields": "x"}
    after = {**widget(), "status": inner}
    assert read(after) == compact(after)


@pytest.mark.parametrize("empty", [None, []])
def test_empty_ones_do_no_harm(empty: Any) -> None:
    thing = widget(managedFields=empty, labels={"a": "b"})
    assert json.loads(watched(thing)) in (thing, without(thing))


def entries() -> st.SearchStrategy[Any]:
    names = st.sampled_from(["managedFields", "metadata", "labels", "spec", "x{", 'q"', "ü"])
    leaves = st.none() | st.text(max_size=3) | st.just(MANAGED) | st.just('"managedFields":[]')
    return st.recursive(leaves, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=3))


TEXTS: st.SearchStrategy[Any] = st.dictionaries(
    st.sampled_from(["managedFields", "example.com/token", "}", "x{"]), st.just(str(MANAGED)) | st.text(max_size=3)
)
MEMBERS: st.SearchStrategy[Json] = st.fixed_dictionaries(
    {}, optional={"annotations": TEXTS, "managedFields": entries(), "x": st.text()}
)


@given(metadata=MEMBERS, top=st.dictionaries(st.sampled_from(["above", "spec"]), entries()), data=st.data())
def test_nothing_but_managed_fields_is_ever_lost(metadata: Json, top: Json, data: st.DataObject) -> None:
    members = {**widget()["metadata"], **metadata}
    thing = {"apiVersion": "example.com/v1", "kind": "Widget", **top}
    thing["metadata"] = {name: members[name] for name in data.draw(st.permutations(list(members)))}
    thing = {name: thing[name] for name in data.draw(st.permutations(list(thing)))}
    assert json.loads(watched(thing)) in (thing, without(thing))


@given(metadata=MEMBERS, data=st.data())
def test_what_is_called_stripped_the_pipeline_would_not_touch(metadata: Json, data: st.DataObject) -> None:
    members = {**widget()["metadata"], **metadata}
    order = data.draw(st.permutations(list(members)))
    message = reported_of({**widget(), "metadata": {name: members[name] for name in order}})
    unmarked = ApiObject(message.key, message.uid, message.resource_version, message.body)
    if message.stripped:
        assert json.loads(transform_for(WIDGETS, Redaction((RedactionKey(b"k" * 32),)))(unmarked).body) == json.loads(
            message.body
        )


def test_what_a_server_writes_is_stripped_but_for_tokens() -> None:
    assert reported_of(widget(managedFields=MANAGED, annotations={"a": "b"})).stripped
    assert reported_of(widget()).stripped
    assert reported_of(widget(annotations={"example.com/token-ttl": "5m", "example.com/last-restart": "now"})).stripped
    assert not reported_of(widget(managedFields=MANAGED, annotations={"example.com/token": "t"})).stripped
    assert not reported_of(widget(managedFields=MANAGED), managed_fields=True).stripped
