"""Every vector in Python and in Go: records, the steps that each of them is, and what is known behind the last one."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from kubedelta_reader import (
    Deleted,
    Event,
    MemoryStore,
    NotAnEvent,
    Reader,
    SnapshotEnded,
    Step,
    binary,
    envelope,
    row,
    structured,
)

READER = Path(__file__).parents[2] / "reader"
VECTORS = sorted((READER / "vectors").glob("*.json"))
FORMS = {"structured": structured, "row": row, "envelope": envelope}


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def event_of(encoding: str, record: dict[str, Any]) -> Event:
    if encoding in FORMS:
        return FORMS[encoding](json.dumps(record).encode())
    payload = record["value"] if encoding == "kafka" else record["payload"]
    return binary(record["headers"], None if payload is None else payload.encode())


def name_of(step: Step) -> str:
    name = type(step).__name__
    match step:
        case Deleted(evidence=evidence):
            return f"{name} {evidence}"
        case SnapshotEnded(swept=swept, incomplete=incomplete):
            return (
                f"{name} incomplete"
                if incomplete
                else f"{name} swept {','.join(sorted(key for key, _ in swept))}".strip()
            )
    return name


def outcome(vector: dict[str, Any]) -> dict[str, Any]:
    reader = Reader(MemoryStore(), partitioned=vector["partitioned"])
    steps = []
    for each in vector["given"]:
        try:
            event = event_of(vector["encoding"], each["record"])
        except NotAnEvent:
            steps.append(["NotAnEvent"])
        else:
            steps.append([name_of(step) for step in reader.apply(event, each["record"].get("partition", ""))])
    objects = {
        key: {"uid": known.uid, "sequence": known.sequence, "state": json.loads(known.state)}
        for key, known in reader.objects()
    }
    gaps = [
        {"sequence": gap.sequence, "resources": None if gap.resources is None else list(gap.resources)}
        for gap in reader.gaps
    ]
    return {"steps": steps, "then": {"objects": objects, "uncertain": sorted(reader.uncertain()), "gaps": gaps}}


def expected(vector: dict[str, Any]) -> dict[str, Any]:
    return {"steps": [each["steps"] for each in vector["given"]], "then": vector["then"]}


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_a_vector_comes_out_as_it_says(path: Path) -> None:
    vector = read(path)

    assert vector["version"] == 1
    assert outcome(vector) == expected(vector)


@pytest.mark.go
def test_the_reader_in_go_agrees_on_every_vector(tmp_path: Path) -> None:
    subprocess.run(["go", "build", "-o", tmp_path / "reader", "."], cwd=READER / "go", check=True)
    vectors = VECTORS * 20  # Maps of Go have another order each time.
    found = subprocess.run([tmp_path / "reader", *vectors], capture_output=True, text=True, check=True)

    for path, result in zip(vectors, json.loads(found.stdout), strict=True):
        assert result == expected(read(path)), path.name
