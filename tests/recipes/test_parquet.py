"""``recipes/parquet``, as it stands: after changes and kills the table equals a fresh list."""

from __future__ import annotations

import asyncio
import json
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from bridge.playground.manifests import config_map
from tests.documents.pages import read
from tests.kit.bridge_process import BridgeProcess
from tests.kit.churn import comes_or_goes
from tests.kit.deadlines import BUSY, until
from tests.kit.playground import Playground

PAGE = read("recipes/parquet/README.md")
STEPS, OBJECTS = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
KILLS = 4


ENGINE = """
import json, sys
import duckdb
with duckdb.connect() as engine:
    for statement in json.load(sys.stdin):
        found = engine.execute(statement)
    print(json.dumps(found.fetchall()))
"""
"""A process of its own: DuckDB's binding complains of leaks at the end of whatever process it was loaded in."""


def asked(folder: Path) -> dict[tuple[str, str], tuple[str, Any]]:
    """Namespace and name of each object by the table → uid and data."""
    statements = [each.replace("'steps.", f"'{folder}/steps.") for each in (STEPS, OBJECTS)]
    engine = [sys.executable, "-c", ENGINE]
    ran = subprocess.run(engine, input=json.dumps(statements), capture_output=True, text=True, timeout=60 * BUSY)
    assert ran.returncode == 0, ran.stderr
    rows = json.loads(ran.stdout)
    return {(namespace, name): (uid, json.loads(thing).get("data")) for namespace, name, uid, thing in rows}


def is_closed(folder: Path) -> bool:
    """Every line stands in a compressed part: the open one was closed at its age."""
    return all(each.suffix == ".zst" or not each.stat().st_size for each in folder.glob("steps.ndjson*"))


async def test_after_changes_and_kills_the_table_equals_a_fresh_list(tmp_path: Path) -> None:
    [text] = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    config = yaml.safe_load(text)
    sink = config["sinks"]["steps"]
    sink |= {"path": str(tmp_path / sink["path"]), "rotation": {"bytes": "4KiB", "age": "1s"}}
    chance = random.Random(5)
    async with Playground() as cluster:
        config["cluster"]["server"] = cluster.url
        bridge = BridgeProcess(tmp_path / "bridge", config)

        def change(number: int) -> None:
            thing = config_map(f"map-{chance.randrange(6)}", {"n": str(number)})
            comes_or_goes(cluster, chance, "configmaps", thing)

        for kill in range(KILLS):
            await asyncio.to_thread(bridge.start)
            for number in range(25):
                change(100 * kill + number)
                await asyncio.sleep(0)
            if kill % 2:
                await bridge.until_delivered("steps")
            bridge.kill9()
            change(100 * kill + 99)
        async with bridge.started():
            await bridge.until_live("configmaps")
            await bridge.until_delivered("steps")
            await until(lambda: is_closed(tmp_path))
        fresh = {
            (each["metadata"]["namespace"], each["metadata"]["name"]): (each["metadata"]["uid"], each.get("data"))
            for each in cluster.list("configmaps", namespace="default")
        }
    assert asked(tmp_path) == fresh
