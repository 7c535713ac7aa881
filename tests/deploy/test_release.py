"""A release is refused while something is unfinished, and is made by one command."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import yaml

from deploy.release.artefacts import Release
from deploy.release.chart import ICON, published
from deploy.release.engines import ENGINES, archive_format, build_image, engine_of
from deploy.release.notes import Notes, notes_of
from deploy.release.obstacles import unfinished, unsigned, urls_of, version_of, wrong_versions
from deploy.release.provenance import predicate
from tests.cluster.recipes import PLATFORM
from tests.deploy.helm import ROOT
from tests.deploy.image import Buildah
from tests.deploy.registry import Registry
from tests.kit.deadlines import BUSY

VERSION = version_of(ROOT)
BASE = f"python:3.13-slim-trixie@sha256:{'0' * 64}"
CHANGELOG = """\
# Changes

Newest first.

## 0.2.0 (2026-12-01)

### Sinks

- A new sink.

## 0.1.0 (unreleased)

- The first.

## 0.0.9 (2026-10-01)
"""


# ── Notes ────────────────────────────────────────────────────────────────────


def test_notes_are_the_section_of_the_version() -> None:
    assert notes_of(CHANGELOG, "0.2.0") == Notes("0.2.0", "2026-12-01", "### Sinks\n\n- A new sink.\n")
    assert notes_of(CHANGELOG, "0.1.0").text == "- The first.\n"
    assert [notes_of(CHANGELOG, each).is_released for each in ("0.2.0", "0.1.0")] == [True, False]


def test_a_version_without_notes_is_refused() -> None:
    with pytest.raises(LookupError, match=r"no section '## 0\.3\.0 \(YYYY-MM-DD\)'"):
        notes_of(CHANGELOG, "0.3.0")
    with pytest.raises(LookupError):
        notes_of(CHANGELOG, "0.2")
    with pytest.raises(ValueError, match=r"section of 0\.0\.9 is empty"):
        notes_of(CHANGELOG, "0.0.9")


# ── Obstacles ────────────────────────────────────────────────────────────────


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree of its own with the project's addresses, committed."""
    folder = tmp_path / "tree"
    for name in (
        "pyproject.toml",
        "reader/pyproject.toml",
        "Dockerfile",
        "deploy/chart/Chart.yaml",
        "deploy/kustomization.yaml",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    project = (folder / "pyproject.toml").read_text()
    urls = "[project.urls]\nHomepage = 'https://docs.test/'\nSource = 'https://git.test/kubedelta'\n\n[project.scripts]"
    (folder / "pyproject.toml").write_text(project.replace("[project.scripts]", urls))
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.test")
    for words in (("init", "-q"), ("add", "."), (*identity, "commit", "-qm", "all")):
        subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, timeout=60)
    return folder


def test_this_tree_names_a_single_version() -> None:
    assert list(wrong_versions(ROOT, VERSION)) == []
    assert notes_of((ROOT / "CHANGELOG.md").read_text(), VERSION).text


@pytest.mark.parametrize(
    "file", ["Dockerfile", "reader/pyproject.toml", "deploy/kustomization.yaml", "deploy/chart/Chart.yaml"]
)
def test_a_file_with_another_version_is_named(tree: Path, file: str) -> None:
    text = (tree / file).read_text()
    (tree / file).write_text(text.replace(VERSION, "9.9.9"))
    reasons = list(wrong_versions(tree, VERSION))
    assert reasons
    assert all(reason.startswith(file) and "9.9.9" in reason and VERSION in reason for reason in reasons)


def test_a_finished_tree_has_no_obstacle(tree: Path) -> None:
    assert list(unfinished(tree, Notes(VERSION, "2026-12-01", "x"), BASE)) == []


def test_every_obstacle_is_named(tree: Path) -> None:
    (tree / "Dockerfile").write_text("")
    (tree / "pyproject.toml").write_text("[project]\nversion = '1'\n")
    reasons = list(unfinished(tree, Notes(VERSION, "unreleased", "x"), "python:3.13-slim-trixie"))
    assert [reason.partition(":")[0] for reason in reasons] == [
        "CHANGELOG.md",
        "git",
        "pyproject.toml",
        "BASE is python",
    ]


