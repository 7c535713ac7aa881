"""Builds the image into an archive with the engine of the machine."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

ENGINES = ("docker", "podman", "buildah")
Run = Callable[[Sequence[str]], None]


def engine_of(name: str) -> str:
    """The engine of this name; for an empty name the first engine on PATH. Raises LookupError."""
    for engine in (name,) if name else ENGINES:
        if shutil.which(engine):
            return engine
    raise LookupError(f"ENGINE: no {name or ', '.join(ENGINES)} on PATH")


def archive_format(engine: str) -> str:
    """The format that ``build_image`` writes, in the words of skopeo."""
    return "docker-archive" if engine == "docker" else "oci-archive"


def build_image(engine: str, image: str, base: str, archive: Path, run: Run) -> None:
    """Builds the folder in which ``run`` runs, on ``base`` or the Dockerfile's own, and saves it."""
    chosen = ("--build-arg", f"BASE={base}") if base else ()
    archive.unlink(missing_ok=True)
    match engine:
        case "buildah":
            run(["buildah", "bud", "--layers", *chosen, "--tag", image, "."])
            run(["buildah", "push", image, f"oci-archive:{archive}:{image}"])
        case "podman":
            run(["podman", "build", *chosen, "--tag", image, "."])
            run(["podman", "save", "--format", "oci-archive", "--output", str(archive), image])
        case _:
            run(["docker", "build", *chosen, "--tag", image, "."])
            run(["docker", "save", "--output", str(archive), image])
