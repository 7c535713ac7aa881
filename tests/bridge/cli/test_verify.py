"""``kubedelta verify``: what it says, and its exit codes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridge.cli.exits import Exit
from bridge.model.change import Op
from bridge.model.record import Delta, Gap
from bridge.model.resource import Resource
from sinks.base import ALL_STORED
from sinks.file.options import FileOptions
from sinks.file.sink import FileSink
from tests.bridge.cli.conftest import Command
from tests.cluster.servers.ports import reserve_port
from tests.kit import records
from tests.kit.configurations import a_config
from tests.kit.playground import Playground
from tests.kit.sinks import opened_sink

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", True)
AT_ONCE = ("--settle", "50ms")


@pytest.fixture
async def cluster() -> AsyncIterator[Playground]:
    async with Playground() as server:
        yield server


def config_map(cluster: Playground, name: str) -> dict[str, Any]:
    return cluster.create("configmaps", {"metadata": {"name": name, "namespace": "shop"}})


def a_delta(sequence: int, manifest: dict[str, Any], op: Op = Op.ADDED) -> Delta:
    """A record of the object as the cluster has it."""
    metadata, body = manifest["metadata"], msgspec.json.encode(manifest)
    key = f"{metadata['namespace']}/{metadata['name']}"
    made = records.a_delta(sequence, resource=CONFIG_MAPS, key=key, op=op, uid=metadata["uid"], body=body)
    return msgspec.structs.replace(made, resource_version=metadata["resourceVersion"])


async def write(folder: Path, written: Sequence[Delta | Gap]) -> None:
    sink = FileSink("copy", FileOptions(path=folder / "deltas.ndjson"), cluster="test")
    async with opened_sink(sink):
        assert await sink.deliver(written) == ALL_STORED


async def test_a_sink_with_all_objects_is_right_and_lacks_are_named(
    command: Command, cluster: Playground, tmp_path: Path
) -> None:
    config = str(a_config(tmp_path, cluster.url))
    first = [config_map(cluster, name) for name in ("kept", "changed", "gone")]
    await write(tmp_path, [a_delta(n, each) for n, each in enumerate(first, 1)])

    right = await command("verify", "copy", "-c", config)
    assert (right.code, right.err) == (Exit.OK, "")
    assert "copy: 0 missing, 0 stale, 0 extra; 3 objects live, 3 stored" in right.out

    changed = cluster.patch("configmaps", "changed", {"data": {"a": "b"}}, namespace="shop")
    cluster.delete("configmaps", "gone", namespace="shop")
    new = config_map(cluster, "new")

    wrong = await command("verify", "copy", "-c", config, *AT_ONCE)
    assert (wrong.code, wrong.err) == (Exit.NO, "")
    stale, extra, missing, summary = wrong.out.splitlines()
    assert stale.startswith("stale    configmaps shop/changed: the destination has version ")
    assert stale.endswith(f"live is {changed['metadata']['resourceVersion']}")
    assert extra.startswith("extra    configmaps shop/gone: ")
    assert missing.startswith("missing  configmaps shop/new: ")
    assert missing.endswith(f"version {new['metadata']['resourceVersion']} of {new['metadata']['uid']} is not stored")
    assert summary.startswith("copy: 1 missing, 1 stale, 1 extra; 3 objects live, 3 stored")

    await write(tmp_path, [a_delta(4, changed, Op.UPDATED), a_delta(5, first[2], Op.DELETED), a_delta(6, new)])
    assert (await command("verify", "copy", "-c", config)).code == Exit.OK


async def test_what_is_printed_is_bounded_and_gaps_are_reported(
    command: Command, cluster: Playground, tmp_path: Path
) -> None:
    config = str(a_config(tmp_path, cluster.url))
    for number in range(5):
        config_map(cluster, f"c{number}")
    await write(tmp_path, [records.a_gap(3, 9)])

    done = await command("verify", "copy", "-c", config, *AT_ONCE, "--limit", "2")

    assert done.code == Exit.NO
    lines = done.out.splitlines()
    assert [line.split(":")[0] for line in lines[:2]] == ["missing  configmaps shop/c0", "missing  configmaps shop/c1"]
    assert lines[2] == "and 3 more"
    assert lines[3].startswith("note: 1 gap in the stream")
    assert lines[4].startswith("copy: 5 missing, 0 stale, 0 extra")


async def test_a_verification_has_one_json_document(command: Command, cluster: Playground, tmp_path: Path) -> None:
    config = str(a_config(tmp_path, cluster.url))
    stored = config_map(cluster, "replaced")
    await write(tmp_path, [a_delta(1, stored)])
    cluster.delete("configmaps", "replaced", namespace="shop")
    live = config_map(cluster, "replaced")
    config_map(cluster, "second")

    done = await command("verify", "copy", "-c", config, *AT_ONCE, "--json", "--limit", "1")

    assert done.code == Exit.NO
    found = json.loads(done.out)
    assert {name: found[name] for name in ("sink", "missing", "stale", "extra", "live", "stored", "gaps", "more")} == {
        "sink": "copy", "missing": 1, "stale": 1, "extra": 0, "live": 2, "stored": 1, "gaps": 0, "more": 1
    }  # fmt: skip
    versions = [
        {"uid": each["metadata"]["uid"], "resourceVersion": each["metadata"]["resourceVersion"]}
        for each in (live, stored)
    ]
    named = {"resource": "configmaps", "namespace": "shop", "name": "replaced"}
    assert found["differences"] == [{"kind": "stale", **named, "live": versions[0], "stored": versions[1]}]


async def test_a_sink_that_cannot_be_read_back_is_refused(command: Command, tmp_path: Path) -> None:
    config = str(a_config(tmp_path, sinks={"hook": {"type": "webhook", "url": "http://127.0.0.1:1/"}}))
    for sink, said in {
        "hook": "sinks.hook: a sink of type webhook cannot be read back; these types can: kafka, nats, file\n",
        "copi": "sinks.copi: there is no such sink; the sinks are hook\n",
    }.items():
        assert await command("verify", sink, "-c", config) == (Exit.CONFIG, "", said)


async def test_a_missing_file_or_an_absent_cluster_is_unavailable(command: Command, tmp_path: Path) -> None:
    port = reserve_port()
    config = str(a_config(tmp_path, f"http://127.0.0.1:{port}"))

    no_file = await command("verify", "copy", "-c", config)
    assert no_file.code == Exit.UNAVAILABLE
    assert no_file.err.startswith(f"sinks.copy: there is no file {tmp_path / 'deltas.ndjson'}")

    await write(tmp_path, [records.a_gap(3, 9)])
    no_cluster = await command("verify", "copy", "-c", config)
    assert no_cluster.code == Exit.UNAVAILABLE
    assert no_cluster.err.startswith("cluster: ")
    assert f"127.0.0.1:{port}" in no_cluster.err


async def test_a_missing_permission_exits_78(command: Command, cluster: Playground, tmp_path: Path) -> None:
    cluster.misbehave.forbid("configmaps")
    config = str(a_config(tmp_path, cluster.url))
    await write(tmp_path, [records.a_gap(3, 9)])

    done = await command("verify", "copy", "-c", config)

    assert done.code == Exit.CONFIG
    assert "cluster: cannot list configmaps" in done.err
