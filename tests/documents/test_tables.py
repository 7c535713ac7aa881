"""The statements of docs/tables.md, in the real engines, on rows that real sinks sent."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from bridge.model.change import Op
from bridge.model.record import Delta, Record
from sinks import registry
from sinks.base import ALL_STORED
from tests.documents.pages import section
from tests.kit.records import DEPLOYMENTS, PODS, a_delta, a_gap
from tests.kit.sinks import opened_sink
from tests.kit.webhook_receiver import WebhookReceiver

FIRST = 1_795_251_661_613
DUCKDB, CLICKHOUSE = (section("docs/tables.md", f"## {engine}") for engine in ("DuckDB", "ClickHouse"))


def statements(text: str) -> list[str]:
    return re.findall(r"```sql\n(.*?)```", text, re.DOTALL)


def documented_sink(text: str) -> tuple[str, dict[str, Any]]:
    """Type and options of the sink in the section."""
    [block] = re.findall(r"\n((?:    .*\n)+)", text.partition("```")[0])
    options = yaml.safe_load(block)["sinks"]["table"]
    return options.pop("type"), options


def history(seed: int, steps: int = 300) -> tuple[list[Delta], dict[tuple[str, str, str], tuple[str, Any]]]:
    """Changes of a few objects that come, go, and come back under their names; then (resource, namespace, name) → uid
    and state of those that exist. Every second delete was found by a list: it has the version of the last state."""
    chance = random.Random(seed)
    deltas: list[Delta] = []
    alive: dict[tuple[str, str, str], tuple[str, Any]] = {}
    for number in range(steps):
        resource = chance.choice([PODS, DEPLOYMENTS])
        namespace, name = chance.choice(["shop", "bank"]), chance.choice("abc")
        place = (resource.plural, namespace, name)
        state = {"status": {"phase": f"p{number}", "text": 'a "b" \u2028 \\'}}
        uid, last = alive.get(place, (f"uid-{number}", None))
        op = Op.ADDED if last is None else chance.choice([Op.UPDATED, Op.UPDATED, Op.DELETED])
        if op is Op.DELETED:
            del alive[place]
        else:
            alive[place] = uid, state
        body = json.dumps(last if op is Op.DELETED else state).encode()
        key = f"{namespace}/{name}"
        deltas.append(a_delta(FIRST + number, resource=resource, key=key, op=op, uid=uid, body=body))
    return deltas, alive


async def deliver(kind: str, options: dict[str, Any], records: Sequence[Record]) -> None:
    sink = registry.create("table", kind, registry.types()[kind].options.model_validate(options), cluster="prod")
    async with opened_sink(sink):
        assert await sink.deliver(records) == ALL_STORED


@pytest.mark.parametrize("seed", range(3))
async def test_duckdb_has_exactly_the_objects_that_exist(seed: int, tmp_path: Path) -> None:
    import duckdb  # Imported above, its binding complains at the end of the process.

    deltas, alive = history(seed)
    kind, options = documented_sink(DUCKDB)
    rows = tmp_path / "rows.ndjson"
    create, upsert, query = (text.replace("rows.ndjson", str(rows)) for text in statements(DUCKDB))
    table = duckdb.connect()
    table.execute(create)
    for part in (deltas[:100], [a_gap()], deltas[50:200], deltas[200:], deltas[:30]):
        await deliver(kind, options | {"path": rows}, part)
        table.execute(upsert)

    found = table.execute("SELECT resource, namespace, name, uid, object FROM objects WHERE deleted = 0").fetchall()
    assert {(row[0], row[1], row[2]): (row[3], json.loads(row[4])) for row in found} == alive
    assert sorted(table.execute(query).fetchall()) == phases(alive)
    table.close()


@pytest.mark.parametrize("seed", range(3))
async def test_clickhouse_has_exactly_the_objects_that_exist(seed: int) -> None:
    session = pytest.importorskip("chdb.session", reason="`make test-engines` installs it").Session()
    deltas, alive = history(seed)
    kind, options = documented_sink(CLICKHOUSE)
    assert "INSERT%20INTO%20objects%20FORMAT%20JSONEachRow" in options.pop("url")
    async with WebhookReceiver() as receiver:
        for part in (deltas[:100], [a_gap()], deltas[50:200], deltas[200:]):
            await deliver(kind, options | {"url": receiver.url}, part)
        bodies = [posted.body.decode() for posted in receiver.accepted]
    random.Random(seed).shuffle(bodies)
    create, query = statements(CLICKHOUSE)

    def asked(statement: str) -> list[Any]:
        return [json.loads(line) for line in session.query(statement, "JSONEachRow").bytes().splitlines()]

    session.query(create)
    for body in bodies:
        session.query(f"INSERT INTO objects FORMAT JSONEachRow {body}")
    for _ in ("as inserted", "merged"):
        found = asked("SELECT resource, namespace, name, uid, object FROM objects FINAL")
        places = [(row["resource"], row["namespace"], row["name"]) for row in found]
        states = [(row["uid"], json.loads(row["object"])) for row in found]
        assert len(found) == len(alive)
        assert dict(zip(places, states, strict=True)) == alive
        assert sorted(tuple(row.values()) for row in asked(query)) == phases(alive)
        session.query("OPTIMIZE TABLE objects FINAL")
    session.close()


def phases(alive: dict[tuple[str, str, str], tuple[str, Any]]) -> list[tuple[str, str, str]]:
    pods = {place: state for place, (_, state) in alive.items() if place[0] == "pods"}
    return sorted((namespace, name, state["status"]["phase"]) for (_, namespace, name), state in pods.items())
