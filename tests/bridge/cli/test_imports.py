"""Libraries that a run does not import, since an import is most of a start."""

import json
import subprocess
import sys
from functools import cache

import pytest

IMPORTED = (
    "from bridge.cli.command_line import parse; parse({}); import json, sys; print(json.dumps(sorted(sys.modules)))"
)


@cache
def imported(*arguments: str) -> set[str]:
    """The modules of a process that has parsed this command line."""
    code = IMPORTED.format(list(arguments))
    return set(json.loads(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout))


@pytest.mark.parametrize(
    "module",
    [
        "rich",
        "click",
        "bridge.checks",
        "bridge.playground",
        "bridge.app.page",
        "nats",
        "opentelemetry",
    ],
)
def test_a_run_does_not_import(module: str) -> None:
    modules = imported("run", "-c", "kubedelta.yaml")
    assert {"bridge.cli.run", "bridge.app.bridge"} <= modules
    assert module not in modules


def test_the_demo_has_its_renderer() -> None:
    assert "rich.live" in imported("demo")


@pytest.mark.parametrize("module", ["bridge.app.bridge", "bridge.kube", "bridge.outbox", "httpx", "rich"])
def test_a_command_on_the_running_bridge_does_not_import(module: str) -> None:
    for command in ("status", "cursors"):
        assert module not in imported(command, "-c", "kubedelta.yaml")


def test_what_a_shell_asks_at_each_key_imports_no_client() -> None:
    assert not {"httpx", "aiohttp"} & imported("completion", "bash")


def test_a_history_is_read_without_a_client() -> None:
    for words in (("history", "deploy/web"), ("diff", "1h", "now")):
        assert not {"httpx", "aiohttp", "bridge.kube"} & imported(*words)
