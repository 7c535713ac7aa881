"""Subjects and headers."""

from __future__ import annotations

import pytest
from cloudevents.core.bindings import http
from cloudevents.core.formats.json import JSONFormat
from hypothesis import assume, given
from hypothesis import strategies as st

from bridge.model.formats.object_paths import ABSENT
from bridge.model.record import Record
from sinks.nats.encode import NatsEncoder, NatsMessage, escaped, stream_subjects
from sinks.nats.options import NatsOptions
from tests.kit.records import CLUSTER_ROLES, DEPLOYMENTS, PODS, a_delta, a_gap, a_snapshot


def options(**more: object) -> NatsOptions:
    return NatsOptions.model_validate({"servers": ["nats://127.0.0.1:4222"], "stream": "K8S", **more})


def encoded(record: Record, cluster: str = "prod.eu", **more: object) -> NatsMessage:
    return NatsEncoder(options(**more), cluster).encode(record)


@pytest.mark.parametrize(
    ("record", "subject"),
    [
        (a_delta(resource=PODS, key="shop/web-1"), "k8s.prod_eu.core.pods.shop.web-1"),
        (a_delta(resource=DEPLOYMENTS, key="shop/web.v1_a"), "k8s.prod_eu.apps.deployments.shop.web_v1=5Fa"),
        (
            a_delta(resource=CLUSTER_ROLES, key="system:node *>\n"),
            "k8s.prod_eu.rbac_authorization_k8s_io.clusterroles._.system:node=20=2A=3E=0A",
        ),
        (a_gap(), "k8s.prod_eu._.notice._._"),
        (a_snapshot(), "k8s.prod_eu._.notice._._"),
    ],
)
def test_every_part_of_a_name_is_one_token_of_the_subject(record: Record, subject: str) -> None:
    assert encoded(record).subject == subject


@given(st.text(), st.text())
def test_no_two_names_share_a_token(one: str, other: str) -> None:
    assume(one != other)
    tokens = [escaped(name) if name else ABSENT for name in (one, other)]

    assert tokens[0] != tokens[1]
    assert not any(set(token) & set(" .*>\r\n\t{}") or not token for token in tokens)


@given(uid=st.text(min_size=1), name=st.text(min_size=1))
def test_headers_are_those_of_the_binary_form(uid: str, name: str) -> None:
    delta = a_delta(key=f"shop/{name}", uid=uid)
    message = encoded(delta)

    event = http.from_binary(http.HTTPMessage(message.headers, message.payload), JSONFormat())
    assert event.get_id() == delta.id
    assert event.get_datacontenttype() == "application/json"
    assert event.get_extension("partitionkey") == f"prod.eu/core/pods/shop/{name}"
    assert message.payload is delta.body, "as it came"
    assert message.headers["Nats-Msg-Id"] == message.id
    assert message.headers["Nats-Expected-Stream"] == "K8S"


def test_an_id_of_a_later_epoch_differs_from_one_of_the_first() -> None:
    first, later = encoded(a_delta(uid="u-1")), encoded(a_delta(uid="u-1", epoch=2))

    assert (first.id, first.headers["Nats-Msg-Id"]) == ("u-1/1001/updated",) * 2
    assert (later.id, later.headers["Nats-Msg-Id"]) == ("2/u-1/1001/updated",) * 2
    assert first.headers["ce-id"] == later.headers["ce-id"]
    assert later.headers["ce-source"] == "/clusters/prod.eu/epochs/2"


def test_a_stream_takes_all_subjects_of_one_cluster() -> None:
    assert stream_subjects(options(), "prod.eu") == ["k8s.prod_eu.*.*.*.*"]
    assert stream_subjects(options(subject="all"), "prod") == ["all"]
    assert stream_subjects(options(subject="{cluster}-x.v{version}.{name}"), "prod") == ["prod-x.*.*"]


def test_a_subject_that_would_end_the_connection_is_no_message() -> None:
    with pytest.raises(ValueError, match=r"its subject would have 2\d+ bytes; 2048 are the most"):
        encoded(a_delta(key=f"shop/{'é' * 400}"))


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"subject": "k8s.{pod}"}, r"unknown placeholder \{pod\}; allowed are \{cluster\}, \{group\}"),
        ({"subject": "k8s.{name"}, "is not a template"),
        ({"subject": "k8s..{name}"}, "is no subject"),
        ({"subject": "k8s.>"}, "is no subject"),
        ({"subject": "k8s {name}"}, "is no subject"),
        ({"subject": ""}, "cannot be empty"),
        ({"stream": "a.b"}, "no name for a stream"),
        ({"servers": []}, "at least 1 item"),
        ({"servers": ["127.0.0.1:4222"]}, "a server is named like nats://"),
        ({"servers": ["nats://me:hush@127.0.0.1"]}, "no user and password in the URL"),
        ({"user": "me"}, "user and password_file belong together"),
        ({"token_file": "/t", "credentials_file": "/c"}, "one of credentials_file, nkey_seed_file"),
        ({"key_file": "/k"}, "key_file has no effect without cert_file"),
        ({"create_stream": {"replica": 3}}, "Extra inputs are not permitted"),
    ],
)
def test_a_mistake_in_the_options_is_reported(wrong: dict[str, object], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        options(**wrong)
