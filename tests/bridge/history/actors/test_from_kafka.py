"""Audit events of a topic, on a real broker."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from bridge.cli.exits import Exit
from tests.bridge.history.actors.audit_events import answered, audit_event, line
from tests.cluster.fixtures import MakeTopic
from tests.cluster.servers import Kafka
from tests.kit.commands import Ended, in_a_process
from tests.reader.sources.test_servers import produce


def event(number: int) -> bytes:
    return line(audit_event(auditID=f"audit-{number}", **answered(str(number))))


async def test_it_goes_on_where_it_was_in_the_topic(kafka: Kafka, kafka_topic: MakeTopic, tmp_path: Path) -> None:
    topic, output = kafka_topic(2), tmp_path / "actors.jsonl"
    (properties := tmp_path / "kafka.properties").write_text(f"# brokers\nbootstrap.servers={kafka.bootstrap}\n")

    def actors() -> Ended:
        words = ("--topic", topic, "--kafka", str(properties), "--to", str(output), "--cluster", "prod", "--no-follow")
        return in_a_process("actors", *words)

    await asyncio.to_thread(produce, kafka, topic, [event(1), b"no event"], 0)
    await asyncio.to_thread(produce, kafka, topic, [event(2)], 1)
    first = await asyncio.to_thread(actors)
    assert (first.code, first.err) == (Exit.OK, "2 actors: 2 by version; 1 line no audit event\n")
    await asyncio.to_thread(produce, kafka, topic, [event(3)], 1)
    assert (await asyncio.to_thread(actors)).err == "1 actor: 1 by version\n"
    written = [json.loads(each)["id"].partition("/")[0] for each in output.read_text().splitlines()]
    assert sorted(written) == ["audit-1", "audit-2", "audit-3"]

    (tmp_path / "audit.log").write_bytes(event(4))
    mixed = await asyncio.to_thread(
        in_a_process, "actors", str(tmp_path / "audit.log"), "--to", str(output), "--no-follow"
    )
    assert (mixed.code, "no position of such a source" in mixed.err) == (Exit.CONFIG, True)


async def test_brokers_that_are_away_are_told_in_one_line(tmp_path: Path) -> None:
    (properties := tmp_path / "kafka.properties").write_text("bootstrap.servers=127.0.0.1:1\n")
    words = ("--topic", "audit", "--kafka", str(properties), "--to", str(tmp_path / "actors.jsonl"), "--no-follow")
    ended = await asyncio.to_thread(in_a_process, "actors", *words)
    assert (ended.code, ended.err.count("\n")) == (Exit.UNAVAILABLE, 2)
    assert "cannot read from 127.0.0.1:1" in ended.err
