"""Completion in the real shells, with the scripts that ``kubedelta completion`` prints."""

from __future__ import annotations

import argparse
import os
import pty
import re
import select
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.cli.arguments import Completes
from bridge.cli.command_line import build_parser
from bridge.cli.completion import names_in
from bridge.cli.exits import Exit
from tests.bridge.cli.conftest import Command
from tests.kit.deadlines import BUSY

CONFIG = """
resources: [pods, {name: deployments.apps, namespaces: [shop]}]
sinks:
  audit: {type: file, path: x}
  hook: {type: webhook}
  $(touch pwned): {type: file}
"""
LINES = {
    "kubedelta re": ["reload", "replay", "restore"],
    "kubedelta dead-letters ": ["drop", "list", "retry", "show"],
    "kubedelta dead-letters list ": ["audit", "hook"],
    "kubedelta dead-letters list -c other.yaml ": ["elsewhere"],
    "kubedelta sinks pause h": ["hook"],
    "kubedelta verify --limit 3 a": ["audit"],
    "kubedelta replay audit --resource ": ["deployments.apps", "pods"],
    "kubedelta replay --resource pods ": ["audit", "hook"],
    "kubedelta top --sort ": ["errors", "lag", "name", "rate"],
    "kubedelta top --o": ["--once"],
    "kubedelta run -c ot": ["other.yaml"],
    "kubedelta tail a": ["audit"],
    "kubedelta completion ": ["bash", "fish", "zsh"],
    "kubedelta verify --limit ": [],
}
"""The line before the cursor → the offered words."""
BASH = """
COMP_WORDS=({words} {last})
COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
_shtab_kubedelta
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Has a configuration, and the program under its name."""
    folder = tmp_path_factory.mktemp("shell")
    (folder / "kubedelta.yaml").write_text(CONFIG)
    (folder / "other.yaml").write_text("sinks: {elsewhere: {}}")
    (folder / "bin").mkdir()
    program = folder / "bin" / "kubedelta"
    root = Path(__file__).parents[3]
    program.write_text(f'#!/bin/sh\nPYTHONPATH={root} exec {sys.executable} -m bridge "$@"\n')
    program.chmod(0o755)
    for shell in ("bash", "zsh", "fish"):
        script = subprocess.run([program, "completion", shell], capture_output=True, check=True, timeout=60 * BUSY)
        (folder / f"kubedelta.{shell}").write_bytes(script.stdout)
    return folder


def environ(folder: Path) -> dict[str, str]:
    return {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "HOME": str(folder), "TERM": "dumb"}


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_words_are_offered_where_they_belong(folder: Path, shell: str) -> None:
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"left out: there is no {shell} here")
    code = [f"source kubedelta.{shell}"]
    for line in LINES:
        *words, last = line.split(" ")
        of_bash = BASH.format(words=shlex.join(words), last=shlex.quote(last))
        code += [f"complete -C {shlex.quote(line)}" if shell == "fish" else of_bash, "echo ---"]
    command = [found, "--no-config" if shell == "fish" else "--norc", "-c", "\n".join(code)]
    ended = subprocess.run(
        command, cwd=folder, env=environ(folder), capture_output=True, text=True, timeout=60 * BUSY, check=True
    )
    assert ended.stderr == ""
    answers = ended.stdout.split("---\n")
    offered = [sorted(each.partition("\t")[0] for each in answer.splitlines() if each) for answer in answers]
    assert dict(zip(LINES, offered, strict=False)) == LINES
    assert not (folder / "pwned").exists()


class _Zsh:
    """An interactive zsh in a terminal."""

    def __init__(self, folder: Path) -> None:
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            os.chdir(folder)
            os.execve(shutil.which("zsh") or "", ["zsh", "-f", "-i"], environ(folder))
        self._until = time.monotonic() + 60 * BUSY
        self._shown = ""

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def read(self, expected: str) -> None:
        """Returns when the pattern was shown since the previous call."""
        while not (found := re.search(expected, self._shown)):
            ready, _, _ = select.select([self._terminal], [], [], max(0.0, self._until - time.monotonic()))
            assert ready, f"no {expected!r} in {self._shown!r}"
            self._shown += os.read(self._terminal, 4096).decode(errors="replace")
        self._shown = self._shown[found.end() :]

    def close(self) -> None:
        os.close(self._terminal)
        os.kill(self._pid, 9)
        os.waitpid(self._pid, 0)


def test_zsh_completes_at_its_prompt(folder: Path) -> None:
    if shutil.which("zsh") is None:
        pytest.skip("left out: there is no zsh here")
    shell = _Zsh(folder)
    try:
        # Written so that the echo of this line is no prompt.
        shell.type("PROMPT='rea''dy> '; autoload -Uz compinit; compinit -u -D; eval \"$(<kubedelta.zsh)\"\n")
        shell.read("ready> ")
        for typed, completed in (
            ("kubedelta relo\t", "kubedelta reload "),
            ("kubedelta dead-letters sh\t", "show "),
            ("kubedelta sinks pause ho\t", "hook "),
            ("kubedelta replay audit --resource dep\t", r"deployments\.apps "),
            ("kubedelta top --sort la\t", "lag "),
            ("kubedelta top --onc\t", "--once "),
            ("kubedelta run -c oth\t", r"other\.yaml "),
        ):
            shell.type(typed)
            shell.read(completed)
            shell.type("\x15")  # Clears the line.
        shell.type("kubedelta s\t")
        shell.read("list the types of sinks")
    finally:
        shell.close()
    assert not (folder / "pwned").exists()


def test_every_value_with_a_name_is_completed_and_every_option_has_its_help() -> None:
    wanted = {"FILE": Completes.FILES, "SINK": Completes.SINKS, "R": Completes.RESOURCES}
    actions = list(all_actions(build_parser()))
    named = [action for action in actions if action.metavar in wanted]
    assert len(named) > 20
    for action in named:
        assert getattr(action, "completes", None) is wanted[str(action.metavar)], action.dest
    assert all(action.help for action in actions if action.option_strings)


def all_actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    yield from parser._actions
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from all_actions(below)


@pytest.mark.parametrize(
    "text",
    ["", "[", "sinks: [a]", "sinks: 3\nresources: {}", "resources: [3, {}, {name: 4}]", "a: &x [*x]", "\x00"],
)
async def test_a_wrong_configuration_offers_no_names(command: Command, tmp_path: Path, text: str) -> None:
    path = tmp_path / "kubedelta.yaml"
    path.write_text(text)
    for kind in ("sinks", "resources"):
        ended = await command("completion", "bash", "--names", kind, "--config", str(path))
        assert ended == (Exit.OK, "", "")
    assert names_in(str(tmp_path / "missing"), Completes.SINKS) == []
