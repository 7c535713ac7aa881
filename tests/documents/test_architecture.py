"""Statements about the code and the database are compared with both."""

from __future__ import annotations

import re
from pathlib import Path

from bridge.outbox.storage import schema
from bridge.outbox.storage.database import open_writer
from tests.documents.pages import ROOT, read, section

NUMBERED = re.compile(r"^\*\*(\d+)\. (.*?)(?=^\*\*\d+\. |^#|\Z)", re.MULTILINE | re.DOTALL)
OF_A_ROOM = re.compile(r"^Invariants?, .*:\n\n((?:[- ] .*\n)+)", re.MULTILINE)
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
NUMBERED_ONES = NUMBERED.findall(section("ARCHITECTURE.md", "## Invariants"))


def invariants() -> list[tuple[str, str]]:
    """Place and text of each: those that span rooms, and those of a room in its ``__init__``."""
    found = [("ARCHITECTURE.md", text) for _, text in NUMBERED_ONES]
    for path in (*ROOT.glob("bridge/*/__init__.py"), ROOT / "sinks/__init__.py"):
        source = path.read_text(encoding="utf-8")
        blocks = OF_A_ROOM.findall(source)
        assert blocks or "Invariant" not in source, f"{path}: begin with 'Invariants, each with its test:'"
        for block in blocks:
            found += [(str(path.relative_to(ROOT)), text) for text in re.split(r"^- ", block, flags=re.MULTILINE)[1:]]
    return found


def test_every_invariant_names_its_test() -> None:
    assert [int(number) for number, _ in NUMBERED_ONES] == list(range(1, len(NUMBERED_ONES) + 1))
    assert len(invariants()) > 25
    assert [(place, text) for place, text in invariants() if not TEST.search(text)] == []


def test_every_named_test_exists() -> None:
    for file, name in TEST.findall("\n".join([read("ARCHITECTURE.md"), *(text for _, text in invariants())])):
        assert (ROOT / file).is_file(), file
        tests = re.findall(r"^(?:async )?def (test_\w+)|^(Test\w+) = ", read(file), re.MULTILINE)
        found = {function or machine for function, machine in tests}
        assert name in found if name else found, f"{file}::{name}"


def test_the_code_map_has_every_room() -> None:
    places = re.findall(r"^\| `([\w/.]+)` \|", section("ARCHITECTURE.md", "## Code map"), re.MULTILINE)
    rooms = {f"bridge/{path.parent.name}" for path in ROOT.glob("bridge/*/__init__.py")}

    assert rooms <= set(places)
    assert [place for place in places if not (ROOT / place).exists()] == []


def test_the_entry_points_of_the_code_map_exist() -> None:
    row = re.compile(r"^\| `(bridge/\w+|sinks|config)` \| .* \| (`.*`).* \|$", re.MULTILINE)
    rows = row.findall(section("ARCHITECTURE.md", "## Code map"))
    assert len(rows) > 15
    for place, entries in rows:
        source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / place).rglob("*.py"))
        for name in re.findall(r"`(\w+)`", entries):
            module = (ROOT / place / f"{name}.py").exists()
            defined = re.search(rf"^(?:class|(?:async )?def) {name}\b|^{name}\b.* = | as {name}$", source, re.MULTILINE)
            assert module or defined, f"{place}: {name}"


def test_the_documented_database_is_the_one_that_is_made(tmp_path: Path) -> None:
    page = read("docs/state.md")
    database = open_writer(tmp_path / "outbox.db")

    assert f"format {database.pragma('user_version')} |" in page
    assert "WAL" in page
    assert database.pragma("journal_mode") == "wal"
    assert "synchronous=FULL" in page
    assert database.pragma("synchronous") == 2
    assert "4 KiB" in page
    assert database.pragma("page_size") == 4 * 1024


def test_the_page_of_the_schema_names_every_table(tmp_path: Path) -> None:
    database = open_writer(tmp_path / "outbox.db")
    names = {row[0] for row in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}

    named = set(re.findall(r"^(\w+) +\S", schema.__doc__ or "", re.MULTILINE))
    assert {name for name in names if not name.startswith("sqlite_")} <= named
