"""What the comparison says of kubedelta stands in two tables, whose second columns name what there is and what there
is not."""

from __future__ import annotations

import re

import pytest

from bridge.cli.command_line import parse
from bridge.model.change import Evidence
from config.schema import Settings
from config.schema.shape import type_at
from deploy.release.notes import notes_of
from deploy.release.obstacles import version_of
from sinks import registry
from tests.documents.pages import REFERENCE, ROOT, read, section
from tests.kit.exposed_metrics import exposed_metrics

OWN = section("docs/comparison.md", "## kubedelta")
SINK_OPTIONS = set(re.findall(r"^    #?(\w+):", REFERENCE, re.MULTILINE))
ROWS = re.findall(r"^\| *([^-|].*?) *\|(.*)\|$", OWN, re.MULTILINE)
LACKS = next(number for number, (statement, _) in enumerate(ROWS) if statement == "it lacks")


def exists(name: str) -> bool:
    """A command, a metric, a type of sink, an evidence, an option of sinks or one by its path."""
    if name.startswith("kubedelta "):
        with pytest.raises(SystemExit) as ended:
            parse([*name.split()[1:], "--help"])
        return ended.value.code == 0
    known = {*exposed_metrics(), *registry.types(), *Evidence, *SINK_OPTIONS}
    return name in known or type_at(Settings, tuple(name.split(".")), {}) is not None


@pytest.mark.parametrize(("statement", "names"), ROWS[1:LACKS])
def test_what_it_has_exists(statement: str, names: str) -> None:
    found = re.findall(r"`(.+?)`", names)
    assert found, statement
    assert [name for name in found if not exists(name)] == []


@pytest.mark.parametrize(("statement", "words"), ROWS[LACKS + 1 :])
def test_what_it_lacks_does_not_exist(statement: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--help"])
    options = re.findall(r"^[ #-]*(\w+):", REFERENCE, re.MULTILINE)
    there = "\n".join([capsys.readouterr().out, *options, *exposed_metrics()])
    found = re.findall(r"`(\w+)`", words)
    assert found, statement
    assert [word for word in found if word in there] == []


def test_nothing_else_is_said_of_kubedelta() -> None:
    released = notes_of(read("CHANGELOG.md"), version_of(ROOT)).is_released
    said = [line for line in OWN.splitlines() if line and not line.startswith("|")]
    status = [] if released else ["Nothing is released yet."]
    assert said == ["A test looks up each name of the second column.", *status]
    assert "kubedelta" not in section("docs/comparison.md", "## Others")
