from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from bridge.model.change import Op
from bridge.model.resource import Resource, Scope
from bridge.model.status import BridgeStatus, CircuitState, InformerState, InformerStatus, SinkState, SinkStatus
from bridge.telemetry.facts import Fact, ResourceFact
from bridge.telemetry.facts.delivery import BatchCommitted, RecordsLost
from bridge.telemetry.facts.informer import InformerStarted, InformerStopped, WatchOpened
from bridge.telemetry.facts.outbox import SinkForgotten
from bridge.telemetry.logs import Logs
from bridge.telemetry.metrics import METRICS, Metrics
from bridge.telemetry.observers import Telemetry
from tests.bridge.telemetry.every_fact import ALL, EVERYTHING
from tests.kit.deadlines import BUSY
from tests.kit.records import PODS

JOBS = Resource("batch", "v1", "jobs", "Job", True)
SHOP = Scope(namespace="shop")

LIVE = InformerStatus(
    resource="pods", scope="all", state=InformerState.LIVE, synced=True, live=True, objects=3, queued=1, last_contact=2
)
IDLE = SinkStatus(name="audit", type="kafka", state=SinkState.IDLE)
WELL = BridgeStatus(informers=(LIVE,), sinks=(IDLE,))
NOTHING = BridgeStatus(informers=(), sinks=())


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(version="1.2.3", failures={})


@pytest.fixture
def moved(metrics: Metrics) -> Metrics:
    """By every fact."""
    for fact in EVERYTHING:
        metrics.observe(fact)
    return metrics


def _samples(metrics: Metrics, snapshot: BridgeStatus = NOTHING) -> dict[str, float]:
    """``name{label=value,…}`` → value, without the process's own."""
    text = metrics.render(snapshot, "")[0].decode()
    found = {}
    for family in parse_text(text):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return {name: value for name, value in found.items() if name.startswith("kubedelta_")}


def test_every_fact_is_counted_under_its_resource_or_sink(moved: Metrics) -> None:
    samples = _samples(moved)
    expected = {
        "reflector_lists_total{resource=pods}": 2,
        "reflector_relists_total{resource=pods}": 1,
        "reflector_list_duration_seconds_sum{resource=pods}": 0.75,
        "reflector_watches_total{resource=pods}": 1,
        "reflector_short_watches_total{resource=pods}": 1,
        "reflector_watch_duration_seconds_count{resource=pods}": 2,
        "reflector_failures_total{resource=pods,verb=watch}": 1,
        "reflector_refusals_total{resource=pods,status=403}": 1,
        "reflector_unreadable_total{resource=pods}": 1,
        "reflector_version_resets_total{resource=pods}": 1,
        "records_committed_total{op=added,resource=pods}": 4,
        "records_committed_total{op=updated,resource=pods}": 3,
        "records_committed_total{op=deleted,resource=pods}": 2,
        "records_committed_total{op=sync,resource=pods}": 1,
        "records_committed_bytes_total{resource=pods}": 700,
        "sink_opens_total{sink=audit}": 1,
        "sink_delivered_records_total{sink=audit}": 10,
        "sink_delivered_bytes_total{sink=audit}": 700,
        "sink_delivery_seconds_count{sink=audit}": 1,
        "sink_retries_total{sink=audit}": 2,
        "sink_rejected_records_total{sink=audit}": 1,
        "gap_records_total{sink=audit}": 17,
        "sink_destination_losses_total{sink=audit}": 1,
        "sink_destination_changes_total{sink=audit}": 1,
        "sink_parked_records_total{sink=audit}": 6,
        "sink_circuit_opens_total{sink=audit}": 1,
        "sink_snapshots_total{sink=audit}": 1,
        "sink_intake_blocks_total{sink=audit}": 1,
        "sink_compactions_total{sink=audit}": 1,
        "sink_compacted_records_total{sink=audit}": 60,
        "sink_backlog_drops_total{sink=audit}": 1,
        "outbox_full_total": 1,
        "outbox_rebuilds_total": 1,
        "cluster_changes_total": 1,
        "scope_left_objects_total": 4,
        "forgotten_sinks_total": 1,
        "forgotten_records_total": 30,
        "failed_evaluations_total": 7,
        "discovery_failures_total": 1,
        "discovery_stale_groups_total": 1,
        "leader_transitions_total{to=leading}": 1,
        "leader_transitions_total{to=following}": 2,
        "lease_failures_total{verb=update}": 1,
        "lease_renew_seconds_count": 1,
    }
    assert {name: samples.get(f"kubedelta_{name}") for name in expected} == expected


