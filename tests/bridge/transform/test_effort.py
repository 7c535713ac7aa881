"""An object whose redaction would take too long leaves bare, and any other takes bounded time."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bridge.model.policies import RedactionRule
from bridge.model.primitives.field_path import FieldPath
from bridge.model.record import Delta
from bridge.model.resource import Resource
from bridge.transform.credentials import LONGEST_TEXT
from bridge.transform.redaction import MOST_WORK, Redaction, redact_for_sink
from bridge.transform.transform import transform_for
from tests.bridge.transform.leaving import KEY, REDACTION, SECRETS, WIDGETS, manifest, read
from tests.kit.growth import cpu_seconds
from tests.kit.records import PODS, a_delta

RULE = RedactionRule((FieldPath.parsed("spec"),))
MOST_SECONDS = 8
"""Of CPU, on the slowest machine; half a second on others. Work that is no longer linear takes minutes."""


def left(
    resource: Resource, *rules: RedactionRule, spelling: dict[str, Any] | None = None, **members: Any
) -> tuple[bytes, list[str]]:
    """The body that leaves, and the reasons for which it is bare."""
    reasons: list[str] = []
    thing = read(resource, manifest(resource, **members), **(spelling or {}))
    transform, bodies = transform_for(resource, Redaction((KEY,), rules=rules), reasons.append), list[bytes]()
    assert cpu_seconds(lambda: bodies.append(transform(thing).body)) < MOST_SECONDS
    return bodies[0], reasons


def is_bare(body: bytes) -> bool:
    return set(json.loads(body)) == {"kind", "apiVersion", "metadata"}


@pytest.mark.parametrize("piece", ["token=$(", "://a:1@", "password='", "Authorization: a ", "-eyJ", "secret: "])
@pytest.mark.parametrize("place", ["env", "args"])
def test_the_worst_text_within_the_bound_takes_bounded_time(place: str, piece: str) -> None:
    text = (piece * LONGEST_TEXT)[: LONGEST_TEXT - 1]
    count = MOST_WORK // LONGEST_TEXT - 4
    values: list[Any] = [{"name": f"A{n}", "value": text} for n in range(count)] if place == "env" else [text] * count

    body, reasons = left(PODS, spec={place: values})

    assert not is_bare(body) or "take too long" in reasons[0], "it may have many credentials"


@pytest.mark.parametrize("spelling", [{"separators": (",", ":")}, {"indent": 1}])
@pytest.mark.parametrize("place", ["env", "args"])
def test_more_text_than_the_bound_leaves_bare_and_is_named(place: str, spelling: dict[str, Any]) -> None:
    text = "x" * 1000
    values: list[Any] = [{"name": f"A{n}", "value": text} for n in range(MOST_WORK // 1000)]

    body, [reason] = left(PODS, spelling=spelling, spec={place: values if place == "env" else [text] * 1600})

    assert is_bare(body)
    assert reason.startswith("shop/web: its redaction would take too long")


@pytest.mark.parametrize(
    "spec",
    [{"n" * 700_000: dict.fromkeys(map(str, range(80_000)), 1)}, [1] * 700_000, {"a": [[1, 2]] * 100_000}],
    ids=["a long name in many paths", "many numbers", "many lists"],
)
def test_a_rule_over_too_many_values_leaves_bare(spec: Any) -> None:
    body, [reason] = left(WIDGETS, RULE, spec=spec)

    assert is_bare(body)
    assert "too many redacted values" in reason

    whole = read(WIDGETS, manifest(WIDGETS, spec=spec)).body
    delta = redact_for_sink([RULE], REDACTION)(a_delta(resource=WIDGETS, body=whole))
    assert isinstance(delta, Delta)
    assert is_bare(delta.body)


def test_a_rule_through_deeply_nested_lists_takes_bounded_time() -> None:
    spec: Any = ["x" * 1_000_000]
    for _ in range(200):
        spec = [spec]

    body, _ = left(WIDGETS, RedactionRule((FieldPath.parsed("spec.password"),)), spec=spec)

    assert b"xxx" not in body


def test_a_secret_of_too_many_keys_leaves_bare() -> None:
    data = dict.fromkeys(map(str, range(150_000)), "")

    body, [reason] = left(SECRETS, data=data)

    assert is_bare(body)
    assert "too many redacted values" in reason


def test_a_large_object_of_etcd_is_redacted() -> None:
    data = {f"key-{n}": "x" * 50 for n in range(20_000)}

    body, reasons = left(WIDGETS, RULE, spec=data)

    assert not reasons
    assert body.count(b"hmac-sha256:") == 20_000


def test_an_object_that_redaction_cannot_read_is_named() -> None:
    body, [reason] = left(SECRETS, data=5)

    assert is_bare(body)
    assert reason.startswith("shop/web: redaction cannot read it")
