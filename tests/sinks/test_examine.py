"""What cannot work is found before a sink is opened, and named by its option."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nkeys
import pytest

from sinks import registry
from sinks.base import WrongOption
from tests.kit.certificates import Authority

MINIMAL: dict[str, dict[str, Any]] = {
    "kafka": {"bootstrap_servers": "127.0.0.1:1"},
    "nats": {"servers": ["nats://127.0.0.1:1"], "stream": "K8S"},
    "webhook": {"url": "https://127.0.0.1:1/"},
    "file": {"path": "-"},
}
TLS = {"kafka": {"security_protocol": "ssl"}, "nats": {}, "webhook": {}}
OAUTH2 = {"token_url": "https://127.0.0.1:1/", "client_id": "me"}
TOKENS = {"security_protocol": "sasl_ssl", "sasl_mechanism": "OAUTHBEARER"}
SASL = {"security_protocol": "sasl_plaintext", "sasl_mechanism": "SCRAM-SHA-512", "username": "me"}


def examined(type: str, **more: Any) -> list[WrongOption]:
    kind = registry.types()[type]
    return list(kind.examine(kind.options.model_validate(MINIMAL[type] | more)))


def received(type: str, **more: Any) -> str:
    return "\n".join(map(str, examined(type, **more)))


@pytest.mark.parametrize("type", MINIMAL)
def test_nothing_is_wrong_with_the_least_options(type: str) -> None:
    assert examined(type) == []


@pytest.mark.parametrize(
    ("properties", "complaint"),
    [
        ({"linger.mss": 5}, "properties.linger.mss: librdkafka has no setting of this name"),
        ({"linger.ms": "soon"}, "properties.linger.ms: Invalid value for configuration property"),
        ({"linger.ms": -5}, "properties.linger.ms: Configuration property "),
        ({"broker.address.family": "v7"}, 'properties.broker.address.family: Invalid value "v7" for'),
        ({"socket.keepalive.enable": "perhaps"}, "properties.socket.keepalive.enable: Expected bool value"),
    ],
)
def test_a_setting_that_librdkafka_does_not_take_is_named(properties: dict[str, Any], complaint: str) -> None:
    assert received("kafka", properties={"queue.buffering.max.kbytes": 1024, **properties}).startswith(complaint)


def test_every_wrong_setting_is_reported_at_once() -> None:
    assert [each.option for each in examined("kafka", properties={"a.b": 1, "linger.ms": "x", "c.d": 1})] == [
        "properties.a.b",
        "properties.linger.ms",
        "properties.c.d",
    ]


def test_what_a_file_of_a_setting_holds_is_not_repeated(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hush")
    [wrong] = examined("kafka", property_files={"linger.ms": tmp_path / "secret"})
    assert str(wrong) == "property_files.linger.ms: librdkafka does not take what the file holds"


@pytest.mark.parametrize(
    ("type", "option", "more"),
    [
        ("kafka", "password_file", lambda path: SASL | {"password_file": path}),
        ("kafka", "property_files.ssl.key.password", lambda path: {"property_files": {"ssl.key.password": path}}),
        ("kafka", "oauth2.client_secret_file", lambda path: TOKENS | {"oauth2": OAUTH2 | {"client_secret_file": path}}),
        ("nats", "password_file", lambda path: {"user": "me", "password_file": path}),
        ("nats", "token_file", lambda path: {"token_file": path}),
        ("nats", "credentials_file", lambda path: {"credentials_file": path}),
        ("nats", "nkey_seed_file", lambda path: {"nkey_seed_file": path}),
        ("webhook", "secret_file", lambda path: {"secret_file": path}),
        ("webhook", "password_file", lambda path: {"username": "me", "password_file": path}),
        ("webhook", "bearer_token_file", lambda path: {"bearer_token_file": path}),
        ("webhook", "oauth2.client_secret_file", lambda path: {"oauth2": OAUTH2 | {"client_secret_file": path}}),
        ("webhook", "header_files.Authorization", lambda path: {"header_files": {"Authorization": path}}),
    ],
)
def test_a_secret_that_is_not_there_or_empty_is_named(
    tmp_path: Path, type: str, option: str, more: Callable[[Path], dict[str, Any]]
) -> None:
    path = tmp_path / "secret"
    assert received(type, **more(path)) == f"{option}: cannot read the secret file {path}: No such file or directory"
    path.write_text("\n")
    assert received(type, **more(path)) == f"{option}: the secret file {path} is empty"
    with path.open("wb") as file:
        file.truncate(100 << 30)
    assert received(type, **more(path)) == f"{option}: the secret file {path} is larger than 1MiB"


@pytest.mark.parametrize("type", TLS)
def test_an_unusable_certificate_is_named_by_its_own_option(tmp_path: Path, type: str) -> None:
    authority = Authority.make(tmp_path)
    mine, other = authority.issue("mine"), authority.issue("other")
    gone, nonsense = tmp_path / "gone", tmp_path / "nonsense"
    nonsense.write_text("nonsense")

    def asked(**files: Path) -> str:
        return received(type, **TLS[type], **files)

    assert asked(ca_file=authority.certificate, cert_file=mine.certificate, key_file=mine.key) == ""
    assert asked(ca_file=gone) == f"ca_file: cannot read {gone}: No such file or directory"
    assert asked(ca_file=nonsense).startswith(f"ca_file: {nonsense} is no certificate authority in PEM")
    assert asked(cert_file=gone, key_file=mine.key).startswith(f"cert_file: cannot read {gone}")
    assert asked(cert_file=mine.certificate, key_file=gone).startswith(f"key_file: cannot read {gone}")
    assert asked(cert_file=mine.certificate, key_file=other.key).startswith(f"cert_file: {mine.certificate} with the")


def test_a_secret_that_is_none_of_its_kind_is_named(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("hush")
    assert received("nats", credentials_file=path).startswith(f"credentials_file: {path} holds no user credentials")
    assert received("nats", nkey_seed_file=path) == f"nkey_seed_file: {path} holds no seed of an NKey"
    assert received("webhook", secret_file=path).startswith(f"secret_file: {path}, line 1: ")
    assert received("webhook", cert_file=path).startswith(f"cert_file: {path}, certificate and key, cannot be used")
    path.write_text("two\nlines")
    assert received("webhook", header_files={"X-Key": path}) == (
        f"header_files.X-Key: {path} is not one line of printable ASCII"
    )
    assert received("webhook", username="me", password_file=path) == (
        f"password_file: {path} is not one line of printable text"
    )
    assert received("webhook", bearer_token_file=path) == (
        f"bearer_token_file: {path} holds no token: one word of printable ASCII"
    )
    path.write_bytes(nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER))
    assert received("nats", nkey_seed_file=path) == ""


def test_authorities_of_a_token_endpoint_are_named(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hush")
    (tmp_path / "nonsense").write_text("nonsense")
    files = {"client_secret_file": tmp_path / "secret", "ca_file": tmp_path / "nonsense"}
    [wrong] = examined("webhook", oauth2=OAUTH2 | files)
    assert wrong.option == "oauth2.ca_file"
    [wrong] = examined("kafka", **TOKENS, oauth2=OAUTH2 | files)
    assert wrong.option == "oauth2.ca_file"


def test_a_missing_program_for_tokens_is_named_and_not_run(tmp_path: Path) -> None:
    assert received("kafka", **TOKENS, token_command=["no-such-program"]) == (
        "token_command: there is no program no-such-program here that can be run"
    )
    assert examined("kafka", **TOKENS, token_command=["sh", "-c", f"touch {tmp_path}/ran; exit 1"]) == []
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("host", ["169.254.169.254", "[::ffff:169.254.169.254]", "[fe80::1]", "[fd00:ec2::254]"])
def test_an_address_of_credentials_is_refused(host: str) -> None:
    [wrong] = examined("webhook", url=f"http://{host}/latest/meta-data")
    assert wrong.option == "url"
    assert "allow_networks may permit it by name" in wrong.reason
    assert examined("webhook", url=f"http://{host}/", allow_networks=[host.strip("[]")]) == []


def test_a_path_that_can_be_no_file_is_named(tmp_path: Path) -> None:
    assert received("file", path=tmp_path) == f"path: cannot write to {tmp_path}: it is a folder"
    (tmp_path / "link").symlink_to("elsewhere")
    assert "is a symbolic link" in received("file", path=tmp_path / "link", rotation={})


def test_a_destination_that_is_away_is_no_mistake_in_the_options(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    for away in (tmp_path / "no" / "x", tmp_path / "loop" / "x", tmp_path / "loop"):
        assert received("file", path=away) == ""
    assert received("file", path=tmp_path / "no" / "x", rotation={}) == ""


# ── Claims ───────────────────────────────────────────────────────────────────


def meet(type: str, one: dict[str, Any], other: dict[str, Any]) -> bool:
    kind = registry.types()[type]
    its, others = (kind.claims(kind.options.model_validate(MINIMAL[type] | each)) for each in (one, other))
    return any(a.destination == b.destination and (a.exclusive or b.exclusive) for a in its for b in others)


def test_two_sinks_on_one_file_meet_however_its_path_is_spelt(tmp_path: Path) -> None:
    file = tmp_path / "deltas"
    (tmp_path / "link").symlink_to(tmp_path)
    assert meet("file", {"path": file}, {"path": f"{tmp_path}/./x/../deltas"})
    assert meet("file", {"path": file}, {"path": tmp_path / "link" / "deltas"})
    assert not meet("file", {"path": file}, {"path": tmp_path / "others"})
    file.touch()
    (tmp_path / "hard").hardlink_to(file)
    assert meet("file", {"path": file}, {"path": tmp_path / "hard"})
    assert meet("file", {"path": "-"}, {"path": "-"})
    assert not meet("file", {"path": "/dev/null"}, {"path": "/dev/null"})


def test_a_sole_writer_of_a_stream_meets_other_writers() -> None:
    shared = {"sole_writer": False}
    assert meet("nats", {}, {"subject": "other.{name}"})
    assert meet("nats", {}, shared)
    assert meet("nats", {"servers": ["nats://a", "nats://b"]}, {"servers": ["tls://b:4222"]})
    assert not meet("nats", shared, shared)
    assert not meet("nats", {}, {"stream": "OTHER"})
    assert not meet("nats", {}, {"servers": ["nats://elsewhere"]})
