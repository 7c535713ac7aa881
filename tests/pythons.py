"""Runs the room tests on each supported Python that this machine has. `python -m tests.pythons [pytest arguments]`.

The Python that runs this is left to `make test`. A version that is not found is printed as left out.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SUPPORTED = ("3.11", "3.12", "3.13", "3.14")
"""Tests compare with Dockerfile, pyproject.toml and docs/versions.md."""
LOCKS = ("requirements-build.txt", "requirements-dev.txt", "pyproject.toml", "reader/pyproject.toml")
ROOMS = ("tests/bridge", "tests/reader", "tests/sinks", "tests/config")
CHOICE = ("-m", "not soak and not long and not go and not java")


def main(arguments: list[str]) -> int:
    own = "{}.{}".format(*sys.version_info[:2])
    failed = False
    for version in SUPPORTED:
        python = None if version == own else find(version)
        if python is None:
            why = "is the one of make test" if version == own else "is not on this machine: left out"
            print(f"Python {version} {why}", flush=True)
            continue
        print(f"Python {version} ({python})", flush=True)
        command = [str(environment(version, python) / "bin/pytest"), "-q", *CHOICE, *ROOMS, *arguments]
        failed = subprocess.run(command, cwd=ROOT, check=False).returncode != 0 or failed
    return int(failed)


def find(version: str) -> Path | None:
    """An interpreter of that version which starts: from PATH, else from pyenv's folder."""
    for candidate in _candidates(version):
        asked = [str(candidate), "-c", "import sys; print('{}.{}'.format(*sys.version_info[:2]))"]
        answer = subprocess.run(asked, capture_output=True, text=True, check=False)
        if answer.stdout.strip() == version:
            return candidate
    return None


def _candidates(version: str) -> Iterator[Path]:
    if on_path := shutil.which(f"python{version}"):
        yield Path(on_path)
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from sorted(pyenv.glob(f"versions/{version}.*/bin/python"), reverse=True)


def environment(version: str, python: Path) -> Path:
    """A virtual environment with the locked dependencies, made anew when a lock file changed."""
    folder = ROOT / ".venv" / f"python-{version}"
    stamp = folder / "locked"
    digest = hashlib.sha256(b"".join((ROOT / name).read_bytes() for name in LOCKS)).hexdigest()
    if stamp.exists() and stamp.read_text() == digest:
        return folder
    subprocess.run([str(python), "-m", "venv", "--clear", str(folder)], check=True)
    uv = str(Path(sys.executable).with_name("uv"))
    install = [uv, "pip", "install", "--quiet", "--no-build-isolation", "--python", str(folder / "bin/python")]
    for lock in LOCKS[:2]:
        subprocess.run([*install, "--require-hashes", "-r", str(ROOT / lock)], check=True)
    subprocess.run([*install, "--no-deps", "-e", str(ROOT / "reader"), "-e", str(ROOT)], check=True)
    stamp.write_text(digest)
    return folder


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
