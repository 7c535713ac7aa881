"""``kubedelta actors``: what an operator types, and what it prints."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from bridge.cli.exits import Exit
from tests.bridge.cli.conftest import Command
from tests.bridge.history.actors.audit_events import answered, audit_event, line
from tests.kit.certificates import Authority
from tests.kit.commands import in_a_process


@pytest.fixture
def log(tmp_path: Path) -> Path:
    log = tmp_path / "audit.log"
    log.write_bytes(line(audit_event(**answered("42"))) + line(audit_event("get")) + b"torn\n")
    return log


def test_it_writes_the_actors_of_a_log_and_tells_their_joins(log: Path) -> None:
    output = log.with_name("actors.jsonl")
    words = ("actors", str(log), "--to", str(output), "--cluster", "prod", "--no-follow")
    ended = in_a_process(*words)
    assert (ended.code, ended.err) == (Exit.OK, "1 actor: 1 by version; 1 line no audit event\n")
    [event] = map(json.loads, output.read_text().splitlines())
    assert (event["type"], event["partitionkey"]) == ("kubedelta.actor.v1", "prod/apps/deployments/shop/web")
    assert in_a_process(*words).err == "0 actors\n"
    assert len(output.read_text().splitlines()) == 1


def test_a_log_that_went_before_it_was_read_is_told(log: Path) -> None:
    output = log.with_name("actors.jsonl")
    words = ("actors", str(log), "--to", str(output), "--no-follow")
    assert in_a_process(*words).code == Exit.OK
    log.write_bytes(line(audit_event(auditID="later")))
    ended = in_a_process(*words)
    assert ended.code == Exit.NO
    assert "events may be missing: the rest of the file that was read last was removed" in ended.err


def test_a_line_that_a_power_cut_left_is_cut_off_and_told(log: Path) -> None:
    output = log.with_name("actors.jsonl")
    output.write_bytes(bytes(4096))
    ended = in_a_process("actors", str(log), "--to", str(output), "--no-follow")
    assert ended.code == Exit.OK
    assert ended.err.startswith(f"{output}: its last line was never written whole: 4096 bytes cut off\n1 actor")
    assert len(output.read_text().splitlines()) == 1


def test_digests_take_the_place_of_names(log: Path) -> None:
    key = log.with_name("redaction.key")
    key.write_text("ab" * 32)
    output = log.with_name("actors.jsonl")
    ended = in_a_process("actors", str(log), "--to", str(output), "--no-follow", "--user", "digest", "--key", str(key))
    assert ended.code == Exit.OK
    assert json.loads(output.read_text())["data"]["user"]["name"].startswith("hmac-sha256:")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--to", "x"], "name the audit log, or a topic with --topic, or an address with --listen"),
        (["log", "--to", "x", "--listen", ":1"], "name the audit log, or a topic with --topic, or an address"),
        (["--to", "x", "--topic", "audit"], "--topic needs --kafka"),
        (["--to", "x", "--listen", ":9443"], "--listen needs --cert and --cert-key"),
        (["--to", "x", "--listen", ":9443", "--cert", "c", "--cert-key", "k"], "--listen needs --token-file or"),
        (["--to", "x", "--listen", "9443"], "'9443' is no address; allowed: 127.0.0.1:9443"),
        (["log", "--to", "x", "--user", "digest"], "--user digest needs --key"),
        (["log", "--to", "x", "--largest", "much"], "'much' is not a size; allowed"),
        (["log"], "--to"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_command_line_is_explained(words: list[str], said: str) -> None:
    ended = in_a_process("actors", *words)
    assert ended.code == Exit.USAGE
    assert said in ended.err


def test_files_that_cannot_be_used_are_named(log: Path) -> None:
    missing = log.with_name("missing")
    output = str(log.with_name("actors.jsonl"))
    ended = in_a_process("actors", str(log), "--to", output, "--user", "digest", "--key", str(missing))
    assert (ended.code, f"--key: cannot read {missing}" in ended.err) == (Exit.CONFIG, True)
    ended = in_a_process("actors", str(log), "--to", str(missing / "actors.jsonl"), "--no-follow")
    assert (ended.code, "--to: cannot write" in ended.err) == (Exit.CONFIG, True)
    files = [word for name in ("--cert", "--cert-key", "--token-file") for word in (name, str(missing))]
    ended = in_a_process("actors", "--listen", "127.0.0.1:0", *files, "--to", output)
    assert (ended.code, f"cannot use {missing}" in ended.err) == (Exit.CONFIG, True)


def test_a_server_that_could_take_no_post_does_not_start(log: Path, tmp_path: Path) -> None:
    issued = Authority.make(tmp_path / "ca").issue("localhost")
    token = tmp_path / "token"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        certificate = ["--cert", str(issued.certificate), "--cert-key", str(issued.key)]
        words = ["actors", "--listen", address, *certificate, "--token-file", str(token), "--to", f"{log}.actors"]
        ended = in_a_process(*words)
        assert (ended.code, f"--token-file: cannot read {token}" in ended.err) == (Exit.CONFIG, True)
        token.write_text("s3cret")
        ended = in_a_process(*words)
        assert (ended.code, f"--listen {address}: Address already in use" in ended.err) == (Exit.UNAVAILABLE, True)


def test_another_programs_file_is_not_appended_to(log: Path) -> None:
    ended = in_a_process("actors", str(log), "--to", str(log), "--no-follow")
    assert ended.code == Exit.CONFIG
    assert "is no file of actors" in ended.err


async def test_properties_without_brokers_are_refused(tmp_path: Path, command: Command) -> None:
    (properties := tmp_path / "kafka.properties").write_text("sasl.password=hunter2\n")
    words = ("--topic", "audit", "--kafka", str(properties), "--to", str(tmp_path / "actors.jsonl"))
    ended = await command("actors", *words)
    assert (ended.code, ended.err) == (Exit.CONFIG, f"--kafka: {properties} names no brokers (bootstrap.servers)\n")