# ── The chart, and what the image was made of ────────────────────────────────


def test_the_published_chart_has_the_addresses_and_the_changes(tree: Path) -> None:
    text = (ROOT / "deploy/chart/Chart.yaml").read_text()
    bullets = (
        "- **Kafka**: [keys](docs/sinks/kafka.md), and\n  `tombstones`.\n- `kubedelta[otel]`; [a page](docs/page.md).\n"
    )
    notes = Notes(VERSION, "2026-12-01", f"### Sinks\n\n{bullets}")
    chart = yaml.safe_load(published(text, notes, urls_of(tree)))

    assert [chart["home"], chart["sources"]] == ["https://docs.test", ["https://git.test/kubedelta"]]
    assert chart["icon"] == f"https://docs.test/{ICON}"
    assert (ROOT / ICON).is_file()
    changes = yaml.safe_load(chart["annotations"].pop("artifacthub.io/changes"))
    assert changes == ["Kafka: keys, and tombstones.", "kubedelta[otel]; a page."]
    own = yaml.safe_load(text)
    assert {name: chart[name] for name in own} == own


def test_provenance_names_the_commit_and_the_base() -> None:
    made_of = predicate(VERSION, "c0ffee", BASE, "linux/amd64,linux/arm64", "https://git.test/kubedelta")
    assert made_of["buildDefinition"]["resolvedDependencies"] == [
        {"uri": "git+https://git.test/kubedelta", "digest": {"gitCommit": "c0ffee"}},
        {"uri": "docker://python:3.13-slim-trixie", "digest": {"sha256": "0" * 64}},
    ]
    assert made_of["buildDefinition"]["externalParameters"]["platforms"] == "linux/amd64,linux/arm64"
    assert len(predicate(VERSION, "c0ffee", "", "", "")["buildDefinition"]["resolvedDependencies"]) == 1


# ── The image ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("base", ["", BASE])
def test_each_engine_builds_on_the_base_and_saves(engine: str, base: str, tmp_path: Path) -> None:
    ran: list[list[str]] = []
    archive = tmp_path / "image.tar"
    archive.write_text("of an earlier release")
    build_image(engine, "kubedelta:1", base, "", archive, lambda command: ran.append(list(command)))
    build, save = ran
    assert build[0] == save[0] == engine
    assert build[-3:] == ["--tag", "kubedelta:1", "."]
    assert (f"BASE={base}" in build) is bool(base)
    assert str(archive) in " ".join(save)
    assert not archive.exists()
    assert archive_format(engine, "") == ("docker-archive" if engine == "docker" else "oci-archive")


@pytest.mark.parametrize("engine", ENGINES)
def test_each_engine_builds_for_several_platforms_into_one_archive(engine: str, tmp_path: Path) -> None:
    ran: list[str] = []
    archive = tmp_path / "image.tar"
    platforms = "linux/amd64,linux/arm64"
    build_image(engine, "kubedelta:1", BASE, platforms, archive, lambda command: ran.append(" ".join(command)))
    assert f"--platform {platforms} --build-arg BASE={BASE} " in ran[0]
    assert ran[0].endswith(" .")
    assert str(archive) in ran[-1]
    assert all(command.startswith(f"{engine} ") for command in ran)
    assert archive_format(engine, platforms) == "oci-archive"


