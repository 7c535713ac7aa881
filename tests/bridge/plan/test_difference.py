"""What differs between two configurations, in words and for the rooms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from bridge.cli.settings import load_settings
from bridge.plan.difference import SettingsDifference, difference
from config.schema import Settings

SECTIONS: dict[str, Any] = {
    "cluster": {"name": "test", "server": "http://127.0.0.1:1"},
    "resources": ["pods", {"resource": "secrets", "namespaces": ["shop"]}],
    "sinks": {
        "hook": {"type": "webhook", "url": "https://hooks.example/secret-path"},
        "copy": {"type": "file", "path": "copy.ndjson"},
    },
    "state": {"directory": "state"},
}


def settings(folder: Path, **sections: Any) -> Settings:
    file = folder / "kubedelta.yaml"
    file.write_text(yaml.safe_dump(SECTIONS | sections))
    return load_settings(file)


def test_values_are_compared_and_not_texts(tmp_path: Path) -> None:
    written = settings(
        tmp_path,
        latency="10ms",
        resources=[{"resource": "secrets", "namespaces": ["shop"]}, {"resource": "Pods"}],
        sinks={"copy": {"type": "file", "path": str(tmp_path / "copy.ndjson")}, "hook": SECTIONS["sinks"]["hook"]},
    )
    assert difference(settings(tmp_path), written) == SettingsDifference()


def test_sinks_come_change_and_go(tmp_path: Path) -> None:
    sinks = {
        "hook": {"type": "webhook", "url": "https://hooks.example/other", "window": 9},
        "late": {"type": "file", "path": "late.ndjson", "select": [{"resource": "pods"}]},
    }
    found = difference(settings(tmp_path), settings(tmp_path, sinks=sinks))
    assert (found.added, found.removed, found.changed) == (("late",), ("copy",), ("hook",))
    assert found.selecting == ("late",)
    assert found.lines == ("sinks.late: added", "sinks.copy: removed", "sinks.hook: changed: window, url")
    assert not found.resources
    assert found.fixed == ()


def test_a_type_that_changed_stands_for_all_its_options(tmp_path: Path) -> None:
    sinks = {**SECTIONS["sinks"], "copy": {"type": "webhook", "url": "https://hooks.example/copy"}}
    assert difference(settings(tmp_path), settings(tmp_path, sinks=sinks)).lines == ("sinks.copy: changed: type",)


def test_a_selection_that_comes_or_goes_is_another(tmp_path: Path) -> None:
    selecting = {**SECTIONS["sinks"]["copy"], "select": [{"resource": "pods"}]}
    one, other = settings(tmp_path), settings(tmp_path, sinks={**SECTIONS["sinks"], "copy": selecting})
    assert difference(one, other).selecting == difference(other, one).selecting == ("copy",)


def test_entries_of_resources_are_named(tmp_path: Path) -> None:
    resources = [{"resource": "secrets", "namespaces": ["shop", "billing"]}, "jobs.batch"]
    found = difference(settings(tmp_path), settings(tmp_path, resources=resources))
    assert found.resources
    assert found.lines == (
        "resources: added: jobs.batch",
        "resources: removed: pods",
        "resources: changed: secrets",
    )


def test_options_that_need_a_restart_have_their_paths(tmp_path: Path) -> None:
    other = settings(
        tmp_path,
        cluster={"name": "other", "server": "http://127.0.0.1:1"},
        state={"directory": "state", "retain": {"age": "7d"}},
        telemetry={"log_level": "debug", "log_format": "json"},
    )
    found = difference(settings(tmp_path), other)
    assert found.fixed == ("cluster.name", "state.retain.age", "telemetry.log_format")
    assert found.lines == ("telemetry.log_level: debug",)
