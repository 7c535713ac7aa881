"""Examples in the documents run."""

from __future__ import annotations

import asyncio
import json
import re
import runpy
import subprocess
import textwrap
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from bridge.kube import ClusterAccess
from bridge.playground import Playground
from config.load import load
from sinks.keys import PublicKey, private_key
from tests.documents.pages import ROOT, TYPES, read, section
from tests.kit.bridge_process import BridgeProcess
from tests.kit.deadlines import BUSY
from tests.kit.fork_server import fork_server

README = read("README.md")


def _configuration() -> str:
    (found,) = re.findall(r"<<'END'\n(.*?)\n    END", README, re.DOTALL)
    return "\n".join(line[4:] for line in found.splitlines())


def _library_example(number: int, folder: Path) -> Callable[[ClusterAccess], Awaitable[None]]:
    script = folder / "example.py"
    script.write_text(re.findall(r"```python\n(.*?)```", read("docs/library.md"), re.DOTALL)[number], encoding="utf-8")
    main: Callable[[ClusterAccess], Awaitable[None]] = runpy.run_path(str(script))["main"]
    return main


async def test_the_library_example_lists_pods_by_index(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main = _library_example(0, tmp_path)

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


async def test_the_controller_example_works_on_every_pod(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main = _library_example(1, tmp_path)

    async with Playground() as cluster:
        for name in ("web", "db"):
            spec = {"containers": [{"name": name, "image": name}]}
            cluster.create("pods", {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
        await main(ClusterAccess(server=cluster.url))

    assert sorted(capsys.readouterr().out.splitlines()) == ["exists default/db", "exists default/web"]


SINK_PAGES = sorted(path.name for path in ROOT.glob("docs/sinks/*.md") if "```yaml" in path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", SINK_PAGES)
def test_the_sinks_of_a_page_load(name: str, tmp_path: Path) -> None:
    path = tmp_path / "kubedelta.yaml"
    for sinks in re.findall(r"```yaml\n(sinks:\n.*?)```", read(f"docs/sinks/{name}"), re.DOTALL):
        path.write_text(f"cluster: {{name: x}}\nresources: [deployments.apps, events]\n{sinks}", encoding="utf-8")
        assert load(path, {}, TYPES).sinks


def test_every_built_in_type_has_a_page_with_an_example() -> None:
    assert {f"{kind}.md" for kind in ("kafka", "nats", "webhook", "file")} <= set(SINK_PAGES)


def test_the_keys_of_seals_are_made_as_the_page_says(tmp_path: Path) -> None:
    commands = re.findall(r"^    ((?:openssl|echo) .*)$", section("docs/sinks/file.md", "## Seals"), re.MULTILINE)
    subprocess.run(["sh", "-ec", "\n".join(commands)], cwd=tmp_path, check=True, capture_output=True)
    private, public = tmp_path / "key", (tmp_path / "seal.pub").read_text()

    signature = private_key(private, "seal_key_file").signature(b"a line")

    assert PublicKey(public).verifies(b"a line", signature.encode())
    with pytest.raises(ValueError, match="the public key begins with whpk_"):
        PublicKey(private.read_text())


def test_the_readme_configuration_loads_and_its_folder_is_made(tmp_path: Path) -> None:
    path = tmp_path / "kubedelta.yaml"
    path.write_text(_configuration(), encoding="utf-8")

    settings = load(path, {}, TYPES)

    assert [entry.resource for entry in settings.resources] == ["pods", "deployments.apps"]
    assert f"mkdir {settings.state.directory.relative_to(tmp_path)} " in README


def test_the_readme_configuration_with_an_account_loads(tmp_path: Path) -> None:
    _, _, others = _configuration().partition("resources:")
    [account] = re.findall(r"^    cluster:\n(?:      .*\n)*      token_file: .*\n(?:      .*\n)*", README, re.MULTILINE)
    path = tmp_path / "kubedelta.yaml"
    path.write_text(textwrap.dedent(account) + "resources:" + others, encoding="utf-8")

    cluster = load(path, {}, TYPES).cluster

    assert [cluster.token_file, cluster.ca_file] == [tmp_path / "token", tmp_path / "ca.crt"]
    assert "create token kubedelta --duration 24h > token\n" in README
    assert "| base64 -d > ca.crt\n" in README


async def test_the_quick_start_delivers_resumes_and_verifies(tmp_path: Path) -> None:
    file = tmp_path / "kubedelta.yaml"
    file.write_text(_configuration(), encoding="utf-8")
    environ: dict[str, str] = {}

    async def kubedelta(*words: str) -> str:
        with TemporaryFile("w+") as out:
            process = fork_server().start([*words, "-c", str(file)], out.fileno(), out.fileno(), environ=environ)
            code = await asyncio.to_thread(process.wait, 60 * BUSY)
            out.seek(0)
            printed = out.read()
        assert code == 0, printed
        return printed

    async with Playground() as cluster:
        (tmp_path / "bridge").mkdir()
        environ["KUBEDELTA__CLUSTER__SERVER"] = cluster.url
        process = BridgeProcess(tmp_path / "bridge", file, environ=environ)
        environ["KUBEDELTA__STATE__DIRECTORY"] = str(process.state)
        await kubedelta("check")
        async with process.started() as bridge:
            spec = {"containers": [{"name": "web", "image": "web"}]}
            for name in ("web", "gone"):
                cluster.create("pods", {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
            await bridge.until("all is read", lambda now: now.value("records_committed_total") == 2)
            await bridge.until_delivered()
            assert "copy" in await kubedelta("cursors")
            await kubedelta("verify", "copy", "--settle", "5s")
            await asyncio.to_thread(bridge.stop)
            await kubedelta("state", "check")
            cluster.delete("pods", "gone")
            await asyncio.to_thread(bridge.start)
            await bridge.until("the delete is read", lambda now: now.value("records_committed_total") == 1)
            await bridge.until_delivered()

    events = [json.loads(line) for line in (tmp_path / "deltas.ndjson").read_text(encoding="utf-8").splitlines()]
    delivered = [(event["op"], event["data"]["metadata"]["name"]) for event in events if "op" in event]
    assert delivered == [("added", "web"), ("added", "gone"), ("deleted", "gone")]
