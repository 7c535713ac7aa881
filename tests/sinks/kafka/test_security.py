"""How a sink proves itself to a real broker, and what it says when the broker refuses."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from sinks.base import SinkUnavailable, WrongOption
from tests.cluster.fixtures import fresh_name
from tests.cluster.servers import SecuredKafka
from tests.kit.certificates import Authority, Certificate
from tests.kit.deadlines import BUSY
from tests.kit.records import changes, ids_of
from tests.kit.sinks import until_stored
from tests.kit.token_server import TokenServer
from tests.sinks.kafka.test_sink import ids, opened, read, the_sink

TIMEOUT = 120
"""Seconds. The option takes no more."""
"""Seconds for connections that succeed: a broker's first handshake takes seconds on a busy machine."""

Options: TypeAlias = dict[str, Any]


def password_options(
    server: SecuredKafka, folder: Path, mechanism: str, password: str = SecuredKafka.PASSWORD
) -> Options:
    (folder / "password").write_text(f"{password}\n")
    return {
        "bootstrap_servers": server.sasl,
        "security_protocol": "sasl_ssl",
        "sasl_mechanism": mechanism,
        "username": server.USER,
        "password_file": folder / "password",
        "ca_file": server.authority.certificate,
    }


def certificate_options(server: SecuredKafka, certificate: Certificate) -> Options:
    return {
        "bootstrap_servers": server.mutual,
        "security_protocol": "ssl",
        "cert_file": certificate.certificate,
        "key_file": certificate.key,
        "ca_file": server.authority.certificate,
    }


def token_options(server: SecuredKafka, **more: Any) -> Options:
    return {
        "bootstrap_servers": server.sasl,
        "security_protocol": "sasl_ssl",
        "sasl_mechanism": "OAUTHBEARER",
        "ca_file": server.authority.certificate,
        **more,
    }


def unsigned_jwt(lifetime: float = 3600) -> str:
    """A token that says of itself that nobody signed it. ``lifetime``: seconds from now, negative for an ended one."""
    now = time.time()
    claims = {"sub": "kubedelta", "iat": now + min(0, 2 * lifetime), "exp": now + lifetime}
    parts = (json.dumps(part).encode() for part in ({"alg": "none"}, claims))
    return "".join(f"{urlsafe_b64encode(part).decode().rstrip('=')}." for part in parts)


def printing(folder: Path, token: str, lifetime: float = 3600) -> list[str]:
    """A command that prints a token from a file, and adds a line to the file ``runs``."""
    (folder / "token").write_text(json.dumps({"access_token": token, "expires_in": lifetime}))
    script = "import sys; open(sys.argv[2], 'a').write('run\\n'); print(open(sys.argv[1]).read())"
    return [sys.executable, "-c", script, str(folder / "token"), str(folder / "runs")]


async def delivers(server: SecuredKafka, options: Options) -> None:
    topic = fresh_name("secured")
    await asyncio.to_thread(server.create_topic, topic)
    async with opened(server, topic, connect_timeout=TIMEOUT, **options) as sink:
        await until_stored(sink, changes(5))
    assert ids(await read(server, topic)) == ids_of(changes(5))


async def refusal(server: SecuredKafka, options: Options) -> WrongOption:
    """As an operator reads it. The timeout only bounds the wait for the refusal."""
    with pytest.raises(WrongOption) as refused:
        await the_sink(server, "k8s.pods", connect_timeout=TIMEOUT, **options).check()
    return refused.value


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_a_password_comes_from_its_file(secured_kafka: SecuredKafka, tmp_path: Path, mechanism: str) -> None:
    await delivers(secured_kafka, password_options(secured_kafka, tmp_path, mechanism))

    wrong = await refusal(secured_kafka, password_options(secured_kafka, tmp_path, mechanism, "wrong-password"))
    assert wrong.option == "password_file"
    assert "refuse the user kubedelta" in wrong.reason
    assert "wrong-password" not in str(wrong)


async def test_both_sides_show_their_certificates(secured_kafka: SecuredKafka, tmp_path: Path) -> None:
    other = Authority.make(tmp_path / "other", "another authority")
    options = certificate_options(secured_kafka, secured_kafka.authority.issue("client"))
    await delivers(secured_kafka, options)

    assert (await refusal(secured_kafka, options | {"ca_file": other.certificate})).option == "ca_file"
    stranger = await refusal(secured_kafka, certificate_options(secured_kafka, other.issue("stranger")))
    assert stranger.option == "cert_file"
    nobody = await refusal(
        secured_kafka, {name: options[name] for name in options if name not in ("cert_file", "key_file")}
    )
    assert nobody.option == "cert_file"


async def test_a_token_comes_from_a_command(secured_kafka: SecuredKafka, tmp_path: Path) -> None:
    await delivers(secured_kafka, token_options(secured_kafka, token_command=printing(tmp_path, unsigned_jwt())))

    ended = token_options(secured_kafka, token_command=printing(tmp_path, unsigned_jwt(lifetime=-3600)))
    wrong = await refusal(secured_kafka, ended)
    assert wrong.option == "token_command"
    assert "refuse the token" in wrong.reason
    assert unsigned_jwt(lifetime=-3600)[:20] not in str(wrong)


