"""The consumer of docs/reader.md, run as it stands there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from kubedelta_reader import Step

from tests.reader.test_stores import LINES
from tests.reader.test_vectors import READER

PAGE = (READER.parent / "docs/reader.md").read_text(encoding="utf-8")


def consumed(folder: Path) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": str(READER)}
    command = [sys.executable, "consumer.py", "audit.jsonl"]
    run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return run.stdout.splitlines()


def test_the_consumer_goes_on_behind_a_torn_line(tmp_path: Path) -> None:
    (found,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    (tmp_path / "consumer.py").write_text(found, encoding="utf-8")
    file = tmp_path / "audit.jsonl"
    file.write_bytes(b"\n".join(LINES[:3]) + b"\n" + LINES[3][:40])

    assert consumed(tmp_path) == [
        "new prod/core/pods/shop/a 1",
        "new prod/core/pods/shop/b 2",
        "records are missing: of any resource",
        "prod/core/pods/shop/a u1 uncertain",
        "prod/core/pods/shop/b u2 uncertain",
    ]
    file.write_bytes(b"\n".join(LINES) + b"\n")
    assert consumed(tmp_path) == [
        "changed prod/core/pods/shop/a 1",
        "exists no more prod/core/pods/shop/b",
        "records are missing: of any resource",
        "prod/core/pods/shop/a u1 ",
    ]
    assert consumed(tmp_path) == ["prod/core/pods/shop/a u1 "]


@pytest.mark.go
def test_the_consumer_in_go_comes_to_the_same(tmp_path: Path) -> None:
    (found,) = re.findall(r"```go\n(.*?)```", PAGE, flags=re.DOTALL)
    (tmp_path / "main.go").write_text(found, encoding="utf-8")
    for name in ("reader.go", "forms.go", "go.mod"):
        shutil.copy(READER / "go" / name, tmp_path)
    (tmp_path / "audit.jsonl").write_bytes(b"\n".join(LINES[:3]) + b"\n" + LINES[3][:40])
    subprocess.run(["go", "build", "-o", "consumer", "."], cwd=tmp_path, check=True)
    run = subprocess.run(["./consumer", "audit.jsonl"], cwd=tmp_path, capture_output=True, text=True, check=True)

    *steps, one, another = run.stdout.splitlines()
    assert steps == ["[Changed] prod/core/pods/shop/a", "[Changed] prod/core/pods/shop/b", "[GapFound] prod"]
    assert sorted([one, another]) == ["prod/core/pods/shop/a u1 true", "prod/core/pods/shop/b u2 true"]


@pytest.mark.parametrize(
    ("module", "client"),
    [
        ("kubedelta_reader", "msgspec"),
        ("kubedelta_reader.sources.files", "zstandard"),
        ("kubedelta_reader.sources.kafka", "confluent_kafka"),
        ("kubedelta_reader.sources.nats", "nats"),
    ],
)
def test_the_rules_need_msgspec_alone_and_each_source_its_own_client(module: str, client: str) -> None:
    """What else is loaded is of the client, or of Python."""
    code = (
        f"import sys, msgspec, {client}; known = set(sys.modules); import {module}; print(*(set(sys.modules) - known))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in run.stdout.split()} - sys.stdlib_module_names

    assert loaded - {"msgspec", client} == {"kubedelta_reader"}


def test_the_page_names_each_step() -> None:
    steps = get_args(Step)

    assert len(steps) == 12
    assert [each.__name__ for each in steps if f"`{each.__name__}`" not in PAGE] == []
