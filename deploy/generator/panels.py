"""The panels of the dashboard, row by row."""

from __future__ import annotations

from typing import NamedTuple

_BRIDGE = 'instance=~"$instance"'
_OF = {
    "": _BRIDGE,
    "resource": f'{_BRIDGE}, resource=~"$resource"',
    "sink": f'{_BRIDGE}, sink=~"$sink"',
}


class Query(NamedTuple):
    expression: str
    """PromQL."""
    legend: str


class Panel(NamedTuple):
    title: str
    unit: str
    """Grafana's name of it."""
    queries: tuple[Query, ...]
    about: str = ""
    width: int = 8
    """Of 24 columns."""
    kind: str = "timeseries"
    text: str = "auto"
    """Of a stat: value, name or both."""


def _value(metric: str, of: str = "", legend: str = "", where: str = "", using: str = "sum") -> Query:
    """A gauge. ``of`` is the label that divides it: resource, sink or none."""
    chosen = f"{metric}{{{_OF[of]}{', ' if where else ''}{where}}}"
    return Query(f"{using} by ({of or 'instance'}) ({chosen})", legend or f"{{{{{of or 'instance'}}}}}")


def _rate(metric: str, of: str = "", by: str = "", legend: str = "", function: str = "rate") -> Query:
    """The rate of a counter in a second, also divided by the label ``by``."""
    labels = [label for label in (of or "instance", by) if label]
    shown = legend or " ".join(f"{{{{{label}}}}}" for label in labels)
    return Query(f"sum by ({', '.join(labels)}) ({function}({metric}{{{_OF[of]}}}[$__rate_interval]))", shown)


def _count(metric: str, of: str = "", by: str = "", legend: str = "") -> Query:
    """The increase of a counter of rare events, between two points."""
    return _rate(metric, of, by, legend, "increase")


def _mean(metric: str, of: str) -> Query:
    """The mean of a summary."""
    total, count = (_rate(f"{metric}_{part}", of).expression for part in ("sum", "count"))
    return Query(f"{total} / {count}", f"{{{{{of}}}}}")


def _percentile(metric: str, of: str, share: float) -> Query:
    label = of or "instance"
    buckets = f"sum by ({label}, le) (rate({metric}_bucket{{{_OF[of]}}}[$__rate_interval]))"
    return Query(f"histogram_quantile({share}, {buckets})", f"{{{{{label}}}}} p{share * 100:.0f}")


def _stat(title: str, unit: str, *queries: Query, text: str = "auto") -> Panel:
    return Panel(title, unit, queries, width=4, kind="stat", text=text)


def _panel(title: str, unit: str, *queries: Query, about: str = "") -> Panel:
    return Panel(title, unit, queries, about)


def _k(name: str) -> str:
    return f"kubedelta_{name}"


