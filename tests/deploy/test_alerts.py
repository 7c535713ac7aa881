"""Alerts fire when they should, stay quiet when they should, and say what to do. Judged by promtool."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.helm import CHART, ROOT
from tests.deploy.queries import metrics_of, unknown_names
from tests.kit.deadlines import BUSY

FILE = CHART / "files/alerts.yaml"
RULES: dict[str, dict[str, Any]] = {
    rule["alert"]: rule for group in yaml.safe_load(FILE.read_text())["groups"] for rule in group["rules"]
}

Series = dict[str, str]
"""A series without its label ``instance`` → its values, one a minute, in promtool's notation."""


@dataclass(frozen=True, slots=True)
class Case:
    fires: Series
    quiet: Series
    minute: int
    description: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    """Beside ``instance`` and ``severity``."""
    instance: str = "bridge"


def _sink(**others: str) -> tuple[tuple[str, str], ...]:
    return (("sink", "audit"), *others.items())


RESOURCE = (("resource", "pods"),)
AUDIT = 'sink="audit"'
PODS = 'resource="pods"'

CASES: dict[str, Case] = {
    "KubedeltaAbsent": Case(
        fires={"kubedelta_ready": "1x5 stale _x20"},
        quiet={"kubedelta_ready": "0x30"},
        minute=20,
        description="Prometheus has no metrics of a bridge. If none runs, no change of the cluster is delivered.",
        instance="",
    ),
    "KubedeltaNotReady": Case(
        fires={"kubedelta_ready": "1x5 0x20"},
        quiet={"kubedelta_ready": "1x5 0x7 1x20"},
        minute=17,
        description="bridge: a resource has no open watch, or the intake is blocked.",
    ),
    "KubedeltaIntakeBlocked": Case(
        fires={"kubedelta_intake_blocked": "0x2 1x20"},
        quiet={"kubedelta_intake_blocked": "0x2 1x3 0x20"},
        minute=10,
        description="bridge: the disk is full, or a sink with when_full block is.",
    ),
    "KubedeltaNoLeader": Case(
        fires={"kubedelta_leader": "1x5 0x20"},
        quiet={"kubedelta_leader": "1x5 0x1 1x20"},
        minute=10,
        description="Nobody holds the Lease, or none of the replicas can take over. Nobody watches meanwhile.",
        instance="",
    ),
    "KubedeltaNoFollowerInSync": Case(
        fires={"kubedelta_replica_in_sync": "1x5 0x20", "kubedelta_leader": "1x25"},
        quiet={"kubedelta_replica_in_sync": "1x5 0x20", "kubedelta_leader": "0x25"},
        minute=13,
        description="bridge leads, and no follower is in sync with it.",
    ),
    "KubedeltaLeaderChanges": Case(
        fires={'kubedelta_leader_transitions_total{to="leading"}': "0+1x60"},
        quiet={'kubedelta_leader_transitions_total{to="leading"}': "0x10 1x50"},
        minute=30,
        description="Deliveries pause with each takeover; the API server may be slow to renew the Lease.",
        instance="",
    ),
    "KubedeltaWatchSilent": Case(
        fires={f"kubedelta_resource_last_contact_seconds{{{PODS}}}": "0+60x20"},
        quiet={f"kubedelta_resource_last_contact_seconds{{{PODS}}}": "300x20"},
        minute=12,
        description="bridge: pods: no byte for 12m 0s.",
        labels=RESOURCE,
    ),
    "KubedeltaWatchRefused": Case(
        fires={f'kubedelta_reflector_refusals_total{{{PODS}, status="403"}}': "0+1x60"},
        quiet={f'kubedelta_reflector_refusals_total{{{PODS}, status="403"}}': "0x5 1x60"},
        minute=30,
        description="bridge: pods: status 403.",
        labels=(*RESOURCE, ("status", "403")),
    ),
    "KubedeltaRelists": Case(
        fires={f"kubedelta_reflector_relists_total{{{PODS}}}": "0+1x60"},
        quiet={f"kubedelta_reflector_relists_total{{{PODS}}}": "0x20 1x20 2x20"},
        minute=60,
        description="bridge: pods: intermediate states may be missing.",
        labels=RESOURCE,
    ),
    "KubedeltaHistoryChanged": Case(
        fires={'kubedelta_history_proofs_total{outcome="other"}': "0x5 1x30"},
        quiet={'kubedelta_history_proofs_total{outcome="same"}': "0+1x30"},
        minute=10,
        description="bridge: all informers compared their states and began a new epoch.",
        labels=(("outcome", "other"),),
    ),
    "KubedeltaDiskFills": Case(
        fires={"kubedelta_disk_free_bytes": "8000000000-40000000x90"},
        quiet={"kubedelta_disk_free_bytes": "80000000000-40000000x90"},
        minute=90,
        description="bridge: the intake stops at state.min_free_bytes.",
    ),
    "KubedeltaStateRebuilt": Case(
        fires={"kubedelta_outbox_rebuilds_total": "1x5"},
        quiet={"kubedelta_outbox_rebuilds_total": "0x5"},
        minute=0,
        description="bridge: the damaged files were moved aside, and every sink gets a gap.",
    ),
    "KubedeltaSinkBehind": Case(
        fires={f"kubedelta_sink_backlog_seconds{{{AUDIT}}}": "0+60x40"},
        quiet={f"kubedelta_sink_backlog_seconds{{{AUDIT}}}": "0+60x15 0x40"},
        minute=30,
        description="bridge: audit: the oldest record has waited 30m 0s.",
        labels=_sink(),
    ),
    "KubedeltaSinkFails": Case(
        fires={f'kubedelta_sink_circuit{{{AUDIT}, state="closed"}}': "1x5 0x15"},
        quiet={f'kubedelta_sink_circuit{{{AUDIT}, state="closed"}}': "1x5 0x3 1x1 0x10"},
        minute=15,
        description="bridge: audit: the circuit has not been closed for a while.",
        labels=_sink(state="closed"),
    ),
    "KubedeltaSinkPaused": Case(
        fires={f'kubedelta_sink_state{{{AUDIT}, state="paused"}}': "1x300"},
        quiet={f'kubedelta_sink_state{{{AUDIT}, state="paused"}}': "1x200 0x100"},
        minute=250,
        description="bridge: audit: its backlog grows until an operator resumes it.",
        labels=_sink(state="paused"),
    ),
    "KubedeltaSinkGone": Case(
        fires={f'kubedelta_sink_state{{{AUDIT}, state="gone"}}': "0x5 1x20"},
        quiet={f'kubedelta_sink_state{{{AUDIT}, state="gone"}}': "1x3 0x20"},
        minute=15,
        description="bridge: audit: it answered 410; its backlog grows until an operator resumes it.",
        labels=_sink(state="gone"),
    ),
    "KubedeltaSinkFenced": Case(
        fires={f'kubedelta_sink_state{{{AUDIT}, state="fenced"}}': "0x5 1x20"},
        quiet={f'kubedelta_sink_state{{{AUDIT}, state="fenced"}}': "0x20"},
        minute=15,
        description="bridge: audit: its backlog grows until an operator resumes it.",
        labels=_sink(state="fenced"),
    ),
    "KubedeltaDeadLetters": Case(
        fires={f"kubedelta_sink_dead_letters{{{AUDIT}}}": "3x20"},
        quiet={f"kubedelta_sink_dead_letters{{{AUDIT}}}": "0x20"},
        minute=10,
        description="bridge: audit: 3 dead letters wait for a decision.",
        labels=_sink(),
    ),
    "KubedeltaDeadLettersNearlyFull": Case(
        fires={f"kubedelta_sink_dead_letters{{{AUDIT}}}": "80001x20"},
        quiet={f"kubedelta_sink_dead_letters{{{AUDIT}}}": "80000x20"},
        minute=10,
        description="bridge: audit: 80001 dead letters.",
        labels=_sink(),
    ),
    "KubedeltaGap": Case(
        fires={f"kubedelta_gap_records_total{{{AUDIT}}}": "0x20 7x20"},
        quiet={f"kubedelta_gap_records_total{{{AUDIT}}}": "7x40"},
        minute=25,
        description="bridge: audit: consumers must treat their state as incomplete.",
        labels=_sink(),
    ),
    "KubedeltaGap before the first scrape": Case(
        fires={f"kubedelta_gap_records_total{{{AUDIT}}}": "_x20 1x20"},
        quiet={f"kubedelta_gap_records_total{{{AUDIT}}}": "_x20 0x20"},
        minute=25,
        description="bridge: audit: consumers must treat their state as incomplete.",
        labels=_sink(),
    ),
    "KubedeltaBacklogCompacted": Case(
        fires={f"kubedelta_sink_compactions_total{{{AUDIT}}}": "0x5 1x20"},
        quiet={f"kubedelta_sink_compactions_total{{{AUDIT}}}": "1x30"},
        minute=10,
        description="bridge: audit: its backlog was reduced to the newest states.",
        labels=_sink(),
    ),
    "KubedeltaDestinationCreated": Case(
        fires={f"kubedelta_sink_destinations_created_total{{{AUDIT}}}": "0x5 1x20"},
        quiet={f"kubedelta_sink_destinations_created_total{{{AUDIT}}}": "1x30"},
        minute=10,
        description="bridge: audit: find out who deleted it.",
        labels=_sink(),
    ),
    "KubedeltaReloadRefused": Case(
        fires={"kubedelta_config_last_reload_successful": "1x5 0x20"},
        quiet={"kubedelta_config_last_reload_successful": "1x5 0x3 1x20"},
        minute=15,
        description="bridge: the log and /readyz?verbose have the reason; the former configuration stays.",
    ),
    "KubedeltaDestinationChanged": Case(
        fires={f"kubedelta_sink_destination_changes_total{{{AUDIT}}}": "0x5 1x20"},
        quiet={f"kubedelta_sink_destination_changes_total{{{AUDIT}}}": "1x30"},
        minute=10,
        description="bridge: audit: the log says what it means for order.",
        labels=_sink(),
    ),
    "KubedeltaTelemetryFails": Case(
        fires={'kubedelta_telemetry_failures_total{observer="Logs"}': "0x2 1x5"},
        quiet={'kubedelta_telemetry_failures_total{observer="Logs"}': "0x5"},
        minute=5,
        description="bridge: Logs could not process a fact, which is a bug.",
        labels=(("observer", "Logs"),),
    ),
}
"""The name of the alert, and what else is tried → the case."""


