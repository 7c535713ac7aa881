"""The files of a release."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deploy.release.chart import published
from deploy.release.engines import archive_format, build_image
from deploy.release.notes import Notes
from deploy.release.obstacles import urls_of
from deploy.release.provenance import predicate

CHECKSUMS = "SHA256SUMS"
SIGNATURE = f"{CHECKSUMS}.sig"
NAMESPACE = "kubedelta-release"
"""What the key signs, in the words of ssh-keygen: a signature of something else is none of a release."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """Programs that the release is made with."""

    helm: str
    engine: str
    """docker, podman or buildah."""
    base: str
    """The image's base; empty for the Dockerfile's own."""
    platforms: str = ""
    """Of the image, separated by commas; empty for the machine's own."""
    sign: Path | None = None
    """The SSH key that signs the checksums, or the public half of one in ssh-agent; None for no signature."""


@dataclass(frozen=True, slots=True)
class Release:
    """A version, from the tree ``root`` into the folder ``dist``."""

    notes: Notes
    root: Path
    dist: Path

    @property
    def version(self) -> str:
        return self.notes.version

    @property
    def image(self) -> str:
        return f"kubedelta:{self.version}"

    @property
    def wheel_file(self) -> Path:
        return self.dist / f"kubedelta-{self.version}-py3-none-any.whl"

    @property
    def reader_file(self) -> Path:
        return self.dist / f"kubedelta_reader-{self.version}-py3-none-any.whl"

    @property
    def chart_file(self) -> Path:
        return self.dist / f"kubedelta-{self.version}.tgz"

    @property
    def image_file(self) -> Path:
        return self.dist / f"kubedelta-{self.version}-image.tar"

    @property
    def bill_file(self) -> Path:
        return self.dist / "sbom.cdx.json"

    @property
    def provenance_file(self) -> Path:
        return self.dist / "provenance.json"

    @property
    def notes_file(self) -> Path:
        return self.dist / "NOTES.md"

    @property
    def files(self) -> tuple[Path, ...]:
        """All but the checksums and their signature."""
        made = (self.reader_file, self.wheel_file, self.chart_file, self.image_file)
        return *made, self.bill_file, self.provenance_file, self.notes_file

    def make(self, tools: Tools) -> None:
        """Makes every file anew, and the checksums of all, which it signs. Raises CalledProcessError."""
        self.dist.mkdir(parents=True, exist_ok=True)
        wheels = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(self.dist)]
        self._run([sys.executable, "-m", "pip", *wheels, "./reader", "."])
        self._package_chart(tools.helm)
        self._run(["make", "--no-print-directory", "sbom", f"DIST={self.dist}"])
        build_image(tools.engine, self.image, tools.base, tools.platforms, self.image_file, self._run)
        commit = ["git", "rev-parse", "HEAD"]
        head = subprocess.run(commit, cwd=self.root, capture_output=True, text=True, check=True).stdout.strip()
        made_of = predicate(self.version, head, tools.base, tools.platforms, urls_of(self.root).get("Source", ""))
        self.provenance_file.write_text(json.dumps(made_of, indent=2) + "\n", encoding="utf-8")
        self.notes_file.write_text(self.notes.text, encoding="utf-8")
        self.write_checksums(tools.sign)

    def uploads(self, tools: Tools) -> list[str]:
        """The commands that would publish the release, for people to run."""
        image = "REGISTRY/kubedelta@DIGEST"
        archive = f"{archive_format(tools.engine, tools.platforms)}:{self.image_file}"
        return [
            f"uv publish {self.reader_file} {self.wheel_file}",
            f"skopeo copy --all {archive} docker://REGISTRY/{self.image}",
            f"helm push {self.chart_file} oci://REGISTRY/charts",
            f"cosign sign {image} REGISTRY/charts/kubedelta@DIGEST",
            f"cosign attest --type cyclonedx --predicate {self.bill_file} {image}",
            f"cosign attest --type slsaprovenance1 --predicate {self.provenance_file} {image}",
        ]

    def _package_chart(self, helm: str) -> None:
        """A copy of the tree's chart, with the Chart.yaml that is published."""
        with tempfile.TemporaryDirectory() as folder:
            chart = Path(folder) / "kubedelta"
            shutil.copytree(self.root / "deploy/chart", chart)
            text = (chart / "Chart.yaml").read_text(encoding="utf-8")
            (chart / "Chart.yaml").write_text(published(text, self.notes, urls_of(self.root)), encoding="utf-8")
            self._run([helm, "package", str(chart), "--destination", str(self.dist)])

    def write_checksums(self, sign: Path | None) -> None:
        """Writes the checksums of all files, and their signature. See Tools. Raises CalledProcessError."""
        lines = [f"{_sha256(file)}  {file.name}\n" for file in sorted(self.files)]
        (self.dist / CHECKSUMS).write_text("".join(lines), encoding="utf-8")
        (self.dist / SIGNATURE).unlink(missing_ok=True)
        if sign is not None:
            self._run(["ssh-keygen", "-Y", "sign", "-f", str(sign), "-n", NAMESPACE, str(self.dist / CHECKSUMS)])

    def _run(self, command: Sequence[str]) -> None:
        print("+", " ".join(command), flush=True)
        subprocess.run(command, cwd=self.root, check=True)


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
