"""Builds the load server, the peers and the counter of fsyncs into the user's cache folder, once for each change of
their sources."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent


class CannotBuild(Exception):
    """The text says what is missing, or the last lines of what the toolchain said."""


@dataclass(frozen=True, slots=True)
class Program:
    """What one folder of the cache is built from. `{out}` in a command stands for that folder, `{cache}` for all."""

    name: str
    needs: str
    """The tool that must be on PATH."""
    commands: tuple[tuple[str, ...], ...]
    """Run in the folder of the sources, one after the other."""

    @property
    def sources(self) -> Path:
        own = HERE / self.name
        return own if own.is_dir() else HERE / "peers" / self.name

    @property
    def folder_name(self) -> str:
        """`name-hash`: of the sources, their locks and the commands, so that what changed is built anew."""
        decides = hashlib.sha256(repr((self.commands, sys.version_info[:2], platform.machine())).encode())
        for file in sorted(self.sources.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                decides.update(str(file.relative_to(self.sources)).encode() + b"\0" + file.read_bytes())
        return f"{self.name}-{decides.hexdigest()[:12]}"


def _go(name: str, *packages: str) -> Program:
    build = ("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", "{out}/", *packages)
    return Program(name, "go", (build,))


LOAD = _go("load", ".")
CLIENT_GO = _go("client-go", "./dynamic", "./typed")
KUBE_RS = Program(
    "kube-rs",
    "cargo",
    (("cargo", "install", "--quiet", "--locked", "--path=.", "--root={out}", "--target-dir={cache}/cargo-target"),),
)
PYTHON_CLIENT = Program(
    "python",
    sys.executable,
    (
        (sys.executable, "-m", "venv", "{out}"),
        (
            "{out}/bin/pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--require-hashes",
            "-r",
            "requirements.txt",
        ),
    ),
)

FSYNCS = Program("fsyncs", "cc", (("cc", "-shared", "-fPIC", "-O2", "-o", "{out}/fsyncs.so", "fsyncs.c", "-ldl"),))

ALL = (LOAD, CLIENT_GO, KUBE_RS, PYTHON_CLIENT, FSYNCS)


def cache_folder() -> Path:
    """`$XDG_CACHE_HOME/kubedelta-benchmarks`, by default under `~/.cache`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "kubedelta-benchmarks"


def provide(program: Program, say: Callable[[str], None]) -> Path:
    """The folder with what was built; found, or built now. Raises CannotBuild."""
    folder = cache_folder() / program.folder_name
    if folder.is_dir():
        return folder
    if shutil.which(program.needs) is None:
        raise CannotBuild(f"no {program.needs} on PATH")
    say(f"building {program.name}: once, this may take minutes")
    cache_folder().mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f"{program.name}.partial-", dir=cache_folder()))
    # A virtual environment knows its own place, so it is built where it stays; a failed build leaves no folder.
    place = folder if program is PYTHON_CLIENT else aside
    try:
        for command in program.commands:
            _run([part.format(out=place, cache=cache_folder()) for part in command], program.sources)
    except CannotBuild:
        shutil.rmtree(place)
        raise
    finally:
        if place is folder:
            shutil.rmtree(aside)
    return folder if place is folder else aside.rename(folder)


def _run(command: list[str], where: Path) -> None:
    ran = subprocess.run(
        command, cwd=where, env=os.environ | {"CGO_ENABLED": "0"}, capture_output=True, text=True, check=False
    )
    if ran.returncode != 0:
        last = "\n".join((ran.stdout + ran.stderr).strip().splitlines()[-20:])
        raise CannotBuild(f"`{' '.join(command)}` failed in {where.relative_to(HERE.parent)}\n{last}")
