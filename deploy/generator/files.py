"""The generated files of the chart, by their paths in it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from deploy.generator import CHART
from deploy.generator.dashboard import dashboard
from deploy.generator.names import resource_names
from deploy.generator.schema import values_schema


def generated() -> dict[str, str]:
    """Path in the chart → contents."""
    names = asyncio.run(resource_names())
    return {
        "files/dashboard.json": _json(dashboard()),
        "files/kubedelta.yaml": (CHART.parent / "kubedelta.yaml").read_text(encoding="utf-8"),
        "files/resources.json": _lines(names),
        "values.schema.json": _json(values_schema()),
    }


def _json(content: Any) -> str:
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _lines(content: dict[str, Any]) -> str:
    """JSON with a line for each member."""
    members = ",\n".join(f" {json.dumps(name)}: {json.dumps(value)}" for name, value in content.items())
    return f"{{\n{members}\n}}\n"