def test_every_fact_there_is_is_tried_here() -> None:
    bases = (Fact, ResourceFact, RecordsLost)
    kinds = {kind for base in bases for kind in base.__subclasses__()} - set(bases)
    assert {type(fact) for fact in EVERYTHING} | {InformerStopped} == kinds


def test_every_metric_is_moved_by_a_fact() -> None:
    assert {series[0] for fact in EVERYTHING for series, _ in fact.counts()} == set(METRICS)


def test_a_sink_that_was_forgotten_leaves_no_label_behind(metrics: Metrics) -> None:
    metrics.observe(SinkForgotten("gone", records=30))
    assert not [name for name in _samples(metrics) if "gone" in name]


def test_labels_go_when_the_last_informer_of_a_resource_stops(moved: Metrics) -> None:
    moved.observe(WatchOpened(PODS, SHOP))
    moved.observe(WatchOpened(JOBS, ALL))
    moved.observe(InformerStopped(PODS, ALL))
    assert _samples(moved)["kubedelta_reflector_watches_total{resource=pods}"] == 2
    moved.observe(InformerStopped(PODS, SHOP))
    samples = _samples(moved)
    assert not [name for name in samples if "resource=pods" in name]
    assert samples["kubedelta_reflector_watches_total{resource=jobs.batch}"] == 1


def test_a_resource_that_comes_back_is_counted_from_zero(metrics: Metrics) -> None:
    batch = BatchCommitted(PODS, ALL, bytes=70, ops={Op.ADDED: 1})
    for fact in (batch, InformerStopped(PODS, ALL), batch):
        metrics.observe(fact)
    assert _samples(metrics)["kubedelta_records_committed_total{op=added,resource=pods}"] == 1


def test_an_expected_sink_is_shown_from_zero_on(metrics: Metrics) -> None:
    metrics.expect_sinks("audit")
    samples = _samples(metrics)
    assert samples["kubedelta_sink_rejected_records_total{sink=audit}"] == 0
    assert samples["kubedelta_sink_backlog_drops_total{sink=audit}"] == 0
    assert samples["kubedelta_sink_delivery_seconds_count{sink=audit}"] == 0


def test_every_family_has_a_sample_before_its_first_event() -> None:
    """An increase needs the zero before the first failure."""
    telemetry = Telemetry(Logs())
    metrics = Metrics(version="1.2.3", failures=telemetry.failures)
    metrics.expect_sinks("audit")
    metrics.observe(InformerStarted(PODS, ALL))
    snapshot = BridgeStatus(informers=(LIVE,), sinks=(IDLE,), disk_free_bytes=1)
    text = metrics.render(snapshot, "")[0].decode()
    assert [family.name for family in parse_text(text) if not family.samples] == []
    samples = _samples(metrics, snapshot)
    for status in (401, 403, 404, 405):
        assert samples[f"kubedelta_reflector_refusals_total{{resource=pods,status={status}}}"] == 0
    for verb in ("list", "watch"):
        assert samples[f"kubedelta_reflector_failures_total{{resource=pods,verb={verb}}}"] == 0
    for op in ("added", "updated", "deleted", "sync"):
        assert samples[f"kubedelta_records_committed_total{{op={op},resource=pods}}"] == 0