def test_an_archive_has_no_image_of_an_earlier_build(image_base_build: Path, tmp_path: Path) -> None:
    """Nor does an image of one platform, which has the same name, stand in the way."""
    folder, archive = tmp_path / "tree", tmp_path / "image.tar"
    environ = Buildah(tmp_path / "images").environ
    folder.mkdir()
    (folder / "Dockerfile").write_text("FROM scratch\nCOPY file /file\n")

    def run(command: Sequence[str]) -> None:
        subprocess.run(command, cwd=folder, env=environ, capture_output=True, timeout=60 * BUSY, check=True)

    for platforms in ("", "linux/amd64,linux/arm64", "linux/amd64,linux/arm64"):
        (folder / "file").write_text(secrets.token_hex())
        build_image("buildah", "kubedelta:1", "", platforms, archive, run)
    with tarfile.open(archive) as image:
        [index] = json.load(image.extractfile("index.json"))["manifests"]  # type: ignore[arg-type]
        blob = image.extractfile(f"blobs/{index['digest'].replace(':', '/')}")
        assert blob is not None
        images = json.load(blob)["manifests"]
    assert sorted(each["platform"]["architecture"] for each in images) == ["amd64", "arm64"]


def test_an_engine_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LookupError, match="ENGINE: no docker, podman, buildah on PATH"):
        engine_of("")
    (tmp_path / "podman").write_text("#!/bin/sh\n")
    (tmp_path / "podman").chmod(0o755)
    assert engine_of("") == "podman"
    with pytest.raises(LookupError, match="ENGINE: no docker on PATH"):
        engine_of("docker")


# ── Signed checksums ─────────────────────────────────────────────────────────


@pytest.fixture
def made(tmp_path: Path) -> Release:
    """A release whose files were made."""
    release = Release(Notes(VERSION, "2026-12-01", "x"), tmp_path, tmp_path / "dist")
    release.dist.mkdir()
    for file in release.files:
        file.write_text(file.name)
    return release


def _verified(dist: Path) -> bool:
    """By the commands of SECURITY.md."""
    verify, check = re.findall(
        r"^    (ssh-keygen -Y verify .*|sha256sum .*)$", (ROOT / "SECURITY.md").read_text(), re.MULTILINE
    )
    return all(
        subprocess.run(command, shell=True, cwd=dist, capture_output=True, timeout=60, check=False).returncode == 0
        for command in (verify, check)
    )


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="there is no ssh-keygen")
def test_signed_checksums_are_verified_as_documented(made: Release, tmp_path: Path) -> None:
    key = tmp_path / "key"
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True, capture_output=True, timeout=60
    )
    public = key.with_suffix(".pub").read_text().split()
    (made.dist / "signers").write_text(f"releases {public[0]} {public[1]}\n")
    assert list(unsigned(key)) == []
    for _ in range(2):  # The second release replaces the files of the first.
        made.write_checksums(key)
        assert _verified(made.dist)

    sums = made.dist / "SHA256SUMS"
    content = sums.read_text()
    sums.write_text(content.replace("0", "1"))
    assert not _verified(made.dist)
    sums.write_text(content)
    made.notes_file.write_text("another")
    assert not _verified(made.dist)
    made.write_checksums(None)
    assert not (made.dist / "SHA256SUMS.sig").exists(), "no signature of other checksums stays"


def test_a_key_that_cannot_sign_is_an_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert list(unsigned(None)) == []
    assert [reason.partition(" ")[0] for reason in unsigned(tmp_path / "missing")] == ["SIGN:", "SIGN:"]


# ── make release ─────────────────────────────────────────────────────────────


