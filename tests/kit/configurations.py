"""Configuration files, and the plans that are made from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from bridge.cli.settings import load_settings
from bridge.plan.plan import Plan
from bridge.plan.plan_from_settings import plan_of


def a_config(folder: Path, server: str = "http://127.0.0.1:1", *, sink: str = "copy", **sections: Any) -> Path:
    """A configuration in the folder, with a file sink of this name and a state directory. ``sections`` replace what is
    there."""
    (folder / "state").mkdir(exist_ok=True)
    content: dict[str, Any] = {
        "cluster": {"name": "test", "server": server},
        "resources": ["configmaps"],
        "sinks": {sink: {"type": "file", "path": str(folder / "deltas.ndjson")}},
        "telemetry": {"listen": "127.0.0.1:0"},
        "state": {"directory": str(folder / "state")},
    }
    path = folder / "kubedelta.yaml"
    path.write_text(yaml.safe_dump(content | sections), encoding="utf-8")
    return path


def a_plan(folder: Path, **sections: Any) -> Plan:
    """The plan of ``a_config``."""
    path = a_config(folder, **sections)
    return plan_of(load_settings(path), path)