def test_gauges_come_from_the_snapshot_of_the_scrape_alone(metrics: Metrics) -> None:
    waiting = replace(
        IDLE, state=SinkState.WAITING, backlog_records=12, backlog_bytes=800, backlog_seconds=61.5, window=5,
        retry_in=2.5,
        dead_letters=3, parked=2, backfill="snapshot", backfill_left=40, circuit=CircuitState.HALF_OPEN,
    )  # fmt: skip
    now = BridgeStatus(
        informers=(LIVE,), sinks=(waiting,), outbox_records=12, outbox_bytes=900, outbox_oldest_seconds=70.5,
        outbox_file_bytes=16_384, outbox_wal_bytes=4096, disk_free_bytes=10**9, ledger_objects=3,
        intake_blocked="no room",
    )  # fmt: skip
    samples = _samples(metrics, now)
    expected = {
        "kubedelta_ready": 0,
        "kubedelta_outbox_records": 12,
        "kubedelta_outbox_bytes": 900,
        "kubedelta_outbox_oldest_seconds": 70.5,
        "kubedelta_outbox_file_bytes": 16_384,
        "kubedelta_outbox_wal_bytes": 4096,
        "kubedelta_disk_free_bytes": 10**9,
        "kubedelta_ledger_objects": 3,
        "kubedelta_intake_blocked": 1,
        "kubedelta_informer_objects{resource=pods}": 3,
        "kubedelta_informer_queued_items{resource=pods}": 1,
        "kubedelta_resource_synced{resource=pods}": 1,
        "kubedelta_resource_live{resource=pods}": 1,
        "kubedelta_resource_last_contact_seconds{resource=pods}": 2,
        "kubedelta_sink_backlog_records{sink=audit}": 12,
        "kubedelta_sink_backlog_bytes{sink=audit}": 800,
        "kubedelta_sink_backlog_seconds{sink=audit}": 61.5,
        "kubedelta_sink_dead_letters{sink=audit}": 3,
        "kubedelta_sink_dead_letters_parked{sink=audit}": 2,
        "kubedelta_sink_backfill_records{sink=audit}": 40,
        "kubedelta_sink_circuit{sink=audit,state=half-open}": 1,
        "kubedelta_sink_circuit{sink=audit,state=closed}": 0,
        "kubedelta_sink_window_records{sink=audit}": 5,
        "kubedelta_sink_retry_seconds{sink=audit}": 2.5,
        "kubedelta_sink_state{sink=audit,state=waiting}": 1,
        "kubedelta_sink_state{sink=audit,state=idle}": 0,
        f"kubedelta_build_info{{python={platform.python_version()},version=1.2.3}}": 1,
    }
    assert {name: samples.get(name) for name in expected} == expected
    nothing = _samples(metrics)
    assert not [name for name in nothing if "resource=" in name or "sink=" in name]
    assert nothing["kubedelta_intake_blocked"] == 0
    assert "kubedelta_disk_free_bytes" not in nothing


def test_a_resource_is_as_ready_and_fresh_as_its_worst_scope(metrics: Metrics) -> None:
    lost = replace(LIVE, scope="namespace shop", state=InformerState.RECONNECTING, live=False, last_contact=80)
    fresh = replace(
        LIVE, scope="namespace new", state=InformerState.LISTING, synced=False, live=False, last_contact=None
    )
    samples = _samples(metrics, BridgeStatus(informers=(LIVE, lost, fresh), sinks=()))
    assert samples["kubedelta_resource_live{resource=pods}"] == 0
    assert samples["kubedelta_resource_synced{resource=pods}"] == 0
    assert samples["kubedelta_informer_objects{resource=pods}"] == 9
    assert samples["kubedelta_resource_last_contact_seconds{resource=pods}"] == 80
    assert samples["kubedelta_ready"] == 0


def test_failures_of_telemetry_itself_are_shown() -> None:
    failures: dict[str, int] = {}
    metrics = Metrics(version="1", failures=failures)
    failures["Logs"] = 2
    assert _samples(metrics)["kubedelta_telemetry_failures_total{observer=Logs}"] == 2


@pytest.mark.parametrize(
    "accept",
    [
        "",
        "*/*",
        "text/plain;version=0.0.4",
        "application/openmetrics-text; version=abc",
        "text/plain; version=..",
        "ü;;=",
    ],
)
def test_whatever_is_asked_for_the_answer_can_be_read(metrics: Metrics, accept: str) -> None:
    body, content_type = metrics.render(NOTHING, accept)
    assert content_type.startswith("text/plain")
    assert list(parse_text(body.decode()))


def test_openmetrics_is_spoken_when_asked_for(moved: Metrics) -> None:
    body, content_type = moved.render(WELL, "application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    names = {family.name for family in parse_openmetrics(body.decode())}  # type: ignore[no-untyped-call]
    assert {"kubedelta_records_committed", "kubedelta_sink_backlog_records"} <= names


def test_names_say_their_unit_and_kind_as_prometheus_wants_them(moved: Metrics) -> None:
    text = moved.render(WELL, "")[0].decode()
    for family in parse_text(text):
        if not family.name.startswith("kubedelta_"):
            continue
        assert family.documentation.endswith(".")
        samples = {sample.name for sample in family.samples}
        assert not [name for name in samples if name.endswith("_created")]
        if family.type == "counter":
            assert samples <= {f"{family.name}_total"}
        else:
            assert not family.name.endswith(("_total", "_count", "_sum", "_bucket"))
        assert not any(unit in family.name for unit in ("_ms", "_millis", "_kb", "_mb", "_sec_"))


def test_prometheus_linter_finds_nothing(moved: Metrics, promtool_build: Path) -> None:
    body, _ = moved.render(WELL, "")
    command = [str(promtool_build / "promtool"), "check", "metrics"]
    linted = subprocess.run(command, input=body, capture_output=True, timeout=60 * BUSY, check=False)
    assert (linted.returncode, linted.stderr.decode()) == (0, "")