def _make(environ: Mapping[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", "--no-print-directory", "release", *words],
        cwd=ROOT,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


def test_an_unfinished_release_is_refused_and_nothing_is_made(tmp_path: Path) -> None:
    (tmp_path / "docker").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "docker").chmod(0o755)
    dist = tmp_path / "dist"
    refused = _make({"PATH": f"{tmp_path}:{os.environ['PATH']}"}, f"DIST={dist}", "ENGINE=docker", "BASE=python:3.13")
    assert refused.returncode != 0
    assert "no release: BASE is python:3.13: name the base by its digest" in refused.stderr
    assert not dist.exists()


@pytest.fixture(scope="module")
def trial(
    helm_build: Path, image_environ: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, list[str]]:
    """The folder of a release that was made, and the commands that would publish it."""
    dist = tmp_path_factory.mktemp("release") / "dist"
    tools = (f"HELM={helm_build / 'helm'}", "ENGINE=buildah", f"PLATFORMS={PLATFORM}")
    made = _make(image_environ, f"DIST={dist}", *tools, "ARGS=--trial")
    assert made.returncode == 0, made.stdout[-3000:] + made.stderr[-3000:]
    _, uploads = made.stdout.split("nothing was uploaded. To publish it:\n")
    return dist, uploads.splitlines()


def test_a_release_is_made_up_to_the_upload(trial: tuple[Path, list[str]]) -> None:
    dist, uploads = trial
    sums = dict(line.split("  ")[::-1] for line in (dist / "SHA256SUMS").read_text().splitlines())
    assert {file.name for file in dist.iterdir()} == {"SHA256SUMS", *sums}
    assert sums == {name: hashlib.sha256((dist / name).read_bytes()).hexdigest() for name in sums}

    with zipfile.ZipFile(dist / f"kubedelta-{VERSION}-py3-none-any.whl") as wheel:
        assert "bridge/cli/__init__.py" in wheel.namelist()
        page = {f"bridge/app/page/static/{file.name}" for file in (ROOT / "bridge/app/page/static").iterdir()}
        assert page <= set(wheel.namelist())
    with tarfile.open(dist / f"kubedelta-{VERSION}.tgz") as packed:
        chart = packed.extractfile("kubedelta/Chart.yaml")
        assert chart is not None
        described = yaml.safe_load(chart)
        assert described["version"] == VERSION
        assert len(yaml.safe_load(described["annotations"]["artifacthub.io/changes"])) > 10
        assert "kubedelta/README.md" in packed.getnames()
        assert "kubedelta/values.schema.json" in packed.getnames()
    with tarfile.open(dist / f"kubedelta-{VERSION}-image.tar") as image:
        index = image.extractfile("index.json")
        assert index is not None
        [manifest] = json.load(index)["manifests"]
        assert manifest["annotations"]["org.opencontainers.image.ref.name"] == f"kubedelta:{VERSION}"
    assert json.loads((dist / "sbom.cdx.json").read_text())["metadata"]["component"]["version"] == VERSION
    assert (dist / "NOTES.md").read_text() == notes_of((ROOT / "CHANGELOG.md").read_text(), VERSION).text

    assert [line.split()[0] for line in uploads] == ["uv", "skopeo", "helm", *["cosign"] * 3]
    for name in (f"kubedelta-{VERSION}-py3-none-any.whl", f"kubedelta-{VERSION}.tgz", f"kubedelta-{VERSION}-image.tar"):
        assert str(dist / name) in "\n".join(uploads)


@pytest.mark.skipif(shutil.which("skopeo") is None, reason="there is no skopeo")
def test_a_registry_has_what_the_printed_commands_upload(
    trial: tuple[Path, list[str]], helm_build: Path, registry_build: Path, tmp_path: Path
) -> None:
    dist, uploads = trial
    path = f"{helm_build}:{os.environ['PATH']}"
    with Registry(tmp_path / "registry", registry_build) as registry:

        def run(command: str) -> str:
            ran = subprocess.run(
                command.replace("REGISTRY", registry.address),
                shell=True,
                cwd=tmp_path,
                env={**registry.environ, "PATH": path},
                capture_output=True,
                text=True,
                timeout=120 * BUSY,
                check=False,
            )
            assert ran.returncode == 0, f"{command}: {ran.stderr}"
            return ran.stdout

        for command in uploads:
            if command.split()[0] in ("skopeo", "helm"):
                run(command)
        image = f"docker://REGISTRY/kubedelta:{VERSION}"
        made = f"oci-archive:{dist / f'kubedelta-{VERSION}-image.tar'}"
        assert run(f"skopeo inspect --raw {image}") == run(f"skopeo inspect --raw {made}")
        run(f"skopeo copy --all {image} dir:pulled")  # Which compares every blob with its digest.
        run(f"helm pull oci://REGISTRY/charts/kubedelta --version {VERSION}")
    chart = f"kubedelta-{VERSION}.tgz"
    assert (tmp_path / chart).read_bytes() == (dist / chart).read_bytes()
