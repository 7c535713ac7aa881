"""Actors are durable before anybody is told so, and come again rather than not at all."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from kubedelta_reader.sources.files import FileSource
from kubedelta_reader.sources.parts import timed_parts_of

from bridge.history.actors.actor_log import ActorLog, actors_in
from bridge.history.actors.collecting import AuditWebhook, Collector, follow
from bridge.http.access import TokenFile, TokenGate
from bridge.telemetry.facts import discard
from tests.bridge.history.actors.audit_events import answered, audit_event, line
from tests.kit.certificates import Authority


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "actors.jsonl"


@pytest.fixture
def log(output: Path) -> Iterator[ActorLog]:
    log = ActorLog(output, largest=1 << 20, keep=3)
    yield log
    log.close()


def event(number: int) -> bytes:
    return line(audit_event(auditID=f"audit-{number}", **answered(str(number))))


def written(path: Path) -> list[str]:
    return [json.loads(each)["id"].partition("/")[0] for each in path.read_bytes().splitlines()]


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


async def run(audit: Path, collector: Collector) -> None:
    await follow(FileSource(audit, parts=timed_parts_of), collector, asyncio.Event(), wait=False, say=print)


async def test_a_process_goes_on_where_the_one_before_was_killed(tmp_path: Path, output: Path, log: ActorLog) -> None:
    audit = tmp_path / "audit.log"
    audit.write_bytes(event(1) + event(2))
    await run(audit, Collector("prod", str, log))
    with audit.open("ab") as file:
        file.write(event(3))
    await run(audit, Collector("prod", str, log))
    assert written(output) == ["audit-1", "audit-2", "audit-3"]
    assert mode_of(output) == 0o600


async def test_a_log_that_is_not_there_is_waited_for_and_named_once(
    tmp_path: Path, log: ActorLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge.history.actors.collecting._LOOK", 0.01)
    source, ended = FileSource(tmp_path / "audit.log", parts=timed_parts_of), asyncio.Event()
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        asyncio.get_running_loop().call_later(0.1, ended.set)  # Several looks later.

    await follow(source, Collector("prod", str, log), ended, wait=True, say=say)

    [line] = said
    assert line.startswith(f"waiting: there is no file {tmp_path / 'audit.log'}: ")


def test_many_actors_of_one_event_are_written_part_by_part(output: Path) -> None:
    items = [{"metadata": {"uid": f"uid-{number}"}} for number in range(300)]
    people = {"username": "ada", "groups": ["g" * 1000] * 100}
    deleted = audit_event("deletecollection", user=people, responseObject={"kind": "PodList", "items": items})
    log = ActorLog(output, largest=4 << 20, keep=100)
    Collector("prod", str, log).add([line(deleted)])
    log.close()

    parts = [*output.parent.glob("actors*.jsonl")]
    assert max(each.stat().st_size for each in parts) <= 4 << 20
    assert sum(len(each.read_bytes().splitlines()) for each in parts) == 300


def test_a_damaged_line_hides_no_other(output: Path, log: ActorLog) -> None:
    collector = Collector("prod", str, log)
    collector.add([event(1)])
    with output.open("ab") as file:
        file.write(b"\0\0\n")
    collector.add([event(2)])

    key = "prod/apps/deployments/shop/web"
    assert [each.version for each in actors_in(output, [key])[key]] == ["1", "2"]


async def test_actors_come_again_where_their_position_was_not_saved(tmp_path: Path, output: Path) -> None:
    audit = tmp_path / "audit.log"
    audit.write_bytes(event(1))
    killed = ActorLog(output, largest=1 << 20, keep=3)
    Collector("prod", str, killed).add([event(1)])
    killed.close()
    with output.open("ab") as file:
        file.write(b'{"specversion":"1.0","id":"to')  # The process is killed within the next write.
    later = ActorLog(output, largest=1 << 20, keep=3)
    await run(audit, Collector("prod", str, later))
    later.close()
    assert written(output) == ["audit-1", "audit-1"]


TORN = b'{"specversion":"1.0","id":"to'


@pytest.mark.parametrize("before", [0, 2])
@pytest.mark.parametrize("torn", [TORN, TORN[:5], bytes(5000), bytes(5 << 20), TORN + bytes(5000)], ids=len)
def test_what_was_never_written_whole_is_cut_off(output: Path, before: int, torn: bytes) -> None:
    """A machine that loses its power may leave the new length of a file, and zeros in place of its content."""
    first = ActorLog(output, largest=1 << 20, keep=3)
    Collector("prod", str, first).add(map(event, range(before)))
    first.close()
    whole = output.read_bytes()
    with output.open("ab") as file:
        file.write(torn)

    later = ActorLog(output, largest=1 << 20, keep=3)
    later.close()
    assert (output.read_bytes(), later.cut) == (whole, len(torn))


@pytest.mark.parametrize("content", [b"notes", bytes(9) + TORN, bytes(9) + b"\n", bytes(9) + TORN + b"\n" + TORN])
def test_a_file_of_another_program_is_refused_as_it_is_also_with_zeros_in_front(output: Path, content: bytes) -> None:
    output.write_bytes(content)
    with pytest.raises(ValueError, match="is no file of actors"):
        ActorLog(output, largest=1 << 20, keep=3)
    assert output.read_bytes() == content


def test_what_cannot_be_written_whole_is_not_written(
    log: ActorLog, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector = Collector("prod", str, log)
    collector.add([event(1)])
    real_write, budget = os.write, [100]

    def write(fd: int, content: memoryview) -> int:
        if not budget[0]:
            raise OSError(errno.ENOSPC, "no space")
        part, budget[0] = content[: budget[0]], 0
        return real_write(fd, part)

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(OSError, match="no space"):
        collector.add([event(2)])
    monkeypatch.undo()
    collector.add([event(2)])
    assert written(output) == ["audit-1", "audit-2"]
    assert collector.actors.total() == 2


def test_a_file_has_one_writer(log: ActorLog, output: Path) -> None:
    with pytest.raises(ValueError, match="another process writes"):
        ActorLog(output, largest=1 << 20, keep=3)


def test_full_files_are_renamed_and_the_oldest_go(output: Path) -> None:
    (of_others := output.with_name("actors-of-others.jsonl")).write_bytes(b"")
    log = ActorLog(output, largest=2000, keep=2)
    collector = Collector("prod", str, log)
    for number in range(20):
        collector.add([event(number)])
    log.close()
    parts = sorted(output.parent.glob("actors-2*.jsonl"))
    kept = [identity for each in (*parts, output) for identity in written(each)]
    assert len(parts) == 2
    assert of_others.exists()
    assert kept == [f"audit-{number}" for number in range(20)][-len(kept) :]


def test_lines_that_are_no_audit_events_hurt_no_others(log: ActorLog, output: Path) -> None:
    collector = Collector("prod", str, log)
    collector.add([b"oh\n", event(1), b"\n"])
    assert (written(output), collector.unreadable) == (["audit-1"], 2)


# ── Posts of the API server ──────────────────────────────────────────────────


class Poster:
    def __init__(self, webhook: AuditWebhook, authority: Authority) -> None:
        self._url = f"https://127.0.0.1:{webhook.port}/"
        self._tls = ssl.create_default_context(cafile=str(authority.certificate))
        self._tls.verify_flags &= ~ssl.VERIFY_X509_STRICT  # Python 3.13 asks of an authority what old ones do not have.

    async def post(self, body: bytes, token: str | None = "a-token") -> httpx.Response:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(verify=self._tls, trust_env=False) as client:
            return await client.post(self._url, content=body, headers=headers)


def events(*numbers: int) -> bytes:
    items: list[Any] = [json.loads(event(number)) for number in numbers]
    return json.dumps({"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "metadata": {}, "items": items}).encode()


def fail(*_: object) -> int:
    raise OSError(errno.ENOSPC, "no space")


async def test_a_post_is_answered_when_its_actors_are_durable(
    tmp_path: Path, log: ActorLog, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority.make(tmp_path / "ca")
    (token := tmp_path / "token").write_text("a-token")
    gate = TokenGate(TokenFile(token), "--token-file")
    tls = authority.issue("webhook").server_context()
    webhook = AuditWebhook(Collector("prod", str, log), ("127.0.0.1", 0), tls, gate, discard)
    async with webhook:
        poster = Poster(webhook, authority)
        assert (await poster.post(events(1, 2))).status_code == 200
        assert written(output) == ["audit-1", "audit-2"]
        for wrong in (None, "guess"):
            assert (await poster.post(b"{}", token=wrong)).status_code == 401
        for body in (b"[]", b"[" * 100_000):
            assert (await poster.post(body)).status_code == 400
        monkeypatch.setattr(os, "write", fail)
        assert (await poster.post(events(3))).status_code == 503
        monkeypatch.undo()
        assert (await poster.post(events(3))).status_code == 200
    assert written(output) == ["audit-1", "audit-2", "audit-3"]
