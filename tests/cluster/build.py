"""Builds the servers, once per version, into the user's cache folder. `python -m tests.cluster.build` builds all."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.recipes import ALL, Group, Recipe

OLDEST_JAVA = 17
"""Kafka 4 brokers run on nothing older."""


@dataclass(frozen=True, slots=True)
class Built:
    """A folder of the cache that holds what the recipe makes."""

    recipe: Recipe
    folder: Path
    seconds: float
    """How long the build took; 0 when it was there."""


@dataclass(frozen=True, slots=True)
class ToolchainMissing:
    """This machine cannot build or run the servers of the group."""

    group: Group
    reason: str


@dataclass(frozen=True, slots=True)
class BuildFailed:
    """The toolchain is there and said no."""

    recipe: Recipe
    reason: str
    """The command, where it ran, and the last lines that it wrote."""


Outcome = Built | ToolchainMissing | BuildFailed


def cache_folder() -> Path:
    """Where builds are kept: `$XDG_CACHE_HOME/kubedelta-testbed`, by default under `~/.cache`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "kubedelta-testbed"


def find(recipe: Recipe) -> Path | None:
    """The folder of an earlier build."""
    folder = cache_folder() / recipe.folder_name
    return folder if folder.is_dir() else None


def provide(recipe: Recipe, say: Callable[[str], None]) -> Outcome:
    """Find the recipe's build or make it. Two processes that ask at once build once."""
    if missing := toolchain_missing(recipe):
        return missing
    if folder := find(recipe):
        return Built(recipe, folder, seconds=0)
    with _only_builder(recipe, say):
        if folder := find(recipe):
            return Built(recipe, folder, seconds=0)
        say(f"building {recipe.name} {recipe.version}: once, this may take minutes")
        return _build(recipe)


def toolchain_missing(recipe: Recipe) -> ToolchainMissing | None:
    """What this machine lacks to have the server. Go is not needed once the server is built, Java always is."""
    built = find(recipe) is not None
    match recipe.group:
        case Group.GO:
            reason = None if built else _go_missing(recipe)
        case Group.JAVA:
            reason = _java_missing() or (None if built or shutil.which("mvn") else "no mvn on PATH")
        case Group.IMAGE:
            reason = _image_missing(built=built)
        case Group.WHEEL:
            reason = None
    return None if reason is None else ToolchainMissing(recipe.group, reason)


def _go_missing(recipe: Recipe) -> str | None:
    if shutil.which("go") is None:
        return "no go on PATH"
    # Asked in the recipe's folder, an older Go either fetches the one that go.mod names or says that it may not.
    answer = subprocess.run(["go", "version"], cwd=recipe.sources[0].parent, capture_output=True, text=True)
    return None if answer.returncode == 0 else _last_lines(answer.stderr, 1)


def _java_missing() -> str | None:
    if shutil.which("java") is None:
        return "no java on PATH" if shutil.which("mvn") else "no java or mvn on PATH"
    answer = subprocess.run(["java", "-version"], capture_output=True, text=True)
    version = re.search(r'version "(\d+)', answer.stderr)
    if answer.returncode != 0 or version is None:
        return f"java -version failed: {_last_lines(answer.stderr, 1)}"
    return None if int(version[1]) >= OLDEST_JAVA else f"java is {version[1]}, Kafka needs {OLDEST_JAVA}"


def _image_missing(*, built: bool) -> str | None:
    if sys.platform != "linux" or os.geteuid() != 0:
        return "containers without an engine need Linux and root"
    programs = ("buildah", "runc") if built else ("buildah", "runc", "mmdebstrap")
    missing = [program for program in programs if shutil.which(program) is None]
    return f"no {', '.join(missing)} on PATH" if missing else None


@contextmanager
def _only_builder(recipe: Recipe, say: Callable[[str], None]) -> Iterator[None]:
    lock = cache_folder() / f"{recipe.folder_name}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another process builds {recipe.name} {recipe.version}: waiting for it")
            fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _build(recipe: Recipe) -> Built | BuildFailed:
    """Build aside and rename: a folder without `.partial` in its name is whole. The caller holds the lock."""
    for left_over in cache_folder().glob(f"{recipe.folder_name}.partial-*"):
        shutil.rmtree(left_over)
    aside = Path(tempfile.mkdtemp(prefix=f"{recipe.folder_name}.partial-", dir=cache_folder()))
    command = [part.format(out=aside) for part in recipe.command]
    where = recipe.sources[0].parent
    began = time.monotonic()
    ran = subprocess.run(
        command, cwd=where, env=os.environ | {"CGO_ENABLED": "0"}, capture_output=True, text=True, check=False
    )
    if ran.returncode != 0:
        shutil.rmtree(aside)
        said = _last_lines(ran.stdout + ran.stderr)
        return BuildFailed(recipe, f"`{' '.join(command)}` failed in {where}\n{said}")
    folder = aside.rename(cache_folder() / recipe.folder_name)
    return Built(recipe, folder, seconds=time.monotonic() - began)


def _last_lines(text: str, count: int = 20) -> str:
    return "\n".join(text.strip().splitlines()[-count:])


def main() -> int:
    """Build everything. 1 when something could not be had."""
    outcomes = [provide(recipe, print) for recipe in ALL]
    for recipe, outcome in zip(ALL, outcomes, strict=True):
        match outcome:
            case Built(_, folder, seconds):
                came = f"built in {seconds:.0f} s" if seconds else "was there"
                print(f"{recipe.name} {recipe.version}: {came}, {folder}")
            case ToolchainMissing(group, reason):
                print(f"{recipe.name} {recipe.version}: left out, {group} ({reason})")
            case BuildFailed(_, reason):
                print(f"{recipe.name} {recipe.version}: failed: {reason}")
    return 0 if all(isinstance(outcome, Built) for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
