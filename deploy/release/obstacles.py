"""Reasons against a release."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from deploy.release.notes import Notes

_DIGEST = re.compile(r".+@sha256:[0-9a-f]{64}")


def version_of(folder: Path) -> str:
    """That of the project in this folder."""
    version: str = _project(folder)["version"]
    return version


def urls_of(folder: Path) -> dict[str, str]:
    """The addresses of the project in this folder; none until it has them."""
    urls: dict[str, str] = _project(folder).get("urls", {})
    return urls


def _project(folder: Path) -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    return project


def wrong_versions(root: Path, version: str) -> Iterator[str]:
    """Files that name another version than the project's, each in words."""
    chart = yaml.safe_load((root / "deploy/chart/Chart.yaml").read_text())
    [image] = yaml.safe_load((root / "deploy/kustomization.yaml").read_text())["images"]
    [label] = re.findall(r'image\.version="([^"]*)"', (root / "Dockerfile").read_text())
    named = {
        "reader/pyproject.toml: version": version_of(root / "reader"),
        "deploy/chart/Chart.yaml: version": chart["version"],
        "deploy/chart/Chart.yaml: appVersion": chart["appVersion"],
        "deploy/kustomization.yaml: newTag": image["newTag"],
        "Dockerfile: org.opencontainers.image.version": label,
    }
    for place, found in named.items():
        if found != version:
            yield f"{place} is {found}, the version of pyproject.toml is {version}"


def unsigned(key: Path | None) -> Iterator[str]:
    """Reasons why the checksums cannot be signed with this key, each in words."""
    if key is None:
        return
    if not key.is_file():
        yield f"SIGN: there is no key {key}: name an SSH key, or the public half of one in ssh-agent"
    if shutil.which("ssh-keygen") is None:
        yield "SIGN: no ssh-keygen on PATH"


def unfinished(root: Path, notes: Notes, base: str) -> Iterator[str]:
    """Reasons that a trial may ignore, each in words. ``base`` is the image that the release is built on."""
    if not notes.is_released:
        yield f"CHANGELOG.md: {notes.version} is {notes.when}: write the day in its heading, as (YYYY-MM-DD)"
    status = ["git", "status", "--porcelain"]
    if subprocess.run(status, cwd=root, capture_output=True, text=True, check=True).stdout.strip():
        yield "git: there are changes that are not committed"
    if missing := {"Homepage", "Source"} - urls_of(root).keys():
        yield f"pyproject.toml: project.urls has no {' and no '.join(sorted(missing))}: name site and repository"
    if not _DIGEST.fullmatch(base):
        named = base or "the tag of the Dockerfile"
        yield f"BASE is {named}: name the base by its digest, as python:3.13-slim-trixie@sha256:…"
