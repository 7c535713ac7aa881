"""The configuration of a command line without ``-c``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bridge.cli import arguments, main
from bridge.cli.arguments import Completes
from bridge.cli.completion import names_in
from bridge.cli.exits import Exit
from tests.kit.commands import in_a_process
from tests.kit.configurations import a_config


def a_config_in(folder: Path, **sections: Any) -> Path:
    """With a sink of the folder's name."""
    folder.mkdir(exist_ok=True)
    return a_config(folder, sink=folder.name, **sections)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and no file of the machine."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    etc = str(tmp_path / "etc" / "kubedelta.yaml")
    monkeypatch.setattr(arguments, "PLACES", (arguments.PLACES[0], etc))
    return here


def checked(capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["check", "--offline"]) == Exit.OK
    return capsys.readouterr().out


def test_the_variable_comes_before_the_folder_and_etc(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    etc = a_config_in(tmp_path / "etc")
    assert str(etc) in checked(capsys)
    assert names_in(None, Completes.SINKS) == ["etc"]
    a_config_in(here)
    assert "ok          kubedelta.yaml" in checked(capsys)
    assert names_in(None, Completes.SINKS) == ["here"]
    named = a_config_in(tmp_path / "named")
    monkeypatch.setenv("KUBEDELTA_CONFIG", str(named))
    assert str(named) in checked(capsys)
    assert names_in(None, Completes.SINKS) == ["named"], "a shell completes the names of the file that would be taken"


def test_a_missing_file_of_the_variable_is_not_replaced(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    a_config_in(here)
    monkeypatch.setenv("KUBEDELTA_CONFIG", "missing.yaml")
    assert main(["check", "--offline"]) == Exit.CONFIG
    said = capsys.readouterr().err
    assert "missing.yaml: cannot be read" in said
    assert "missing.yaml (from KUBEDELTA_CONFIG)" in said


def test_a_command_that_fails_names_the_file_that_nobody_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = a_config_in(here, x=1)
    assert main(["check", "--offline"]) == Exit.CONFIG
    assert "kubedelta.yaml (the default); -c names another" in capsys.readouterr().err
    assert main(["check", "--offline", "-c", str(path)]) == Exit.CONFIG
    assert "-c names another" not in capsys.readouterr().err


@pytest.mark.parametrize("words", [["run"], ["cursors"], ["tail"], ["sinks", "pause", "hook"], ["status"]])
def test_without_any_file_all_places_are_named(
    here: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == Exit.USAGE
    said = capsys.readouterr().err
    assert "KUBEDELTA_CONFIG is not set" in said
    assert "-c" in said


def test_a_run_logs_the_file_and_prints_nothing_beside_its_log(tmp_path: Path) -> None:
    path = a_config_in(tmp_path, x=1)
    ended = in_a_process("run", environ={"KUBEDELTA_CONFIG": str(path)})
    assert ended.code == Exit.CONFIG
    logged = [json.loads(line) for line in ended.err.splitlines()]
    assert str(path) in str(logged[0])
