"""A sink's own rules: for both states of a delta, and for no notice."""

from __future__ import annotations

import json

from bridge.model.change import Evidence, Op
from bridge.model.object import is_digest_in
from bridge.model.policies import RedactionMode, RedactionRule
from bridge.model.primitives.field_path import FieldPath
from bridge.model.record import Delta, Gap
from bridge.model.resource import Resource
from bridge.transform.for_sink import redact_for_sink
from bridge.transform.redaction import Redaction
from bridge.transform.redaction_key import RedactionKey

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)
SECRET = "hunter2-hunter2"
RULE = RedactionRule((FieldPath.parsed("data.password"),))
REDACTION = Redaction((RedactionKey(b"k" * 32),))


def a_delta(body: bytes, before: bytes | None = None) -> Delta:
    return Delta(7, Op.UPDATED, Evidence.WATCHED, CONFIG_MAPS, "shop/web", "u", "9", "now", 1, body, before)


def a_body(password: str) -> bytes:
    return json.dumps({"kind": "ConfigMap", "data": {"password": password, "user": "web"}}).encode()


def test_both_states_of_a_delta_are_redacted() -> None:
    delta = a_delta(a_body(SECRET), a_body(SECRET))

    left = redact_for_sink([RULE], REDACTION)(delta)

    assert isinstance(left, Delta)
    assert left.before == left.body
    data = json.loads(left.body)["data"]
    assert is_digest_in(data["password"])
    assert data["user"] == "web"
    assert (left.id, left.sequence, left.key) == (delta.id, 7, "shop/web")


def test_a_notice_stays() -> None:
    gap = Gap(7, 1, 7, "dropped", "now")

    assert redact_for_sink([RULE], REDACTION)(gap) is gap


def test_a_state_of_an_unexpected_shape_leaves_bare() -> None:
    broken = b'{"kind":"ConfigMap","data":{"password":"' + SECRET.encode()

    left = redact_for_sink([RULE], REDACTION)(a_delta(broken, broken))

    assert isinstance(left, Delta)
    assert json.loads(left.body) == {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "9"},
    }


def test_a_digest_for_every_sink_is_not_undone() -> None:
    digest = REDACTION.digest(b"x")
    left = redact_for_sink([RULE], REDACTION)(a_delta(a_body(digest)))
    masked = redact_for_sink([RedactionRule(RULE.paths, RedactionMode.MASK)], REDACTION)(a_delta(a_body(SECRET)))

    assert isinstance(left, Delta)
    assert isinstance(masked, Delta)
    assert json.loads(left.body)["data"]["password"] == digest
    assert SECRET.encode() not in masked.body