async def test_a_token_is_renewed_before_its_end(secured_kafka: SecuredKafka, tmp_path: Path) -> None:
    script = """if True:
        import base64, json, pathlib, sys, time
        now, runs = time.time(), pathlib.Path(sys.argv[1])
        parts = {"alg": "none"}, {"sub": "kubedelta", "iat": now, "exp": now + 4}
        encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
        runs.write_text((runs.read_text() if runs.exists() else "") + "run\\n")
        print(json.dumps({"token": ".".join(encoded) + ".", "expires_at": now + 4}))
    """
    command = [sys.executable, "-c", script, str(tmp_path / "runs")]
    topic = fresh_name("renewed")
    await asyncio.to_thread(secured_kafka.create_topic, topic)
    options = token_options(secured_kafka, token_command=command)
    sent = 0
    async with opened(secured_kafka, topic, connect_timeout=TIMEOUT, **options) as sink, asyncio.timeout(60 * BUSY):
        while len((tmp_path / "runs").read_text().splitlines()) < 3:
            sent += 1
            await until_stored(sink, changes(1, first=sent))
            await asyncio.sleep(0.1)  # Real time: the broker measures the token's.

    assert ids(await read(secured_kafka, topic)) == ids_of(changes(sent))


async def test_a_renewed_password_needs_no_restart(secured_kafka: SecuredKafka, tmp_path: Path) -> None:
    """The broker asks for a proof every two seconds, on the connection that it has."""
    topic, mechanism, user = fresh_name("renewed"), "SCRAM-SHA-512", fresh_name("user")
    await asyncio.to_thread(secured_kafka.create_topic, topic)
    await asyncio.to_thread(secured_kafka.set_password, mechanism, "first", user)
    options = password_options(secured_kafka, tmp_path, mechanism, "first") | {"username": user, "ack_timeout": 1}
    sent = 0
    async with opened(secured_kafka, topic, connect_timeout=TIMEOUT, **options) as sink, asyncio.timeout(60 * BUSY):
        first = sink._producers.present
        await until_stored(sink, changes(5))
        (tmp_path / "password").write_text("second")
        await asyncio.to_thread(secured_kafka.set_password, mechanism, "second", user)
        while sink._producers.present is first:
            sent += 1
            await until_stored(sink, changes(1, first=100 + sent))
            await asyncio.sleep(0.05)  # Until the broker asks again.
        await until_stored(sink, changes(5, first=10_001))

    found = ids(await read(secured_kafka, topic))
    expected = ids_of([*changes(5), *changes(sent, first=101), *changes(5, first=10_001)])
    assert list(dict.fromkeys(found)) == expected, "in order, and some perhaps twice"


async def test_a_token_comes_from_an_authorization_server(secured_kafka: SecuredKafka, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hush\n")
    async with TokenServer() as tokens:
        tokens.make_token = unsigned_jwt
        options = token_options(
            secured_kafka, oauth2=tokens.options(client_secret_file=tmp_path / "secret", scopes=["a", "b"])
        )
        await delivers(secured_kafka, options)
        assert tokens.forms[0]["scope"] == ["a b"]

        (tmp_path / "secret").write_text("wrong-secret\n")
        wrong = await refusal(secured_kafka, options)
    assert wrong.option == "oauth2"
    assert "invalid_client" in wrong.reason
    assert "wrong-secret" not in str(wrong)


async def test_a_mechanism_that_brokers_lack_is_named(secured_kafka: SecuredKafka, tmp_path: Path) -> None:
    plain = password_options(secured_kafka, tmp_path, "PLAIN")
    clear = {"bootstrap_servers": secured_kafka.clear, "security_protocol": "sasl_plaintext", "ca_file": None}

    wrong = await refusal(secured_kafka, {**plain, **clear})

    assert wrong.option == "sasl_mechanism"
    assert "SCRAM-SHA-256" in wrong.reason, "the mechanism that the broker has"
    await delivers(secured_kafka, {**plain, **clear, "sasl_mechanism": "SCRAM-SHA-256"})


async def test_a_wrong_protocol_is_named(secured_kafka: SecuredKafka, tmp_path: Path) -> None:
    secured = password_options(secured_kafka, tmp_path, "SCRAM-SHA-256")

    with pytest.raises(SinkUnavailable, match="see bootstrap_servers and security_protocol"):
        # The broker ends the connection without a word.
        await the_sink(secured_kafka, "k8s.pods", bootstrap_servers=secured_kafka.sasl, connect_timeout=2).check()
    to_a_plain_port = {**secured, "bootstrap_servers": secured_kafka.bootstrap}
    with pytest.raises((WrongOption, SinkUnavailable)) as refused:  # The broker may close before its reason is read.
        await the_sink(secured_kafka, "k8s.pods", connect_timeout=TIMEOUT, **to_a_plain_port).check()
    assert "security_protocol" in str(refused.value)
