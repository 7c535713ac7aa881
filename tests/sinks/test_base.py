"""What sinks share: secrets, event options, names, TLS."""

from __future__ import annotations

import os
import ssl
import subprocess
from pathlib import Path

import pytest
from pydantic import ValidationError

from sinks.base import SecretFile, SinkOptions, SinkUnavailable, read_secret
from sinks.secret_files import tls_context
from sinks.template import PLACEHOLDERS, Template, check_template
from tests.kit.certificates import Authority
from tests.kit.records import CLUSTER_ROLES, DEPLOYMENTS, a_delta, a_gap, a_snapshot

# ── Secrets ──────────────────────────────────────────────────────────────────


def test_a_secret_ends_before_its_newline(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    for content in ("hush", "hush\n", "hush\r\n"):
        path.write_text(content)
        assert read_secret(path, "password_file") == "hush"


def test_a_secret_that_is_no_text_is_reported_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_bytes(b"\xff\xfe\x00")

    with pytest.raises(SinkUnavailable, match=f"password_file: cannot read the secret file {path}"):
        SecretFile(path, "password_file").read()


def test_a_secret_is_read_again_only_when_it_was_renewed(tmp_path: Path) -> None:
    """As Kubernetes does it: a link is moved to another file."""
    for name in ("old", "new"):
        (tmp_path / name).write_text(name)
    link = tmp_path / "secret"
    link.symlink_to("old")
    secret = SecretFile(link, "password_file")
    assert secret.read() == "old"

    (tmp_path / "aside").symlink_to("new")
    (tmp_path / "aside").rename(link)
    assert secret.read() == "new"

    (tmp_path / "new").chmod(0)
    if os.geteuid() != 0:
        assert secret.read() == "new"


def test_a_mistake_in_options_does_not_repeat_what_was_written() -> None:
    class Options(SinkOptions):
        number: int

    with pytest.raises(ValidationError) as error:
        Options.model_validate({"number": "hush", "password": "hush"})

    assert "hush" not in str(error.value)


# ── Names ────────────────────────────────────────────────────────────────────


def test_every_placeholder_is_filled_and_every_value_escaped() -> None:
    text = " ".join(f"{{{name}}}" for name in PLACEHOLDERS)

    template = Template(text, "prod", escape=lambda value: f"<{value}>")

    rendered = template.render(a_delta(resource=DEPLOYMENTS, key="shop/web"))
    assert rendered == "<prod> <apps> <v1> <deployments> <Deployment> <shop> <web>"


def test_what_is_not_there_has_a_word_of_its_own() -> None:
    template = Template("{group}.{namespace}.{name}.{resource}", "prod", escape=str)

    assert template.render(a_delta(resource=CLUSTER_ROLES, key="admin")).split(".")[-3:] == [
        "_",
        "admin",
        "clusterroles",
    ]
    assert template.render(a_delta()) == "core.shop.web-1.pods"
    assert template.render(a_gap()) == template.render(a_snapshot()) == "_._._.notice"


@pytest.mark.parametrize("text", ["{pod}", "{}", "{0}", "{name!r}", "{name:>9}", "{name.upper}", "{name", "}", "{{"])
def test_anything_but_plain_placeholders_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="allowed are"):
        check_template(text)


# ── TLS ──────────────────────────────────────────────────────────────────────


def test_a_context_verifies_and_shows_what_it_was_given(tmp_path: Path) -> None:
    authority = Authority.make(tmp_path)
    client = authority.issue("client")

    context = tls_context(authority.certificate, client.certificate, client.key)

    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert len(context.get_ca_certs()) == 1


def test_an_encrypted_key_is_an_error_and_asks_nobody(tmp_path: Path) -> None:
    authority = Authority.make(tmp_path)
    client = authority.issue("client")
    encrypted = tmp_path / "encrypted.key"
    command = ["openssl", "ec", "-in", str(client.key), "-aes256", "-passout", "pass:hush", "-out", str(encrypted)]
    subprocess.run(command, check=True, capture_output=True)

    with pytest.raises(SinkUnavailable, match="the key is encrypted"):
        tls_context(None, client.certificate, encrypted)
