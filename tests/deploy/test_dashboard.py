"""The dashboard has every metric of kubedelta's own, and none that does not exist."""

from __future__ import annotations

import json
import subprocess
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.helm import CHART, Helm
from tests.deploy.queries import EXPOSED, metrics_of, unknown_names
from tests.kit.deadlines import BUSY

DASHBOARD = json.loads((CHART / "files/dashboard.json").read_text())
PANELS: list[dict[str, Any]] = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
TARGETS: list[dict[str, Any]] = [target for panel in PANELS for target in panel["targets"]]
VARIABLES: list[dict[str, Any]] = DASHBOARD["templating"]["list"]


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: str(target["expr"]))
def test_a_query_names_only_metrics_and_labels_that_exist(target: dict[str, Any]) -> None:
    assert metrics_of(target["expr"])
    assert unknown_names(target["expr"], target["legendFormat"]) == set()


def test_names_that_do_not_exist_are_found() -> None:
    assert unknown_names("rate(kubedelta_sink_lag_records[5m])") == {"kubedelta_sink_lag_records"}
    assert unknown_names('kubedelta_ready{sink="a"}') == {"sink"}
    assert unknown_names("sum by (resource) (kubedelta_sink_backlog_records)") == {"resource"}
    assert unknown_names("kubedelta_ready", "{{sink}}") == {"sink"}


def test_every_metric_of_the_bridge_is_on_the_dashboard() -> None:
    shown = set().union(*(metrics_of(target["expr"]) for target in TARGETS))
    assert {name for name in EXPOSED if name.startswith("kubedelta_")} - shown == set()


def test_prometheus_can_parse_every_query(promtool_build: Path, tmp_path: Path) -> None:
    queries = [target["expr"].replace("$__rate_interval", "5m") for target in TARGETS]
    rules = [{"record": f"panel:{number}", "expr": query} for number, query in enumerate(queries)]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    checked = subprocess.run(
        [promtool_build / "promtool", "check", "rules", file],
        capture_output=True,
        text=True,
        timeout=60 * BUSY,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(queries)} rules found" in checked.stdout


def test_variables_of_queries_exist_and_come_from_labels() -> None:
    names = {each["name"] for each in VARIABLES}
    assert names == {"datasource", "instance", "resource", "sink"}
    for each in VARIABLES:
        if each["type"] == "query":
            assert unknown_names(each["definition"].removeprefix("label_values"), f"{{{{{each['name']}}}}}") == set()
    for name in names - {"datasource"}:
        assert any(f'{name}=~"${name}"' in target["expr"] for target in TARGETS)


def test_panels_have_places_of_their_own_and_a_unit() -> None:
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    for one, other in combinations(places, 2):
        apart = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        assert apart or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(places)
    assert all(panel["fieldConfig"]["defaults"]["unit"] for panel in PANELS)


def test_the_chart_hands_the_dashboard_to_grafana(helm: Helm) -> None:
    manifests = helm.rendered({"dashboard": {"enabled": True, "annotations": {"folder": "Bridges"}}})
    [found] = [each for each in manifests if each["metadata"]["name"] == "kubedelta-dashboard"]
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert found["metadata"]["annotations"] == {"folder": "Bridges"}
    assert json.loads(found["data"]["kubedelta.json"]) == DASHBOARD
    assert not [each for each in helm.rendered() if each["metadata"]["name"] == "kubedelta-dashboard"]
