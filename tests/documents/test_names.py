"""Names in the documents exist: commands, options, exit codes, types of sinks and of events, make targets."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import yaml

from bridge.cli.arguments import PLACES
from bridge.cli.command_line import parse
from bridge.cli.exits import Exit
from bridge.model.formats.cloudevent import GAP_TYPE, SNAPSHOT_TYPES, TERM_TYPE
from bridge.model.formats.content import Include
from config.schema import Settings
from config.schema.shape import type_at
from sinks import registry
from tests.documents.pages import FOR_DEVELOPERS, FOR_OPERATORS, REFERENCE, code_spans, everything, read

CODE = code_spans(*FOR_OPERATORS)
OPERATION = read("docs/operation.md")
OTHERS = {"max_msgs_per_subject", "no_ack", *Include}
"""Settings of a destination, and values of an option."""


# ── Commands ─────────────────────────────────────────────────────────────────


def _commands() -> Iterator[list[str]]:
    """Each command of the documents, in code or to be typed."""
    pages = "\n".join(read(name) for name in FOR_OPERATORS)
    typed = re.findall(r"^    (?:\.venv/bin/)?(kubedelta [^|<>\n]+)", pages, re.MULTILINE)
    found = (re.search(r"(?:^|-- )kubedelta ((?:[a-z]|-c).*)$", text) for text in (*CODE, *typed))
    yield from sorted({tuple(each[1].split()): each[1].split() for each in found if each}.values())


@pytest.mark.parametrize("words", list(_commands()), ids=" ".join)
def test_a_documented_command_is_understood(words: list[str]) -> None:
    stands_for = {"FILE": "x.yaml", "SINK": "copy", "START": "beginning", "NUMBER": "1", "N": "1", "SHELL": "zsh"}
    given = [stands_for.get(word, word) for word in words]
    if given[0] == "dead-letters" and len(given) == 1:
        given.append("list")
    if given[0] in ("verify", "replay") and len(given) == 1:
        given += ["copy"]
    if given[0] == "replay" and "--from" not in given:
        given += ["--from", "beginning"]
    if given[0] == "sinks" and len(given) == 2:
        given.append("copy")
    alone = ("actors", "at", "demo", "diff", "history", "restore", "schema", "completion")
    if given[0] not in alone and given != ["sinks"] and "-c" not in given:
        given += ["-c", "x.yaml"]
    parse(given)


def test_the_table_has_every_command_and_only_real_options(capsys: pytest.CaptureFixture[str]) -> None:
    def helped(*words: str) -> str:
        with pytest.raises(SystemExit):
            parse([*words, "--help"])
        return capsys.readouterr().out

    row = r"^\| `kubedelta ([a-z][a-z-]*(?: [a-z][a-z-]*)?)(?:\\\||[^|`])*` \| (.*) \|$"
    rows = dict(re.findall(row, OPERATION, re.MULTILINE))
    assert {name.split()[0] for name in rows} == set(re.findall(r"^    ([a-z-]+)(?: |$)", helped(), re.MULTILINE))
    for name, text in rows.items():
        group = name.split()[0]
        pages = helped(*name.split()) + (helped(group) if name != group else "")
        for action in re.findall(r"`(show|retry|drop) [A-Z]", text):
            pages += helped(group, action)
        for option in re.findall(r"`(--[a-z]+)", text):
            assert option in pages, f"{name} {option}"


def test_the_table_of_exit_codes_is_complete() -> None:
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", OPERATION, re.MULTILINE)} == set(Exit)


def test_the_mounted_file_is_the_default_of_every_command() -> None:
    assert re.search(r"`kubectl -n kubedelta exec \S+ -- kubedelta status`", OPERATION)
    deployment = yaml.safe_load(read("deploy/deployment.yaml"))
    assert deployment["spec"]["template"]["spec"]["containers"][0]["args"][-1] == PLACES[-1]
    assert f"args: [run, --config, {PLACES[-1]}]" in read("deploy/chart/templates/_pod.tpl")
    assert "WORKDIR" not in read("Dockerfile").rpartition("FROM")[2], "nobody's ./kubedelta.yaml comes before it"


def test_every_documented_make_target_exists() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", read("Makefile"), re.MULTILINE))
    for path in everything():
        text = path.read_text(encoding="utf-8")
        named = {*re.findall(r"`make ([a-z0-9-]+)", text), *re.findall(r"^    make ([a-z0-9-]+)", text, re.MULTILINE)}
        assert named <= targets, path.name


# ── Options ──────────────────────────────────────────────────────────────────


def _is_option(text: str) -> bool:
    part, dot, _ = text.partition(".")
    own = re.fullmatch(r"[a-z]+(?:[._][a-z]+)+(?:: [a-z]+)?", text) and text not in OTHERS
    foreign = text.startswith(("kubedelta_", "process_", "ce_"))
    return bool(own) and not foreign and (not dot or part in Settings.model_fields)


@pytest.mark.parametrize("named", [each for each in CODE if _is_option(each)])
def test_a_documented_option_exists_with_that_value(named: str) -> None:
    option, _, value = named.partition(": ")
    *path, name = option.split(".")
    assert not path or type_at(Settings, (*path, name), {}) is not None
    part = re.search(rf"^{path[0]}:\n(?: .*\n|\n)*", REFERENCE, re.MULTILINE) if path else None
    lines = re.findall(rf"^[ #-]*{name}:.*$", part[0] if part else REFERENCE, re.MULTILINE)  # Of several sinks.
    boolean = any(": true" in line or ": false" in line for line in lines)
    assert any(value in line for line in lines) or (boolean and value in ("true", "false"))


def test_the_options_of_every_sink_have_all_their_values() -> None:
    page = read("docs/sinks/index.md")
    rows = dict(re.findall(r"^\| `(start|max_backlog|when_full|on_rejected)` \| (.*) \|$", page, re.MULTILINE))
    for option in ("start", "when_full", "on_rejected"):
        [line] = re.findall(rf"^ +#{option}: (.*)$", REFERENCE, re.MULTILINE)
        words = set(re.findall(r"[a-z]+", line)) - {"or"}
        assert words <= set(re.findall(r"`(\w+)`", rows[option])), option
    assert set(re.findall(r"`(\w+)`", rows["max_backlog"])) == {"records", "bytes", "age"}


def test_options_in_pages_for_developers_exist() -> None:
    found = [each for each in code_spans(*FOR_DEVELOPERS) if re.fullmatch(r"[a-z_]+: [a-z]+", each)]

    assert found
    for option, value in (each.split(": ") for each in found if not each.startswith(("evidence: ", "op: "))):
        assert re.search(rf"\b{option}\b", REFERENCE), option
        assert value in REFERENCE, f"{option}: {value}"


# ── Sinks and events ─────────────────────────────────────────────────────────


def test_the_table_of_sinks_has_every_built_in_type() -> None:
    built_in = {name for name in registry.types() if name in ("kafka", "nats", "webhook", "file")}
    assert len(built_in) == 4
    assert built_in <= set(re.findall(r"^\| \[`(\w+)`\]", read("docs/sinks/index.md"), re.MULTILINE))


def test_every_type_of_notice_is_documented() -> None:
    types = {each for each in code_spans("docs/events.md") if each.startswith("kubedelta.") and each.endswith(".v1")}
    assert types == {GAP_TYPE, TERM_TYPE, *SNAPSHOT_TYPES.values()}
