"""A version is built once, whole or not at all."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.cluster import recipes
from tests.cluster.build import BuildFailed, Built, ToolchainMissing, cache_folder, find, provide, toolchain_missing
from tests.cluster.recipes import Group, Recipe


@pytest.fixture(autouse=True)
def fresh_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is built, and there is a Go that agrees to everything."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    go = tmp_path / "go"
    go.write_text(f"#!{sys.executable}\n")
    go.chmod(0o755)


def recipe(folder: Path, code: str) -> Recipe:
    """A recipe whose compiler is Python. `{out}` is its first argument."""
    source = folder / "source"
    source.write_text("version 1")
    return Recipe("thing", "1", Group.GO, (source,), (sys.executable, "-c", code, "{out}"))


COUNTS = """
import sys, pathlib, time
with open("runs", "a") as runs:
    runs.write("built ")
time.sleep(0.2)
pathlib.Path(sys.argv[1], "binary").write_text("made")
"""


def test_two_that_ask_at_once_get_one_build(tmp_path: Path) -> None:
    thing = recipe(tmp_path, COUNTS)
    said: list[str] = []

    with ThreadPoolExecutor() as threads:
        outcomes = [*threads.map(lambda _: provide(thing, said.append), range(2))]

    assert all(isinstance(each, Built) and (each.folder / "binary").read_text() == "made" for each in outcomes)
    assert (tmp_path / "runs").read_text() == "built "
    assert sorted(said) == [
        "another process builds thing 1: waiting for it",
        "building thing 1: once, this may take minutes",
    ]


def test_a_failed_build_leaves_nothing_that_looks_built(tmp_path: Path) -> None:
    half = "import sys, pathlib; pathlib.Path(sys.argv[1], 'half').touch(); sys.exit('out of paper')"
    thing = recipe(tmp_path, half)

    outcome = provide(thing, print)

    assert isinstance(outcome, BuildFailed)
    assert outcome.reason.endswith("out of paper")
    assert find(thing) is None
    assert [each.suffix for each in cache_folder().iterdir()] == [".lock"]


def test_another_source_is_another_build(tmp_path: Path) -> None:
    thing = recipe(tmp_path, "pass")
    before = thing.folder_name

    (tmp_path / "source").write_text("version 2")

    assert thing.folder_name != before


def test_a_recipe_is_left_out_for_the_go_that_it_needs_itself(tmp_path: Path) -> None:
    says = "import os, sys; sys.exit('too old' if os.getcwd().endswith('new') else 0)"
    (tmp_path / "go").write_text(f"#!{sys.executable}\n{says}\n")
    for name in ("old", "new"):
        (tmp_path / name).mkdir()

    assert toolchain_missing(recipe(tmp_path / "old", "pass")) is None
    assert toolchain_missing(recipe(tmp_path / "new", "pass")) == ToolchainMissing(Group.GO, "too old")


@pytest.mark.parametrize("server", recipes.VERSIONS)
def test_the_environment_chooses_a_version_that_there_is(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    versions = recipes.VERSIONS[server]
    monkeypatch.delenv(server, raising=False)
    assert recipes.chosen(server) == next(iter(versions.values()))
    for version, what in versions.items():
        monkeypatch.setenv(server, version)
        assert recipes.chosen(server) == what
    monkeypatch.setenv(server, "0.9")
    with pytest.raises(LookupError, match=rf"{server} is 0\.9; the testbed has {next(iter(versions))}"):
        recipes.chosen(server)


def test_recipes_name_no_registry() -> None:
    """Modules are named, and where they come from is the machine's own business."""
    for each in recipes.ALL:
        for source in each.sources:
            text = source.read_text().replace("http://maven.apache.org/POM/4.0.0", "")
            assert "://" not in text
