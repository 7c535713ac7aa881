"""What is posted."""

from __future__ import annotations

import json

import pytest

from bridge.model.formats.cloudevent import CloudEvents
from bridge.model.record import Record
from sinks.base import Format
from sinks.webhook.encode import WebhookEncoder, WebhookMessage
from tests.kit.records import a_delta, a_gap, a_snapshot

FORMS = (Format.CLOUDEVENTS, Format.ENVELOPE)


def encoded(record: Record, form: Format) -> WebhookMessage:
    message = WebhookEncoder(CloudEvents("prod"), form).encode(record)
    assert message is not None
    return message


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
    assert WebhookEncoder(CloudEvents("prod"), form).encode(notice) is None
