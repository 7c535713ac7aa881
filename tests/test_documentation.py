"""What the documents say is run, so that they cannot lie."""

from __future__ import annotations

import asyncio
import json
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from bridge.cli.exits import Exit
from bridge.cli.parser import parse
from bridge.kube import ClusterAccess
from bridge.model.formats.cloudevent import GAP_TYPE, SNAPSHOT_TYPES
from bridge.model.status import SinkState, SinkStatus, StatusSnapshot
from bridge.outbox.storage.database import open_writer
from bridge.playground import Playground
from bridge.telemetry import Metrics
from config.load import load
from config.reference import reference
from config.schema import Settings
from config.schema.shape import type_at
from sinks import registry
from tests.kit.bridge_process import BridgeProcess

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
CODE = sorted(set(re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", README, flags=re.DOTALL))))
TYPES = {name: kind.options for name, kind in registry.types().items()}
REFERENCE = reference(TYPES)


def _configuration() -> str:
    (found,) = re.findall(r"<<'END'\n(.*?)\n    END", README, re.DOTALL)
    return "\n".join(line[4:] for line in found.splitlines())


# ── What it says to run ──────────────────────────────────────────────────────


async def test_the_library_example_of_the_readme_lists_pods_by_index(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    script = tmp_path / "example.py"
    script.write_text(example, encoding="utf-8")
    main = runpy.run_path(str(script))["main"]

    async with Playground() as cluster:
        cluster.create("namespaces", {"metadata": {"name": "shop"}})
        for namespace in ("shop", "default"):
            metadata = {"name": f"{namespace}-web", "namespace": namespace, "labels": {"app": "web"}}
            containers = [{"name": "web", "image": "web"}]
            cluster.create("pods", {"metadata": metadata, "spec": {"containers": containers}})
        await main(ClusterAccess(server=cluster.url))

    printed = capsys.readouterr().out.splitlines()
    assert "shop-web {'app': 'web'}" in printed
    assert "added default/default-web" in printed
    assert not any(line.startswith("default-web") for line in printed), "another namespace is another index value"


def test_the_readmes_configuration_loads_and_its_folder_is_made(tmp_path: Path) -> None:
    path = tmp_path / "kubedelta.yaml"
    path.write_text(_configuration(), encoding="utf-8")

    settings = load(path, {}, TYPES)

    assert [entry.resource for entry in settings.resources] == ["pods", "deployments.apps"]
    assert f"mkdir {settings.state.directory.relative_to(tmp_path)} " in README


async def test_the_readmes_quick_start_delivers_and_survives_a_stop(
    tmp_path: Path,
) -> None:
    file = tmp_path / "kubedelta.yaml"
    file.write_text(_configuration(), encoding="utf-8")
    environ: dict[str, str] = {}

    async def kubedelta(*words: str) -> str:
        settings = [f"{name}={value}" for name, value in environ.items()]
        command = ["env", *settings, sys.executable, "-m", "bridge", *words, "-c", str(file)]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    async with Playground() as cluster:
        (tmp_path / "bridge").mkdir()
        environ["KUBEDELTA__CLUSTER__SERVER"] = cluster.url
        process = BridgeProcess(tmp_path / "bridge", file, environ=environ)
        environ["KUBEDELTA__STATE__DIRECTORY"] = str(process.state)
        await kubedelta("check")
        async with process.started() as bridge:
            spec = {"containers": [{"name": "web", "image": "web"}]}
            for name in ("web", "gone"):
                cluster.create("pods", {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
            await bridge.until("all is read", lambda now: now.value("records_committed_total") == 2)
            await bridge.until_delivered()
            assert "copy" in await kubedelta("cursors")
            await kubedelta("verify", "copy", "--settle", "5s")
            await asyncio.to_thread(bridge.stop)
            await kubedelta("state", "check")
            cluster.delete("pods", "gone")
            await asyncio.to_thread(bridge.start)
            await bridge.until("the delete is read", lambda now: now.value("records_committed_total") == 1)
            await bridge.until_delivered()

    events = [json.loads(line) for line in (tmp_path / "deltas.ndjson").read_text(encoding="utf-8").splitlines()]
    told = [(event["op"], event["data"]["metadata"]["name"]) for event in events if "op" in event]
    assert told == [("added", "web"), ("added", "gone"), ("deleted", "gone")]


# ── What it names ────────────────────────────────────────────────────────────


def _commands() -> Iterator[list[str]]:
    """Each command that the README has, in code or to be typed."""
    typed = re.findall(r"^    (?:\.venv/bin/)?(kubedelta [^|<>\n]+)", README, re.MULTILINE)
    for text in (*CODE, *typed):
        if found := re.search(r"(?:^|-- )kubedelta ((?:[a-z]|-c).*)$", text):
            yield found[1].split()


@pytest.mark.parametrize("words", list(_commands()), ids=" ".join)
def test_a_command_that_the_readme_names_is_understood(words: list[str]) -> None:
    stands_for = {"FILE": "x.yaml", "SINK": "copy", "START": "beginning", "NUMBER": "1"}
    given = [stands_for.get(word, word) for word in words]
    if given[0] == "dead-letters" and len(given) == 1:
        given.append("list")
    if given[0] in ("verify", "replay") and len(given) == 1:
        given += ["copy"]
    if given[0] == "replay" and "--from" not in given:
        given += ["--from", "beginning"]
    if given[0] == "sinks" and len(given) == 2:
        given.append("copy")
    if given[0] not in ("demo", "schema") and given != ["sinks"] and "-c" not in given:
        given += ["-c", "x.yaml"]
    parse(given)


def test_the_command_table_has_all_commands_and_real_options(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def helped(*words: str) -> str:
        with pytest.raises(SystemExit):
            parse([*words, "--help"])
        return capsys.readouterr().out

    rows = dict(re.findall(r"^\| `kubedelta ([a-z][a-z-]*(?: [a-z][a-z-]*)?)[^|`]*` \| (.*) \|$", README, re.MULTILINE))
    assert {name.split()[0] for name in rows} == set(re.findall(r"^    ([a-z-]+)(?: |$)", helped(), re.MULTILINE))
    for name, text in rows.items():
        group = name.split()[0]
        pages = helped(*name.split()) + (helped(group) if name != group else "")
        for action in re.findall(r"`(show|retry|drop) [A-Z]", text):
            pages += helped(group, action)
        for option in re.findall(r"`(--[a-z]+)", text):
            assert option in pages, f"{name} {option}"


def _is_option(text: str) -> bool:
    section, dot, _ = text.partition(".")
    own = re.fullmatch(r"[a-z]+(?:[._][a-z]+)+(?:: [a-z]+)?", text) and not text.startswith(("kubedelta_", "ce_"))
    return bool(own) and (not dot or section in Settings.model_fields)


@pytest.mark.parametrize("named", [each for each in CODE if _is_option(each)])
def test_an_option_in_the_readme_is_in_the_reference_with_it(named: str) -> None:
    option, _, value = named.partition(": ")
    *section, name = option.split(".")
    assert not section or type_at(Settings, (*section, name), {}) is not None
    part = re.search(rf"^{section[0]}:\n(?: .*\n|\n)*", REFERENCE, re.MULTILINE) if section else None
    [line] = re.findall(rf"^[ #-]*{name}:.*$", part[0] if part else REFERENCE, re.MULTILINE)
    boolean = ": true" in line or ": false" in line
    assert value in line or (boolean and value in ("true", "false"))


def test_options_of_every_sink_are_described_with_all_words() -> None:
    rows = dict(re.findall(r"^\| `(start|max_backlog|when_full|on_rejected)` \| (.*) \|$", README, re.MULTILINE))
    for option in ("start", "when_full", "on_rejected"):
        [line] = re.findall(rf"^ +#{option}: (.*)$", REFERENCE, re.MULTILINE)
        words = set(re.findall(r"[a-z]+", line)) - {"or"}
        assert words <= set(re.findall(r"`(\w+)`", rows[option])), option
    assert set(re.findall(r"`(\w+)`", rows["max_backlog"])) == {"records", "bytes", "age"}


def test_metrics_and_event_types_in_the_readme_exist() -> None:
    metrics = Metrics(version="0", failures={})
    metrics.expect_sinks("copy")
    sink = SinkStatus(name="copy", type="file", state=SinkState.IDLE)
    body, _ = metrics.render(StatusSnapshot(informers=(), sinks=(sink,), disk_free_bytes=1), "")
    exposed = set(re.findall(r"^(kubedelta_\w+)", body.decode(), re.MULTILINE))
    named = {each for each in CODE if each.startswith("kubedelta_")}
    assert named
    assert named <= exposed
    types = {each for each in CODE if each.startswith("kubedelta.") and each.endswith(".v1")}
    assert types == {GAP_TYPE, *SNAPSHOT_TYPES.values()}


def test_the_exit_codes_of_the_readme_are_those_there_are() -> None:
    [paragraph] = re.findall(r"^Exit codes: (.*?)\n\n", README, re.MULTILINE | re.DOTALL)
    assert {int(number) for number in re.findall(r"\b\d+\b", paragraph)} == set(Exit)


def test_the_cluster_command_finds_the_mounted_configuration() -> None:
    [path] = re.findall(r"`kubectl -n kubedelta exec .* -c (\S+)`", README)
    deployment = yaml.safe_load((ROOT / "deploy" / "deployment.yaml").read_text(encoding="utf-8"))
    assert deployment["spec"]["template"]["spec"]["containers"][0]["args"][-1] == path


def test_the_table_of_sinks_names_every_type_there_is() -> None:
    built_in = {"kafka", "nats", "webhook", "file"}
    assert built_in <= set(re.findall(r"^\| `(\w+)` \|", README, re.MULTILINE))


# ── Where it leads ───────────────────────────────────────────────────────────


def test_every_file_that_a_document_links_to_is_there() -> None:
    documents = [*sorted(ROOT.glob("*.md")), ROOT / "sinks/README.md"]
    assert {"README.md", "ARCHITECTURE.md", "SECURITY.md"} < {path.name for path in documents}
    for path in documents:
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", path.read_text(encoding="utf-8")):
            assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_makefile_commands_named_by_a_document_exist() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for document in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"):
        text = (ROOT / document).read_text(encoding="utf-8")
        named = set(re.findall(r"`make ([a-z0-9-]+)", text)) | set(
            re.findall(r"^    make ([a-z0-9-]+)", text, re.MULTILINE)
        )
        assert named <= targets, document


# ── The hot path ─────────────────────────────────────────────────────────────


def test_the_files_of_the_hot_path_exist_and_say_they_are_hot() -> None:
    section = (
        (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").split("## The hot path")[1].split("## Decisions")[0]
    )
    places = [place for row in section.splitlines() if row.startswith("| ") for place in re.findall(r"`(.+?)`", row)]
    files = [
        file
        for place in places
        if place != "sinks/*"
        for file in ROOT.glob(f"{place}.py" if place.startswith("sinks/") else f"bridge/{place}.py")
    ]
    assert len(files) >= len(places) > 10
    assert [
        str(file) for file in files if " Hot." not in file.read_text(encoding="utf-8").replace("\nHot.", " Hot.")
    ] == []


# ── What ARCHITECTURE says of the file ───────────────────────────────────────


def test_the_architectures_tables_are_those_of_the_database(tmp_path: Path) -> None:
    section = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").split("## The state on disk")[1]
    told = {
        table: set(columns.split(", "))
        for table, columns in re.findall(r"^\| `(\w+)` \| ([a-z_, ]+) \|", section, re.MULTILINE)
    }
    database = open_writer(tmp_path / "outbox.db")
    names = [row[0] for row in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    held = {
        name: {row[1] for row in database.execute(f"PRAGMA table_info({name})")}
        for name in names
        if not name.startswith("sqlite_")
    }

    assert told == held
    assert f"format {database.pragma('user_version')})" in section
    assert "WAL" in section
    assert database.pragma("journal_mode") == "wal"
    assert "synchronous=FULL" in section
    assert database.pragma("synchronous") == 2
    assert "4 KiB" in section
    assert database.pragma("page_size") == 4 * 1024


def test_the_options_that_the_architecture_names_exist() -> None:
    section = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").split("## The state on disk")[1]
    options = re.findall(r"`([a-z_]+): ([a-z]+)`", section.split("## Dependencies")[0])

    assert options
    for option, value in (each for each in options if each[0] != "evidence"):
        assert re.search(rf"\b{option}\b", REFERENCE), option
        assert value in REFERENCE, f"{option}: {value}"
