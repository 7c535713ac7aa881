"""No container engine is needed here: what the Dockerfile does is done with this machine's Python."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest

from tests.kit.deadlines import BUSY
from tests.pythons import SUPPORTED

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
INSTRUCTIONS = re.sub(r"\\\n\s*", " ", re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.MULTILINE)).splitlines()
STAGES = re.split(r"^(?=FROM )", DOCKERFILE, flags=re.MULTILINE)[1:]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
VERSION = PROJECT["project"]["version"]


def _arguments(instruction: str) -> list[list[str]]:
    return [line.split()[1:] for line in INSTRUCTIONS if line.startswith(f"{instruction} ")]


# ── The Dockerfile ───────────────────────────────────────────────────────────


def test_copied_files_exist_and_pass_dockerignore() -> None:
    sources = [source for words in _arguments("COPY") if "--from" not in words[0] for source in words[:-1]]
    assert set(PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]) <= set(sources)
    let_through = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert let_through == set(sources)
    assert [source for source in sources if not (ROOT / source).exists()] == []


def test_both_stages_have_a_python_of_the_room_tests() -> None:
    assert {words[0] for words in _arguments("FROM")} == {"${BASE}"}
    [[base]] = _arguments("ARG")
    version = re.fullmatch(r"BASE=python:(3\.\d+)-slim-\w+", base)
    assert version is not None
    assert version[1] in SUPPORTED
    assert PROJECT["project"]["requires-python"] == f">={SUPPORTED[0]}"


def test_dependencies_are_locked_and_checked_by_their_hashes() -> None:
    [run] = [line for line in INSTRUCTIONS if "-r requirements.txt" in line]
    for lock in ("requirements.txt", "requirements-build.txt"):
        [fetch] = [command for command in run.split("&&") if f"-r {lock}" in command]
        assert "--require-hashes" in fetch
        assert "--only-binary :all:" in fetch
    assert all("--no-index" in command for command in run.split("&&") if "pip " in command and "-r " not in command)


def test_no_build_fetches_what_is_not_locked() -> None:
    """A build in isolation installs the newest setuptools or hatchling, without a hash."""
    for file in (DOCKERFILE, (ROOT / "Makefile").read_text()):
        commands = re.split(r"&&|\n", re.sub(r"\\\n\s*", " ", file))
        builds = [command for command in commands if re.search(r"--no-binary| -e \.|pip wheel", command)]
        assert builds
        assert all("--no-build-isolation" in command for command in builds)
    locked = (ROOT / "requirements-build.txt").read_text()
    for name in ("hatchling", "setuptools"):
        assert re.search(rf"^{name}==\S+ \\\n +--hash=sha256:", locked, re.MULTILINE)


def test_the_last_stage_fetches_nothing_and_has_no_pip() -> None:
    runs = [line for line in re.sub(r"\\\n\s*", " ", STAGES[-1]).splitlines() if line.startswith("RUN ")]
    assert all("uninstall" in run for run in runs if "pip" in run)
    assert not re.search(r"apt-get|curl|wget|pip install", STAGES[-1])


def test_the_image_runs_as_non_root_and_writes_nothing() -> None:
    assert _arguments("USER") == [["65532:65532"]]
    assert "PYTHONDONTWRITEBYTECODE=1" in STAGES[-1]
    assert "compileall" in STAGES[0]
    assert _arguments("ENTRYPOINT") == [['["kubedelta"]']]
    assert _arguments("STOPSIGNAL") == [["SIGTERM"]]


# ── What is installed ────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the wheels of the reader library and of kubedelta."""
    folder = tmp_path_factory.mktemp("wheels")
    options = ["--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
    build = [sys.executable, "-m", "pip", "wheel", *options, "./reader", "."]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=120 * BUSY)
    return folder