def _series(written: Series) -> list[dict[str, str]]:
    return [{"series": _of_bridge(name), "values": values} for name, values in written.items()]


def _of_bridge(name: str) -> str:
    metric, _, labels = name.partition("{")
    return f'{metric}{{instance="bridge"{", " if labels else ""}{labels or "}"}'


def _test(name: str, case: Case, *, firing: bool) -> dict[str, Any]:
    alert = name.split()[0]
    rule = RULES[alert]
    labels = {**rule["labels"], **({"instance": case.instance} if case.instance else {}), **dict(case.labels)}
    expected = {
        "exp_labels": labels,
        "exp_annotations": {"summary": rule["annotations"]["summary"], "description": case.description},
    }
    return {
        "name": f"{name} {'fires' if firing else 'is quiet'}",
        "interval": "1m",
        "input_series": _series(case.fires if firing else case.quiet),
        "alert_rule_test": [
            {"eval_time": f"{case.minute}m", "alertname": alert, "exp_alerts": [expected] if firing else []}
        ],
    }


def test_every_alert_is_tried() -> None:
    assert {name.split()[0] for name in CASES} == set(RULES)


def test_alerts_fire_and_stay_quiet_as_they_should(promtool_build: Path, tmp_path: Path) -> None:
    tests = [_test(name, case, firing=firing) for name, case in CASES.items() for firing in (True, False)]
    file = tmp_path / "tests.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(FILE)], "evaluation_interval": "1m", "tests": tests}))
    command = [str(promtool_build / "promtool"), "test", "rules", str(file)]
    environ = {**os.environ, "GOGC": "off"}  # Collecting garbage would be a third of what it costs.
    ran = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120 * BUSY, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("name", RULES)
def test_an_alert_uses_metrics_and_labels_that_exist(name: str) -> None:
    rule = RULES[name]
    assert metrics_of(rule["expr"])
    assert unknown_names(rule["expr"], rule["annotations"]["description"]) == set()
    assert rule["labels"]["severity"] in ("critical", "warning")


def test_every_alert_has_its_section_in_the_runbook() -> None:
    page = (ROOT / "docs/alerts.md").read_text()
    sections = dict(re.findall(r"^## (\w+)\n\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    assert list(sections) == list(RULES)
    for name, text in sections.items():
        for metric in metrics_of(RULES[name]["expr"]):
            assert f"`{metric}`" in text, f"{name} does not name {metric}"
