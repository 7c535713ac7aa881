"""Queries in PromQL, compared with the metrics that a bridge exposes."""

from __future__ import annotations

import re

from tests.kit.exposed_metrics import exposed_metrics

EXPOSED = exposed_metrics()
OF_PROMETHEUS = {"instance", "le"}
"""Labels that a scrape and a histogram have."""


def metrics_of(query: str) -> set[str]:
    """The families in a query."""
    named = re.findall(r"\b(?:kubedelta|process)_\w+", query)
    return {name if name in EXPOSED else re.sub(r"_(?:sum|count|bucket)$", "", name) for name in named}


def unknown_names(query: str, legend: str = "") -> set[str]:
    """Metrics that no bridge exposes, and labels that the query's metrics lack."""
    metrics = metrics_of(query)
    if missing := metrics - EXPOSED.keys():
        return missing
    matched = [name for braces in re.findall(r"\{([^{}]*)\}", query) for name in re.findall(r"(\w+)\s*(?:=|!)", braces)]
    grouped = [name.strip() for names in re.findall(r"\b(?:by|on) \(([^()]*)\)", query) for name in names.split(",")]
    shown = re.findall(r"\{\{\s*(?:\$labels\.)?(\w+)", legend)
    known = OF_PROMETHEUS.union(*(EXPOSED[metric] for metric in metrics))
    return {*matched, *grouped, *shown} - known