def test_the_wheel_holds_the_four_packages_and_nothing_else(wheels: Path) -> None:
    packages = {"bridge", "sinks", "config", "kubedelta"}
    with zipfile.ZipFile(wheels / f"kubedelta-{VERSION}-py3-none-any.whl") as archive:
        names = archive.namelist()
        points = archive.read(f"kubedelta-{VERSION}.dist-info/entry_points.txt").decode()
    assert "kubedelta = bridge.cli:main" in points
    assert {name.partition("/")[0] for name in names} == {*packages, f"kubedelta-{VERSION}.dist-info"}
    assert {f"{name}/py.typed" for name in packages} <= set(names)
    assert "bridge/cli/__init__.py" in names
    assert "config/reference.yaml" in names
    assert not [name for name in names if "__pycache__" in name or "/test" in name]


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory, wheels: Path) -> Path:
    """The Python of an environment with the wheels and what requirements.txt locks: links to this environment's own."""
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder, with_pip=False)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    locked = re.findall(r"^([a-z0-9-]+)==", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    for name in locked:
        found = distribution(name)
        for top in {file.parts[0] for file in found.files or () if file.parts[0] not in ("..", "__pycache__")}:
            if not (site / top).exists():
                (site / top).symlink_to(Path(str(found.locate_file(top))))
    for wheel in wheels.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
    return folder / "bin" / "python"


def _run(python: Path, *arguments: str) -> str:
    ran = subprocess.run(
        [python, "-I", "-W", "error", *arguments],
        capture_output=True,
        timeout=60 * BUSY,
        check=False,
        cwd="/",
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_the_command_works_without_development_dependencies(clean: Path) -> None:
    assert _run(clean, "-m", "bridge", "--version") == f"kubedelta {VERSION}\n"
    commands = "from bridge.cli import main\nfor words in ['sinks'], ['schema'], ['--help']: main(words)"
    printed = _run(clean, "-c", commands)
    assert "\nfile " in printed
    assert "$schema" in printed
    assert "\nusage: kubedelta" in printed


WITHOUT_GRAMMARS = """
import runpy, sys
sys.modules["rfc3987_syntax"] = None
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_the_bill_of_materials_has_all_locked_dependencies(tmp_path: Path) -> None:
    [command] = re.findall(r"^\t\$\(BIN\)/(cyclonedx-py .*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    name, *arguments = command.replace("$(DIST)/", f"{tmp_path}/").split()
    program = str(Path(sys.executable).with_name(name))
    # It checks its bill by its schema; to check the form of URLs as well, it would compile a grammar for three seconds.
    made = [sys.executable, "-c", WITHOUT_GRAMMARS, program, *arguments]
    subprocess.run(made, cwd=ROOT, check=True, capture_output=True, timeout=120 * BUSY)

    bill = json.loads((tmp_path / "sbom.cdx.json").read_text())
    found = {component["name"]: component for component in bill["components"]}
    locked = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", (ROOT / "requirements.txt").read_text(), re.MULTILINE))
    assert {name: component["version"] for name, component in found.items()} == locked
    assert all(each["externalReferences"][0]["hashes"] for each in found.values())
    assert (bill["metadata"]["component"]["name"], bill["metadata"]["component"]["version"]) == ("kubedelta", VERSION)


def test_a_foreign_package_of_the_same_name_causes_a_warning(clean: Path, tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "__init__.py").write_text("")
    command = [str(clean), "-c", "import sys; sys.argv[1:] = ['--help']; from bridge.cli import main; main()"]
    ran = subprocess.run(command, capture_output=True, timeout=60 * BUSY, check=False, cwd=tmp_path, text=True)
    assert f"another package called config ({tmp_path / 'config'}) hides kubedelta's" in ran.stderr
    assert "called sinks" not in ran.stderr


def test_every_module_imports_without_development_dependencies(clean: Path) -> None:
    walk = """
import importlib, pkgutil
for top in ("bridge", "sinks", "config", "kubedelta"):
    for module in pkgutil.walk_packages(importlib.import_module(top).__path__, f"{top}."):
        if module.name != "bridge.__main__":
            importlib.import_module(module.name)
            print(module.name)
"""
    assert "bridge.http.listener" in _run(clean, "-c", walk).split()
