"""Pages: their links, their lengths, and the lists that must be complete."""

from __future__ import annotations

import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bridge.facts import InformerStarted
from bridge.model.resource import Resource, Scope
from bridge.model.status import InformerState, InformerStatus, SinkState, SinkStatus, StatusSnapshot
from bridge.telemetry import Metrics
from tests.documents.pages import FOR_OPERATORS, ROOT, code_spans, everything, read, section

WORDS = {"README.md": 1_200, "ARCHITECTURE.md": 2_500}
"""Most words of a page."""


def test_every_link_leads_to_a_file() -> None:
    assert {"README.md", "ARCHITECTURE.md", "SECURITY.md", "operation.md"} < {path.name for path in everything()}
    for path in everything():
        for target in re.findall(r"\]\((?!http)([^)#]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
            assert (path.parent / target).is_file(), f"{path.name} links to {target}"


@pytest.mark.parametrize("name", WORDS)
def test_a_page_keeps_to_its_number_of_words(name: str) -> None:
    assert len(read(name).split()) <= WORDS[name]


def test_the_index_links_to_every_page() -> None:
    linked = set(re.findall(r"\]\(([^)#]+)\)", read("docs/index.md")))
    assert {path.name for path in ROOT.glob("docs/*.md")} - {"index.md"} <= linked


def test_the_glossary_defines_our_words() -> None:
    defined = set(re.findall(r"^- \*\*(.+?)\*\*:", section("docs/glossary.md", "## Our words"), re.MULTILINE))
    ours = {"ledger", "cursor", "settled", "position", "epoch", "evidence", "notice", "gap", "backfill"}
    assert defined == ours


# ── Metrics ──────────────────────────────────────────────────────────────────


def _exposed() -> dict[str, set[str]]:
    """Each family that a bridge exposes, with its labels."""
    metrics = Metrics(version="0", failures={"logs": 0})
    metrics.expect_sinks("copy")
    metrics.observe(InformerStarted(Resource("", "v1", "pods", "Pod", True), Scope()))
    pods = InformerStatus(
        resource="pods", scope="all", state=InformerState.LIVE, synced=True, live=True, last_contact=1
    )
    sink = SinkStatus(name="copy", type="file", state=SinkState.IDLE)
    body, _ = metrics.render(StatusSnapshot(informers=(pods,), sinks=(sink,), disk_free_bytes=1), "")
    named = re.findall(r"^# TYPE (\S+) ", body.decode(), re.MULTILINE)
    families = zip(named, text_string_to_metric_families(body.decode()), strict=True)
    return {name: {label for sample in family.samples for label in sample.labels} - {"le"} for name, family in families}


def test_the_page_of_metrics_has_every_family_and_its_labels() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*?) ?\| (.+?) \| (.+?) \|$", read("docs/metrics.md"), re.MULTILINE)
    exposed = _exposed()

    assert sorted(name for name, *_ in rows) == sorted(exposed)
    for name, labels, meaning, action in rows:
        assert set(re.findall(r"`(\w+)`", labels)) == exposed[name], name
        assert meaning
        assert action


def test_every_metric_that_a_page_names_exists() -> None:
    named = {re.split(r"[{ ]", each)[0] for each in code_spans(*FOR_OPERATORS) if each.startswith("kubedelta_")}
    assert named
    assert named <= set(_exposed())
