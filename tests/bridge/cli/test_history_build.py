"""``kubedelta history build`` of topics and streams: while they grow, through kills, and where they cannot be read."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from confluent_kafka.admin._acl import AclOperation
from pydantic import BaseModel

from bridge.cli.exits import Exit
from bridge.history import HistoryFile, NotInHistory, PastPoint
from bridge.model.change import Op
from bridge.model.record import Delta, Gap
from tests.bridge.cli.conftest import Command
from tests.cluster.fixtures import MakeStream, MakeTopic, fresh_name
from tests.cluster.servers import AuthorizingKafka, Kafka, Nats
from tests.kit.configurations import a_config
from tests.kit.deadlines import BUSY, until
from tests.kit.fork_server import Forked, fork_server
from tests.kit.records import DEPLOYMENTS, PODS, a_delta, a_gap
from tests.sinks.kafka import test_reading_for_verify as kafka_sink
from tests.sinks.nats import test_reading_for_verify as nats_sink

Write: TypeAlias = Callable[[Sequence[Delta | Gap]], Awaitable[None]]
Step: TypeAlias = tuple[int, str, str, Any]
"""Sequence, op, uid and state."""
EVERYWHERE = PastPoint.parsed("now")
NEW = (Op.ADDED, Op.UPDATED, Op.UPDATED, Op.DELETED)


def churn(count: int, chance: random.Random) -> list[Delta | Gap]:
    """Changes of pods, later of deployments, too, which come, go and come again with another uid; one gap."""
    uids: dict[str, str] = {}
    records: list[Delta | Gap] = []
    for number in range(1, count + 1):
        if number == count // 2:
            records.append(a_gap(number, number))
            continue
        resource = chance.choice([PODS, DEPLOYMENTS]) if number > count // 3 else PODS
        key = f"shop/{resource.plural}-{chance.randrange(8)}"
        op = chance.choice([Op.UPDATED, Op.UPDATED, Op.DELETED]) if key in uids else Op.ADDED
        uid = uids.setdefault(key, f"uid-{number}")
        body = {"kind": resource.kind, "metadata": {"uid": uid}, "n": number, "text": str(number) * 20}
        records.append(a_delta(number, resource=resource, key=key, op=op, uid=uid, body=json.dumps(body).encode()))
        if op is Op.DELETED:
            del uids[key]
    return records


def listed(records: Sequence[Delta | Gap]) -> dict[str, list[Step]]:
    """The steps of each name, without any reader."""
    found: dict[str, list[Step]] = {}
    for each in records:
        if isinstance(each, Delta):
            step = each.sequence, str(each.op), each.uid, json.loads(each.body)
            found.setdefault(each.key.partition("/")[2], []).append(step)
    return found


def told(path: Path) -> dict[str, list[Step]]:
    """The steps of each name, as the file has them."""
    found: dict[str, list[Step]] = {}
    with HistoryFile.open(path) as history:
        for resource in ("pods", "deployments"):
            for name in (f"{resource}-{number}" for number in range(8)):
                found[name] = [
                    (each.sequence, each.op, each.uid, json.loads(each.state)) for each in history.steps(resource, name)
                ]
        assert {each.key.rpartition("/")[2] for each in history.at(EVERYWHERE)} == {
            name for name, steps in found.items() if steps[-1][1] != Op.DELETED
        }
        assert [gap.words for gap in history.gaps()] == ["1 record never came: the outbox was full"]
    return found


def steps_in(path: Path) -> int:
    try:
        with HistoryFile.open(path) as history:
            return history.size().steps
    except NotInHistory:
        return 0


@asynccontextmanager
async def following(*words: str) -> AsyncIterator[Forked]:
    """A build that waits for more; it is killed at the end of the block."""
    process = fork_server().start([*words, "--follow"], os.open(os.devnull, os.O_WRONLY), 2)
    try:
        yield process
    finally:
        process.kill()
        await asyncio.to_thread(process.wait, 30 * BUSY)


async def until_built(path: Path, count: int) -> None:
    await until(lambda: steps_in(path) >= count)


async def grow(parts: Sequence[Sequence[Delta | Gap]], write: Write, path: Path, *words: str) -> None:
    """A build follows each part, and is killed, half of the times wherever it is."""
    counts = accumulate(sum(isinstance(each, Delta) for each in part) for part in parts)
    for number, (part, count) in enumerate(zip(parts, counts, strict=True)):
        async with following(*words) as process:
            await write(part)
            if number % 2 or number == len(parts) - 1:
                await until_built(path, count)
        assert process.returncode == -signal.SIGKILL


def parts_of(records: Sequence[Delta | Gap], count: int) -> list[Sequence[Delta | Gap]]:
    size = -(-len(records) // count)
    return [records[start : start + size] for start in range(0, len(records), size)]


def words_for(folder: Path, type: str, options: BaseModel) -> Sequence[str]:
    """A build of a sink with these options."""
    sink = {"type": type, **options.model_dump(mode="json", exclude_unset=True)}
    config = a_config(folder, cluster={"name": "prod", "server": "http://127.0.0.1:1"}, sinks={"live": sink})
    return "history", "build", "--from", "live", "-c", str(config), "--to", str(folder / "k8s.db")


async def test_a_history_follows_a_stream_through_kills(
    command: Command, tmp_path: Path, nats_server: Nats, nats_stream: MakeStream
) -> None:
    chosen, path = nats_sink.options(nats_server, await nats_stream()), tmp_path / "k8s.db"
    words, records = words_for(tmp_path, "nats", chosen), churn(600, random.Random(3))

    await grow(parts_of(records, 6), partial(nats_sink.write, chosen), path, *words)

    assert told(path) == listed(records)
    again = await command(*words)
    assert again.out.startswith(f"{path}: 599 steps of "), again.err


@pytest.mark.parametrize("template", ["{name}", "{name}.{{resource}}"])
async def test_a_history_follows_topics_through_kills(
    command: Command, tmp_path: Path, kafka: Kafka, kafka_topic: MakeTopic, template: str
) -> None:
    """One topic of three partitions, or one for each resource, of which the second appears later."""
    topic, path = template.format(name=fresh_name("k8s")), tmp_path / "k8s.db"
    chosen, made = kafka_sink.options(kafka, topic), set[str]()
    words, records = words_for(tmp_path, "kafka", chosen), churn(600, random.Random(3))

    async def write(part: Sequence[Delta | Gap]) -> None:
        names = {topic.format(resource=each.resource.plural if isinstance(each, Delta) else "notice") for each in part}
        for name in names - made:
            await asyncio.to_thread(kafka_topic, 3, name)
        made.update(names)
        await kafka_sink.write(chosen, part)

    first, *others = parts_of(records, 6)
    await write(first)
    await grow([first, *others], write, path, *words)

    assert told(path) == listed(records)
    again = await command(*words)
    assert again.out.startswith(f"{path}: 599 steps of "), again.err


async def test_a_topic_that_is_not_there_is_named_with_what_to_do(
    command: Command, tmp_path: Path, kafka: Kafka, kafka_topic: MakeTopic
) -> None:
    topic = fresh_name("k8s")
    chosen = kafka_sink.options(kafka, topic)
    words, records = words_for(tmp_path, "kafka", chosen), churn(20, random.Random(3))

    missing = await command(*words)
    await asyncio.to_thread(kafka_topic, 1, topic)
    await kafka_sink.write(chosen, records)
    built = await command(*words)

    assert missing.code == Exit.UNAVAILABLE
    assert f"shows no topic like {topic}: nobody made it yet, or the name is wrong, or the right to" in missing.err
    assert built.out.startswith(f"{tmp_path / 'k8s.db'}: 19 steps of "), built.err


@pytest.mark.parametrize(
    ("operation", "reason"),
    [(AclOperation.READ, "the right to read it is missing"), (AclOperation.DESCRIBE, "the right to describe it is")],
)
async def test_a_topic_that_may_not_be_read_is_read_on_once_it_may(
    command: Command, tmp_path: Path, authorizing_kafka: AuthorizingKafka, operation: AclOperation, reason: str
) -> None:
    topic, path = fresh_name("k8s"), tmp_path / "k8s.db"
    chosen = kafka_sink.options(authorizing_kafka, topic)
    words, records = words_for(tmp_path, "kafka", chosen), churn(100, random.Random(3))
    await asyncio.to_thread(authorizing_kafka.create_topic, topic)
    await kafka_sink.write(chosen, records[:30])
    first = await command(*words)
    assert first.code == Exit.OK, first.err
    await kafka_sink.write(chosen, records[30:])

    await asyncio.to_thread(authorizing_kafka.forbid, topic, operation)
    refused = await command(*words)
    kept = steps_in(path)
    await asyncio.to_thread(authorizing_kafka.permit, topic)
    built = await command(*words)

    assert (refused.code, kept) == (Exit.UNAVAILABLE, 30)
    assert topic in refused.err
    assert reason in refused.err
    assert built.code == Exit.OK, built.err
    assert told(path) == listed(records)
