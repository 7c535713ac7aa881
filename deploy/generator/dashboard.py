"""files/dashboard.json: a dashboard for Grafana 10 and later. Tests compare it with the metrics of a bridge."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from deploy.generator.panels import ROWS, Panel, Query

_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_COLUMNS = 24
_HEIGHT = 8


def dashboard() -> dict[str, Any]:
    """Rows of panels, with variables for the data source, the bridge, the resource and the sink."""
    return {
        "uid": "kubedelta",
        "title": "kubedelta",
        "description": "What each metric means, and what to do: docs/metrics.md.",
        "tags": ["kubedelta"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": list(_variables())},
        "panels": list(_panels()),
    }


def _variables() -> Iterator[dict[str, Any]]:
    yield {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}
    for name, metric in (
        ("instance", "kubedelta_build_info"),
        ("resource", 'kubedelta_resource_live{instance=~"$instance"}'),
        ("sink", 'kubedelta_sink_backlog_records{instance=~"$instance"}'),
    ):
        query = f"label_values({metric}, {name})"
        yield {
            "name": name,
            "label": "Bridge" if name == "instance" else name.capitalize(),
            "type": "query",
            "datasource": _SOURCE,
            "query": {"query": query, "refId": name},
            "definition": query,
            "refresh": 2,
            "includeAll": True,
            "multi": True,
            "allValue": ".*",
            "current": {"text": ["All"], "value": ["$__all"]},
        }


@dataclass(slots=True)
class _Place:
    """The next free place."""

    x: int = 0
    y: int = 0

    def take(self, width: int, height: int) -> dict[str, int]:
        if self.x + width > _COLUMNS:
            self.line(_HEIGHT)
        taken = {"x": self.x, "y": self.y, "w": width, "h": height}
        self.x += width
        return taken

    def line(self, height: int) -> None:
        self.x, self.y = 0, self.y + height


def _panels() -> Iterator[dict[str, Any]]:
    place = _Place()
    number = 0
    for title, panels in ROWS.items():
        number += 1
        yield {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": place.take(_COLUMNS, 1)}
        place.line(1)
        for panel in panels:
            number += 1
            yield _panel(number, panel, place.take(panel.width, _HEIGHT))
        place.line(_HEIGHT)


def _panel(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "gridPos": place,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": _options(panel),
        "targets": [_target(query, chr(ord("A") + index)) for index, query in enumerate(panel.queries)],
    }


def _options(panel: Panel) -> dict[str, Any]:
    if panel.kind == "stat":
        return {"reduceOptions": {"calcs": ["lastNotNull"]}, "textMode": panel.text, "colorMode": "none"}
    legend = {"displayMode": "list", "placement": "bottom"}
    return {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}


def _target(query: Query, name: str) -> dict[str, Any]:
    return {"refId": name, "datasource": _SOURCE, "expr": query.expression, "legendFormat": query.legend}
