"""What the documents say is run, so that they cannot lie."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
import yaml

from bridge.kube import ClusterAccess
from bridge.playground import Playground
from config.load import load
from sinks import registry

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


async def test_the_library_example_of_the_readme_lists_pods_by_index(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    script = tmp_path / "example.py"
    script.write_text(example, encoding="utf-8")
    main = runpy.run_path(str(script))["main"]

    async with Playground() as cluster:
        cluster.create("namespaces", {"metadata": {"name": "shop"}})
        for namespace in ("shop", "default"):
            metadata = {"name": f"{namespace}-web", "namespace": namespace, "labels": {"app": "web"}}
            containers = [{"name": "web", "image": "web"}]
            cluster.create("pods", {"metadata": metadata, "spec": {"containers": containers}})
        await main(ClusterAccess(server=cluster.url))

    printed = capsys.readouterr().out.splitlines()
    assert "shop-web {'app': 'web'}" in printed
    assert "added default/default-web" in printed
    assert not any(line.startswith("default-web") for line in printed), "another namespace is another index value"


def test_the_configuration_of_the_readme_loads(tmp_path: Path) -> None:
    (found,) = re.findall(r"<<'END'\n(.*?)\n    END", README, re.DOTALL)
    text = "\n".join(line[4:] for line in found.splitlines())
    path = tmp_path / "kubedelta.yaml"
    path.write_text(text, encoding="utf-8")
    assert yaml.safe_load(text)["cluster"]["name"] == "my-cluster"

    settings = load(path, {}, {name: kind.options for name, kind in registry.types().items()})

    assert [entry.resource for entry in settings.resources] == ["pods", "deployments.apps"]


def test_every_file_that_a_document_links_to_is_there() -> None:
    for document in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "sinks/README.md"):
        path = ROOT / document
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", path.read_text(encoding="utf-8")):
            assert (path.parent / target).exists(), f"{document} links to {target}"


def test_every_command_of_the_makefile_that_a_document_names_is_there() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for document in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"):
        text = (ROOT / document).read_text(encoding="utf-8")
        named = set(re.findall(r"`make ([a-z0-9-]+)", text)) | set(
            re.findall(r"^    make ([a-z0-9-]+)", text, re.MULTILINE)
        )
        assert named <= targets, document


def test_the_table_of_sinks_names_every_type_there_is() -> None:
    built_in = {"kafka", "nats", "webhook", "file"}
    assert built_in <= set(re.findall(r"^\| `(\w+)` \|", README, re.MULTILINE))
