"""Pages: their links, and the lists that must be complete."""

from __future__ import annotations

import re

from tests.documents.pages import FOR_OPERATORS, ROOT, code_spans, everything, read, section
from tests.kit.exposed_metrics import exposed_metrics


def test_every_link_leads_to_a_file() -> None:
    assert {"README.md", "ARCHITECTURE.md", "SECURITY.md", "operation.md"} < {path.name for path in everything()}
    for path in everything():
        for target in re.findall(r"\]\((?!http)([^)#]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
            assert (path.parent / target).is_file(), f"{path.name} links to {target}"


def test_every_link_into_a_page_leads_to_a_heading() -> None:
    found = 0
    for path in everything():
        for target, anchor in re.findall(r"\]\((?!http)([^)#]*)#([^)]+)\)", path.read_text(encoding="utf-8")):
            page = path.parent / target if target else path
            if page.suffix == ".md":
                headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
                anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
                assert anchor in anchors, f"{path.name} links to {target}#{anchor}"
                found += 1
    assert found > 50


def test_the_index_links_to_every_page() -> None:
    for folder in ("docs", "docs/sinks"):
        linked = set(re.findall(r"\]\(([^)#]+)\)", read(f"{folder}/index.md")))
        assert {path.name for path in (ROOT / folder).glob("*.md")} - {"index.md"} <= linked


def test_the_glossary_defines_our_words() -> None:
    defined = set(re.findall(r"^- \*\*(.+?)\*\*:", section("docs/glossary.md", "## Our words"), re.MULTILINE))
    ours = {"ledger", "cursor", "settled", "position", "epoch", "evidence", "notice", "gap", "backfill"}
    assert defined == ours


# ── Metrics ──────────────────────────────────────────────────────────────────


def test_the_page_of_metrics_has_every_family_and_its_labels() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*?) ?\| (.+?) \| (.+?) \|$", read("docs/metrics.md"), re.MULTILINE)
    exposed = exposed_metrics()

    assert sorted(name for name, *_ in rows) == sorted(exposed)
    for name, labels, meaning, action in rows:
        assert set(re.findall(r"`(\w+)`", labels)) == exposed[name], name
        assert meaning
        assert action


def test_every_metric_that_a_page_names_exists() -> None:
    named = {re.split(r"[{ ]", each)[0] for each in code_spans(*FOR_OPERATORS) if each.startswith("kubedelta_")}
    assert named
    assert named <= set(exposed_metrics())
