"""The commands of docs/history.md, run as they stand there."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from bridge.cli import main
from bridge.model.change import Op
from bridge.model.record import Delta
from tests.documents.pages import read
from tests.kit.records import DEPLOYMENTS, a_delta
from tests.sinks.file.test_reading_for_verify import write

PAGE = read("docs/history.md")
FIRST = re.findall(r"^    (kubedelta .+)$", PAGE.partition("`--from` is")[0], re.MULTILINE)


def a_step(sequence: int, ago: timedelta, replicas: int) -> Delta:
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": replicas}}
    made = a_delta(
        sequence,
        resource=DEPLOYMENTS,
        key="shop/web",
        op=Op.ADDED if sequence == 1 else Op.UPDATED,
        body=json.dumps(body).encode(),
    )
    return replace(made, time=(datetime.now(UTC) - ago).isoformat().replace("+00:00", "Z"))


async def test_what_to_do_first_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    await write(tmp_path / "audit.ndjson", [a_step(1, timedelta(hours=3), 1), a_step(2, timedelta(hours=1), 5)])
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KUBEDELTA_HISTORY", raising=False)

    build, history, diff = (words.split()[1:] for words in FIRST)
    assert await asyncio.to_thread(main, build) == 0
    assert capsys.readouterr().out.startswith("k8s.db: 2 steps of 1 object in ")
    assert main(history) == 0
    assert "~ updated @1002 spec.replicas" in capsys.readouterr().out
    assert main(diff) == 1
    assert capsys.readouterr().out == "~ deployments.apps shop/web @1001 → @1002 spec.replicas\n"
