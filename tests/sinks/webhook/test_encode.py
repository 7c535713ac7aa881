"""What is posted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from bridge.model.formats.content import Content
from bridge.model.record import Delta, Record
from sinks.base import Format
from sinks.webhook.encode import WebhookEncoder, WebhookMessage, batch_of
from sinks.webhook.options import WebhookOptions
from tests.kit.records import a_delta, a_gap, a_snapshot

FORMS = (Format.CLOUDEVENTS, Format.ENVELOPE)


def posted(record: Record, **options: Any) -> WebhookMessage | None:
    chosen = WebhookOptions(**{"url": "http://h/hook", **options})
    return WebhookEncoder(chosen.events("prod"), chosen).encode(record)


def encoded(record: Record, form: Format, **options: Any) -> WebhookMessage:
    message = posted(record, format=form, **options)
    assert message is not None
    return message


def with_data(data: Any, sequence: int = 1, texts: Mapping[str, str] | None = None) -> Delta:
    return replace(a_delta(sequence), content=Content(data, texts or {}))


@pytest.mark.parametrize("form", FORMS)
def test_an_id_of_a_later_epoch_differs_from_one_of_the_first(form: Format) -> None:
    assert encoded(a_delta(uid="u-1"), form).id == "u-1/1001/updated"
    assert encoded(a_delta(uid="u-1", epoch=2), form).id == "2/u-1/1001/updated"


@pytest.mark.parametrize("record", [a_gap(), a_snapshot()])
def test_a_notice_is_posted_under_its_own_id(record: Record) -> None:
    structured, binary = (encoded(record, form) for form in FORMS)

    assert structured.id == binary.id == record.id
    assert json.loads(structured.body)["id"] == binary.headers["ce-id"] == record.id
    assert json.loads(structured.body)["data"] == json.loads(binary.body)


@pytest.mark.parametrize("form", [Format.ROW, Format.RAW])
@pytest.mark.parametrize("notice", [a_gap(), a_snapshot()])
def test_an_endpoint_for_objects_gets_no_notice(form: Format, notice: Record) -> None:
    assert posted(notice, format=form) is None


# ── Made data ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("data", "options", "content_type", "body"),
    [
        ({"text": "é"}, {}, "application/json", '{"text":"é"}'),
        ([1, {"a": None}], {}, "application/json", '[1,{"a":null}]'),
        ("hello\n", {}, "text/plain;charset=utf-8", "hello\n"),
        ("<a/>", {"content_type": "application/xml"}, "application/xml", "<a/>"),
        (
            [{"index": {}}, {"a": 1}],
            {"content_type": "application/x-ndjson"},
            "application/x-ndjson",
            '{"index":{}}\n{"a":1}\n',
        ),
        ({"a": 1}, {"content_type": "application/stream+json"}, "application/stream+json", '{"a":1}\n'),
        (["a", "b\n"], {"content_type": "text/plain; charset=utf-8"}, "text/plain; charset=utf-8", "a\nb\n"),
    ],
)
def test_raw_data_is_the_whole_body(data: Any, options: dict[str, str], content_type: str, body: str) -> None:
    message = encoded(with_data(data), Format.RAW, data="object", **options)

    assert (message.headers["content-type"], message.body.decode()) == (content_type, body)
    assert message.headers["ce-type"] == "kubedelta.data.updated.v1"


@pytest.mark.parametrize("data", [{"a": 1}, ["x"], "text"])
def test_data_is_a_member_of_a_structured_event(data: Any) -> None:
    event = json.loads(encoded(with_data(data), Format.CLOUDEVENTS, data="object").body)

    assert event["data"] == data
    assert event["type"] == "kubedelta.data.updated.v1"
    assert event["datacontenttype"] == ("text/plain;charset=utf-8" if data == "text" else "application/json")


def test_a_record_without_data_is_rejected_with_its_failure() -> None:
    failed = replace(a_delta(), content=Content(failure='data: the member "status" is missing'))

    for form in (Format.RAW, Format.CLOUDEVENTS):
        with pytest.raises(ValueError, match=r'^data: the member "status" is missing$'):
            posted(failed, format=form, data="object.status")


@pytest.mark.parametrize(
    ("options", "content_type", "body"),
    [
        ({}, "application/json", '[{"n":1},"two"]'),
        ({"content_type": "application/vnd.api+json"}, "application/vnd.api+json", '[{"n":1},"two"]'),
        ({"content_type": "application/x-ndjson"}, "application/x-ndjson", '{"n":1}\ntwo\n'),
        ({"wrap": '{"all": []}'}, "application/json", '{"all": [{"n":1},"two"]}'),
    ],
)
def test_a_batch_of_data_is_an_array_or_lines(options: dict[str, Any], content_type: str, body: str) -> None:
    records = [with_data({"n": 1}), with_data("two", 2)]
    messages = [encoded(each, Format.RAW, data="object", batch=2, **options) for each in records]
    batch = batch_of(messages, WebhookOptions(url="http://h/", format=Format.RAW, data="object", batch=2, **options))

    assert (batch.headers["content-type"], batch.body.decode()) == (content_type, body)


# ── Routes ───────────────────────────────────────────────────────────────────


def test_url_and_headers_are_made_of_the_record() -> None:
    options = {
        "url": "http://h/k8s/{object.kind}?op={op}",
        "headers": {"X-Team": "of {t}", "X-None": "{n}", "X-A": "b"},
    }
    message = encoded(
        with_data({}, texts={"object.kind": "Po d", "op": "updated", "t": "é", "n": ""}),
        Format.RAW,
        data="object",
        **options,
    )

    assert message.route.target == "/k8s/Po%20d?op=updated"
    assert dict(message.route.headers) == {"x-team": "of %C3%A9"}
    assert message.headers["x-team"] == "of %C3%A9"


def test_a_notice_goes_without_headers_of_an_object() -> None:
    assert "x-team" not in encoded(a_gap(), Format.CLOUDEVENTS, headers={"X-Team": "{op}"}).headers


def test_expressions_are_found_with_their_places() -> None:
    options = WebhookOptions(
        url="http://h/{op}?a={object.x}", headers={"X-A": "is {op}"}, data="object", format=Format.RAW
    )

    assert [(each.option, each.text, each.makes.value, each.offset) for each in options.expressions()] == [
        ("data", "object", "data", 0),
        ("url", "op", "text", 10),
        ("url", "object.x", "text", 17),
        ("headers.X-A", "op", "text", 4),
    ]