ROWS: dict[str, tuple[Panel, ...]] = {
    "Overview": (
        _stat("Ready", "bool_yes_no", _value(_k("ready"), using="min")),
        _stat("Intake blocked", "bool_yes_no", _value(_k("intake_blocked"), using="max")),
        _stat("Dead letters", "short", _value(_k("sink_dead_letters"), "sink")),
        _stat("Oldest record of a backlog", "s", _value(_k("sink_backlog_seconds"), "sink", using="max")),
        _stat("Free on the disk", "bytes", _value(_k("disk_free_bytes"), using="min")),
        _stat(
            "Version",
            "none",
            Query(f"kubedelta_build_info{{{_BRIDGE}}}", "{{version}}, Python {{python}}"),
            text="name",
        ),
    ),
    "Events": (
        _panel("Changes stored", "ops", _rate(_k("records_committed_total"), "resource", "op")),
        _panel("Changes ignored", "ops", _rate(_k("changes_ignored_total"), "resource")),
        _panel("Bytes stored", "Bps", _rate(_k("records_committed_bytes_total"), "resource")),
        _panel("Records delivered", "ops", _rate(_k("sink_delivered_records_total"), "sink")),
        _panel("Bytes delivered", "Bps", _rate(_k("sink_delivered_bytes_total"), "sink")),
        _panel(
            "Delivery of a batch",
            "s",
            *(_percentile(_k("sink_delivery_seconds"), "sink", share) for share in (0.5, 0.99)),
            about="From handing a batch to the sink to the destination's answer.",
        ),
        _panel("Gaps", "short", _count(_k("gap_records_total"), "sink"), about="Records that a sink never receives."),
    ),
    "Election": (
        _panel("Leader", "bool_yes_no", _value(_k("leader"), using="max")),
        _panel("In sync", "bool_yes_no", _value(_k("replica_in_sync"), using="min")),
        _panel("Term", "short", _value(_k("leader_term"), using="max")),
        _panel("Behind the leader", "s", _value(_k("follower_lag_seconds"), using="max")),
        _panel("Commits behind", "short", _value(_k("follower_lag_commits"), using="max")),
        _panel("Since the last renewal", "s", _value(_k("lease_age_seconds"), using="max")),
        _panel(
            "Renewal of the Lease",
            "s",
            *(_percentile(_k("lease_renew_seconds"), "", share) for share in (0.5, 0.99)),
        ),
        _panel(
            "Transitions and failures",
            "short",
            _count(_k("leader_transitions_total"), by="to"),
            _count(_k("lease_failures_total"), by="verb"),
        ),
    ),
    "Resources": (
        _panel(
            "Synced and live",
            "bool_yes_no",
            _value(_k("resource_synced"), "resource", "{{resource}} synced", using="min"),
            _value(_k("resource_live"), "resource", "{{resource}} live", using="min"),
        ),
        _panel("Since the last byte", "s", _value(_k("resource_last_contact_seconds"), "resource", using="max")),
        _panel("Objects", "short", _value(_k("informer_objects"), "resource")),
        _panel("Queued deltas", "short", _value(_k("informer_queued_items"), "resource")),
        _panel(
            "Lists",
            "short",
            _count(_k("reflector_lists_total"), "resource", legend="{{resource}} lists"),
            _count(_k("reflector_relists_total"), "resource", legend="{{resource}} relists"),
        ),
        _panel(
            "Recovered steps",
            "short",
            _count(_k("reflector_recovered_steps_total"), "resource", legend="{{resource}} steps"),
            _count(_k("reflector_recovery_requests_total"), "resource", legend="{{resource}} requests"),
            _count(_k("reflector_recoveries_total"), by="outcome", legend="{{instance}} lists: {{outcome}}"),
        ),
        _panel("Duration of a list", "s", _mean(_k("reflector_list_duration_seconds"), "resource")),
        _panel(
            "Watches",
            "short",
            _count(_k("reflector_watches_total"), "resource", legend="{{resource}} watches"),
            _count(_k("reflector_short_watches_total"), "resource", legend="{{resource}} short"),
        ),
        _panel("Duration of a watch", "s", _mean(_k("reflector_watch_duration_seconds"), "resource")),
        _panel(
            "Failures and refusals",
            "short",
            _count(_k("reflector_failures_total"), "resource", "verb"),
            _count(_k("reflector_refusals_total"), "resource", "status"),
        ),
        _panel(
            "Unusual objects",
            "short",
            _count(_k("reflector_unreadable_total"), "resource", legend="{{resource}} unreadable"),
            _count(_k("reflector_bare_objects_total"), "resource", legend="{{resource}} bare"),
        ),
        _panel(
            "History",
            "short",
            _count(_k("reflector_version_resets_total"), "resource", legend="{{resource}} version resets"),
            _count(_k("history_proofs_total"), by="outcome", legend="{{instance}} proof: {{outcome}}"),
            _count(_k("cluster_changes_total"), legend="{{instance}} cluster changed"),
        ),
        _panel(
            "Discovery",
            "short",
            _count(_k("discovery_failures_total"), legend="{{instance}} failures"),
            _count(_k("discovery_stale_groups_total"), legend="{{instance}} stale groups"),
        ),
    ),
    "Sinks": (
        _panel("Backlog: records", "short", _value(_k("sink_backlog_records"), "sink")),
        _panel("Backlog: bytes", "bytes", _value(_k("sink_backlog_bytes"), "sink")),
        _panel("Backlog: age", "s", _value(_k("sink_backlog_seconds"), "sink", using="max")),
        _panel(
            "State",
            "bool",
            Query(f"max by (sink, state) (kubedelta_sink_state{{{_OF['sink']}}}) == 1", "{{sink}} {{state}}"),
        ),
        _panel(
            "Circuit",
            "bool",
            Query(f"max by (sink, state) (kubedelta_sink_circuit{{{_OF['sink']}}}) == 1", "{{sink}} {{state}}"),
        ),
        _panel(
            "Retries and circuit",
            "short",
            _count(_k("sink_retries_total"), "sink", legend="{{sink}} retries"),
            _count(_k("sink_circuit_opens_total"), "sink", legend="{{sink}} circuit opened"),
            _count(_k("sink_opens_total"), "sink", legend="{{sink}} opened"),
        ),
        _panel(
            "Dead letters",
            "short",
            _value(_k("sink_dead_letters"), "sink"),
            _value(_k("sink_dead_letters_parked"), "sink", "{{sink}} parked"),
        ),
        _panel(
            "Rejected and parked records",
            "short",
            _count(_k("sink_rejected_records_total"), "sink", legend="{{sink}} rejected"),
            _count(_k("sink_parked_records_total"), "sink", legend="{{sink}} parked"),
        ),
        _panel("Until the next attempt", "s", _value(_k("sink_retry_seconds"), "sink", using="max")),
        _panel(
            "Backfill",
            "short",
            _value(_k("sink_backfill_records"), "sink"),
            _count(_k("sink_snapshots_total"), "sink", legend="{{sink}} snapshots begun"),
        ),
        _panel(
            "Bounds of the backlog",
            "short",
            _count(_k("sink_compactions_total"), "sink", legend="{{sink}} compactions"),
            _count(_k("sink_compacted_records_total"), "sink", legend="{{sink}} compacted records"),
            _count(_k("sink_backlog_drops_total"), "sink", legend="{{sink}} drops"),
            _count(_k("sink_intake_blocks_total"), "sink", legend="{{sink}} blocked the intake"),
        ),
        _panel(
            "Window and streams",
            "short",
            _value(_k("sink_window_records"), "sink", "{{sink}} in memory"),
            _count(_k("sink_destinations_created_total"), "sink", legend="{{sink}} streams created"),
            _count(_k("sink_destination_losses_total"), "sink", legend="{{sink}} losses of a destination"),
            _count(_k("sink_destination_changes_total"), "sink", legend="{{sink}} changes of a destination"),
        ),
    ),
    "State on disk": (
        _panel("Records in the outbox", "short", _value(_k("outbox_records"))),
        _panel(
            "Bytes",
            "bytes",
            _value(_k("outbox_bytes"), legend="{{instance}} records"),
            _value(_k("outbox_file_bytes"), legend="{{instance}} database file"),
            _value(_k("outbox_wal_bytes"), legend="{{instance}} write-ahead log"),
            _value(_k("disk_free_bytes"), legend="{{instance}} free"),
        ),
        _panel("Oldest record of the outbox", "s", _value(_k("outbox_oldest_seconds"), using="max")),
        _panel("Objects in the ledger", "short", _value(_k("ledger_objects"))),
        _panel(
            "Trouble with the disk",
            "short",
            _count(_k("outbox_full_total"), legend="{{instance}} full"),
            _count(_k("outbox_rebuilds_total"), legend="{{instance}} rebuilt"),
        ),
        _panel(
            "Left the configuration",
            "short",
            _count(_k("scope_left_objects_total"), legend="{{instance}} objects"),
            _count(_k("forgotten_sinks_total"), legend="{{instance}} sinks"),
            _count(_k("forgotten_records_total"), legend="{{instance}} records of these sinks"),
        ),
        _panel("Failed evaluations of expressions", "short", _count(_k("failed_evaluations_total"))),
    ),
    "Process": (
        _panel("CPU", "percentunit", _rate("process_cpu_seconds_total")),
        _panel("Memory", "bytes", _value("process_resident_memory_bytes")),
        _panel(
            "Open files and connections",
            "short",
            _value("process_open_fds", legend="{{instance}} open"),
            _count(_k("http_cut_connections_total"), by="reason", legend="{{instance}} cut: {{reason}}"),
        ),
        _panel(
            "Started",
            "dateTimeAsIso",
            Query(f"process_start_time_seconds{{{_BRIDGE}}} * 1000", "{{instance}}"),
        ),
        _panel("Failures of telemetry", "short", _count(_k("telemetry_failures_total"), by="observer")),
        _panel("Spans of traces", "short", _count(_k("trace_spans_total"), by="outcome")),
        _panel(
            "The configuration file is in effect",
            "bool_yes_no",
            _value(_k("config_last_reload_successful"), using="min"),
            about="No: a changed file is refused, and the former configuration stays.",
        ),
        _panel("Readings of the configuration", "short", _count(_k("config_reloads_total"), by="outcome")),
        _panel(
            "Configuration read",
            "dateTimeAsIso",
            Query(f"kubedelta_config_reload_success_timestamp_seconds{{{_BRIDGE}}} * 1000", "{{instance}} in effect"),
            Query(f"kubedelta_config_reload_failure_timestamp_seconds{{{_BRIDGE}}} * 1000 > 0", "{{instance}} refused"),
        ),
        _stat("Configuration", "none", Query(f"kubedelta_config_info{{{_BRIDGE}}}", "{{digest}}"), text="name"),
        _stat("Shard", "none", Query(f"kubedelta_shard_info{{{_BRIDGE}}}", "{{shard}} by {{by}}"), text="name"),
    ),
}
"""Title of the row → its panels."""
