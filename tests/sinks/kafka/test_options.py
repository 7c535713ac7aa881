"""What may be set for Kafka, and what it becomes in librdkafka's words."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer

from sinks.base import SinkUnavailable
from sinks.kafka.config import ClientConfig
from sinks.kafka.options import KafkaOptions


def options(**more: object) -> KafkaOptions:
    return KafkaOptions.model_validate({"bootstrap_servers": "127.0.0.1:9092", **more})


OAUTH2 = {"token_url": "https://idp.example", "client_id": "me", "client_secret_file": "/x"}
SASL = {"security_protocol": "sasl_ssl"}
TOKEN = SASL | {"sasl_mechanism": "OAUTHBEARER", "token_command": ["token"]}
SASL_OIDC = SASL | {"sasl_mechanism": "OAUTHBEARER", "properties": {"sasl.oauthbearer.method": "oidc"}}


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"bootstrap_servers": ""}, "brokers are expected as host:port"),
        ({"bootstrap_servers": "a:1, b:2"}, "brokers are expected as host:port, separated by commas"),
        ({"bootstrap_servers": "http://a:1"}, "host:port is expected, without http:// or kafka:// in front of it"),
        ({"bootstrap_servers": "a:1,kafka://b:2"}, "host:port is expected, without http:// or kafka://"),
        ({"bootstrap_servers": "me:hush@a:1"}, "user and password do not belong here: see username and password_file"),
        ({"bootstrap_servers": "a:99999"}, "brokers are expected as host:port"),
        ({"properties": {"Linger": 1}}, "'Linger' is no setting of librdkafka"),
        ({"topic": "k8s.{name}"}, r"unknown placeholder \{name\}; allowed are \{cluster\}"),
        ({"topic": "k8s.{resource!r}"}, r"unknown placeholder \{resource!r\}"),
        ({"topic": "k8s {resource}"}, "is no topic"),
        ({"topic": "k8s.}"}, "is not a template"),
        ({"topic": "k8s.{{x}}"}, "a brace that belongs to no placeholder"),
        ({"properties": {"acks": 1}}, "acks cannot be set as a property: a record counts as stored when all"),
        ({"properties": {"message.timeout.ms": 1}}, "a record that timed out would be skipped"),
        ({"property_files": {"client.id": "/x"}}, "client.id cannot be set as a property: set client_id"),
        ({"properties": {"sasl.password": "hush"}}, "sasl.password is a secret: put it into property_files"),
        ({"properties": {"ssl.key.pem": "hush"}}, "ssl.key.pem is a secret"),
        ({"properties": {"error_cb": "f"}}, "error_cb cannot be set as a property: it is a function"),
        ({"properties": {"partitioner": "random"}}, "'random' does not keep a key in one partition"),
        ({"sasl_mechanism": "PLAIN"}, "sasl_mechanism and security_protocol"),
        ({"security_protocol": "sasl_ssl"}, "sasl_mechanism and security_protocol"),
        ({"username": "me"}, "username and password_file belong together"),
        ({"username": "me", "password_file": "/x"}, "username has no effect without sasl_mechanism"),
        (SASL | {"sasl_mechanism": "SCRAM-SHA-256"}, "PLAIN and SCRAM need username and password_file"),
        (TOKEN | {"username": "me", "password_file": "/x"}, "username and password_file are for PLAIN and SCRAM"),
        (SASL | {"sasl_mechanism": "OAUTHBEARER"}, "needs one of token_command and oauth2"),
        (TOKEN | {"oauth2": OAUTH2}, "needs one of token_command and oauth2"),
        (TOKEN | {"properties": {"sasl.oauthbearer.scope": "x"}}, "needs one of token_command and oauth2"),
        ({"token_command": ["x"]}, "belong to sasl_mechanism OAUTHBEARER"),
        ({"oauth2": OAUTH2}, "belong to sasl_mechanism OAUTHBEARER"),
        ({"sasl_extensions": {"a": "b"}}, "belong to sasl_mechanism OAUTHBEARER"),
        (SASL_OIDC | {"sasl_extensions": {"a": "b"}}, "elsewhere set sasl.oauthbearer.extensions"),
        (TOKEN | {"sasl_extensions": {"auth": "b"}}, "'auth' is no name of an extension"),
        (TOKEN | {"sasl_extensions": {"a": "b,c"}}, "printable ASCII without spaces and commas"),
        (TOKEN | {"token_command": []}, "token_command"),
        (TOKEN | {"token_command": ["a\0"]}, "has no NUL"),
        (SASL | {"sasl_mechanism": "OAUTHBEARER", "oauth2": OAUTH2 | {"token_url": "idp"}}, "a URL that begins with"),
        ({"key": "namespace", "tombstones": True}, "forget the whole namespace"),
        ({"key": "name"}, "key"),
        ({"too_large": "trim", "data": "object.spec"}, "takes parts from objects"),
        ({"too_large": "compress", "compression": "none"}, "too_large: compress needs a compression"),
        ({"ca_file": "/x"}, "of no use without security_protocol ssl"),
        ({"security_protocol": "ssl", "cert_file": "/x"}, "cert_file and key_file belong together"),
        ({"create_topics": {}}, "partitions"),
        ({"include": ["before"]}, "set format: envelope"),
        *(
            ({"format": form, "topic": "all"}, "formats other than cloudevents need notice_topic")
            for form in ("envelope", "row", "raw")
        ),
        ({"format": "row", "include": ["changed", "changed"]}, "may be named once"),
        ({"row": {"object": "none"}}, "row has no effect without format: row"),
        ({"notice_topic": "k8s {x}"}, "is no topic: at most 249 letters"),
    ],
)
def test_a_mistake_is_reported(wrong: dict[str, object], reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as error:
        options(**wrong)
    assert "hush" not in str(error.value)


@pytest.mark.parametrize("also", [{"notice_topic": "notices"}, {"topic": "k8s.{kind}"}, {"topic": "k8s.{resource}"}])
def test_envelopes_with_a_place_for_notices_are_taken(also: dict[str, object]) -> None:
    assert options(**{"format": "envelope", "topic": "all", **also}).format == "envelope"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        pytest.param(
            {},
            {
                "enable.idempotence": True,
                "enable.gapless.guarantee": True,
                "message.timeout.ms": 0,
                "partitioner": "murmur2_random",
                "queue.buffering.max.kbytes": 32 * 1024,
            },
            id="promises",
        ),
        ({"max_message_bytes": "2MiB"}, {"message.max.bytes": 2 << 20}),
        pytest.param(
            {"properties": {"linger.ms": 20, "partitioner": "consistent_random"}},
            {"linger.ms": 20, "partitioner": "consistent_random"},
            id="properties win over defaults that promise nothing",
        ),
        pytest.param(
            {"too_large": "compress"},
            {"message.max.bytes": 32 << 20, "batch.size": 1_000_000, "queue.buffering.max.kbytes": 64 << 10},
            id="a compressed record may be larger than a batch",
        ),
        pytest.param(
            {"max_message_bytes": 20_000_000},
            {"queue.buffering.max.kbytes": 78_125},
            id="the queue has room for a few of the largest records",
        ),
    ],
)
def test_options_become_settings_that_librdkafka_takes(given: dict[str, object], wanted: dict[str, object]) -> None:
    settings = ClientConfig(options(**given)).producer(gapless=True)

    assert settings | wanted == settings
    Producer(settings | {"log_level": 0})


def test_secrets_are_read_from_their_files(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("hush\n")
    given = options(
        security_protocol="sasl_ssl",
        sasl_mechanism="SCRAM-SHA-512",
        username="me",
        password_file=tmp_path / "password",
        ca_file="/ca.crt",
        property_files={"ssl.key.password": tmp_path / "password"},
    )

    settings = ClientConfig(given).producer(gapless=True)

    assert settings["sasl.password"] == settings["ssl.key.password"] == "hush"
    assert settings["ssl.ca.location"] == "/ca.crt"
    assert settings["security.protocol"] == "sasl_ssl"
    (tmp_path / "password").unlink()
    with pytest.raises(SinkUnavailable, match="cannot read the secret file"):
        ClientConfig(given).producer(gapless=True)


def test_a_token_endpoint_is_set_in_the_words_of_librdkafka(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hush\n")
    files = {"client_secret_file": tmp_path / "secret", "ca_file": "/idp.crt"}
    oauth2 = {"token_url": "https://idp.example/token", "client_id": "me", "scopes": ["a", "b"], **files}
    given = options(**SASL, sasl_mechanism="OAUTHBEARER", oauth2=oauth2, sasl_extensions={"c": "1", "d": "2"})

    settings = ClientConfig(given).producer(gapless=True)

    assert {name: settings[name] for name in settings if "oauth" in name or "https" in name} == {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": "https://idp.example/token",
        "sasl.oauthbearer.client.id": "me",
        "sasl.oauthbearer.client.secret": "hush",
        "sasl.oauthbearer.scope": "a b",
        "sasl.oauthbearer.extensions": "c=1,d=2",
        "https.ca.location": "/idp.crt",
    }
