"""The image, built by buildah without a daemon, and the chart's pod, run by runc."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.recipes import IMAGE_BASE, PLATFORM
from tests.deploy.helm import ROOT, Manifest

NAME = "kubedelta:test"
BASE = f"docker.io/library/python:{IMAGE_BASE.version}"
MOST_IMAGES = 100
"""The steps of one build are 23 images, and each change of a source leaves half of them behind, some hundred MB; beyond
that, all are built anew."""
CERTIFICATES = "/etc/ssl/of-the-machine.crt"
_PLATFORM = ("--platform", PLATFORM) if PLATFORM else ()

_DEBIAN_TO_PYTHON_IMAGE = """
ln -s /usr/bin/{python} /usr/local/bin/python
rm /usr/lib/python3*/EXTERNALLY-MANAGED
cd /usr/share/python-wheels
PYTHONPATH=$(ls pip-*.whl) python -m pip install --quiet --root-user-action ignore --no-index --find-links . pip
"""
"""pip as the Python image has it: not Debian's, which cannot replace Debian's packages."""


class Buildah:
    """Its images are kept in a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        storage = folder / "storage.conf"
        self.environ = {**os.environ, "BUILDAH_ISOLATION": "chroot", "CONTAINERS_STORAGE_CONF": str(storage)}
        """With them, buildah has these images wherever it is called."""
        drivers = [chosen] if (chosen := self.environ.pop("STORAGE_DRIVER", None)) else ["overlay", "vfs"]
        for driver in drivers:
            places = f'graphroot = "{folder / driver}"\nrunroot = "{folder / "run"}"\n'
            storage.write_text(f'[storage]\ndriver = "{driver}"\n{places}')
            if subprocess.run(["buildah", "info"], env=self.environ, capture_output=True, check=False).returncode == 0:
                return
        raise AssertionError(f"buildah works with none of the storage drivers {', '.join(drivers)}")

    def build(self, base: Path) -> dict[str, Any]:
        """Builds the image on the base in this folder, and returns its configuration (OCI)."""
        if len(self._run("images", "--all", "--quiet").split()) > MOST_IMAGES:
            self._run("rmi", "--all", "--force")
        if BASE not in self._run("images", "--format", "{{.Name}}:{{.Tag}}").split():
            self._make_base(base)
        self._run("bud", "--quiet", "--layers", "--pull-never", *_PLATFORM, "--tag", NAME, str(ROOT))
        inspected = json.loads(self._run("inspect", "--type", "image", NAME))
        config: dict[str, Any] = inspected["OCIv1"]["config"]
        return config

    @contextmanager
    def mounted(self) -> Iterator[Path]:
        """The root file system of a new container of the image."""
        container = self._run("from", "--pull-never", *_PLATFORM, NAME)
        try:
            yield Path(self._run("mount", container))
        finally:
            self._run("rm", container)

    def _make_base(self, base: Path) -> None:
        container = self._run("from", *_PLATFORM, "scratch")
        try:
            self._run("add", container, str(base / "base.tar"), "/")
            python = f"python{IMAGE_BASE.version.partition('-')[0]}"
            self._run("run", container, "--", "sh", "-e", "-c", _DEBIAN_TO_PYTHON_IMAGE.format(python=python))
            if trusted := os.environ.get("PIP_CERT"):
                self._run("copy", container, trusted, CERTIFICATES)
                self._run("config", "--env", f"PIP_CERT={CERTIFICATES}", container)
            self._run("commit", "--quiet", container, BASE)
        finally:
            self._run("rm", container)

    def _run(self, *words: str) -> str:
        ran = subprocess.run(["buildah", *words], env=self.environ, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, f"buildah {words[0]}: {ran.stdout[-2000:]}{ran.stderr[-4000:]}"
        return ran.stdout.strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """What a kubelet knows when it starts the container of a pod."""

    spec: Manifest
    image: Mapping[str, Any]
    """The image's configuration (OCI)."""
    root: Path
    """The image's root file system."""
    folders: Mapping[str, Path]
    """The volumes of a ConfigMap or a claim, by their names in the pod."""
    service_account: Path
    """A folder with its token and the API server's certificate authority."""
    environ: Mapping[str, str]

    def bundle(self) -> dict[str, Any]:
        """The runtime's configuration (OCI), with the host's network."""
        [container] = self.spec["containers"]
        security = {**self.spec["securityContext"], **container["securityContext"]}
        assert security["capabilities"] == {"drop": ["ALL"]}
        environ = [*self.image["Env"], *(f"{name}={value}" for name, value in self.environ.items())]
        return {
            "ociVersion": "1.0.2",
            "root": {"path": str(self.root), "readonly": security["readOnlyRootFilesystem"]},
            "process": {
                "user": {
                    "uid": security["runAsUser"],
                    "gid": security["runAsGroup"],
                    "additionalGids": [security["fsGroup"]],
                },
                "args": [*self.image["Entrypoint"], *container["args"]],
                "env": environ,
                "cwd": self.image.get("WorkingDir") or "/",
                "noNewPrivileges": not security["allowPrivilegeEscalation"],
            },
            "mounts": [*_SYSTEM, *self._mounts(container["volumeMounts"])],
            "linux": {"namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")]},
        }

    def _mounts(self, mounts: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        volumes = {volume["name"]: volume for volume in self.spec["volumes"]}
        for mount in mounts:
            volume = volumes[mount["name"]]
            if memory := volume.get("emptyDir"):
                size = memory["sizeLimit"].removesuffix("i").lower()
                options = ["nosuid", "nodev", f"size={size}", "mode=1777"]
                yield {"destination": mount["mountPath"], "type": "tmpfs", "source": "tmpfs", "options": options}
            else:
                yield _bind(self.folders[mount["name"]], mount["mountPath"], read_only=mount.get("readOnly", False))
        yield _bind(self.service_account, "/run/secrets/kubernetes.io/serviceaccount", read_only=True)


_SYSTEM: list[dict[str, Any]] = [
    {"destination": "/proc", "type": "proc", "source": "proc"},
    {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=65536k"]},
]


def _bind(source: Path, target: str, *, read_only: bool) -> dict[str, Any]:
    options = ["rbind", "ro" if read_only else "rw"]
    return {"destination": target, "type": "bind", "source": str(source), "options": options}
