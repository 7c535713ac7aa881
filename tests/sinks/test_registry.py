"""Finding sinks, our own and others'."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from sinks import registry
from sinks.base import SinkType
from sinks.file.options import FileOptions
from sinks.file.sink import FileSink
from sinks.registry import GROUP, UnknownSinkType, find
from tests.kit.deadlines import BUSY

ROOT = Path(__file__).parents[2]


def a_type(name: str) -> SinkType:
    return SinkType(name=name, options=FileOptions, load=lambda: FileSink, max_batch=1, summary="for a test")


OURS = a_type("ours")
THEIRS = a_type("theirs")
NO_TYPE = "a text"


def offer(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, f"{__name__}:{value}" if ":" not in value else value, GROUP)


def test_the_built_in_types_come_first() -> None:
    assert list(registry.types())[:4] == ["kafka", "nats", "webhook", "file"]


def test_every_folder_of_a_sink_is_registered() -> None:
    folders = {path.parent.name for path in (ROOT / "sinks").glob("*/sink.py")}

    assert folders == {kind.name for kind in registry.BUILT_IN}
    for folder in folders:
        assert registry.types()[folder] is import_module(f"sinks.{folder}").TYPE


def test_every_built_in_type_describes_itself_and_its_options() -> None:
    for kind in registry.BUILT_IN:
        assert kind.summary
        assert kind.max_batch > 0
        assert kind.options.__doc__
        for name, option in kind.options.model_fields.items():
            assert option.description, f"{kind.name}.{name} has no description"
            assert not option.is_required() or option.examples, f"{kind.name}.{name} has no example"


def test_an_unknown_type_is_reported_with_the_nearest_and_all() -> None:
    with pytest.raises(UnknownSinkType) as error:
        registry.create("audit", "kafak", FileOptions(path=Path("x")), cluster="prod")

    assert str(error.value).startswith(
        "there is no sink type kafak. Did you mean kafka? Known are kafka, nats, webhook"
    )


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (offer("ours", "OURS"), "there is a sink type ours already"),
        (offer("other", "THEIRS"), "the SinkType is called theirs: both must have the same name"),
        (offer("text", "NO_TYPE"), "it is no SinkType but str"),
        (offer("missing", "no_such_package:TYPE"), "it cannot be imported: ModuleNotFoundError"),
        (offer("missing", "MISSING"), "it cannot be imported: AttributeError"),
    ],
)
def test_a_broken_offer_is_reported_by_name_and_harms_no_other(broken: EntryPoint, reason: str) -> None:
    found = find([OURS], [broken, offer("theirs", "THEIRS")])

    assert found.types == {"ours": OURS, "theirs": THEIRS}
    ((origin, received),) = found.unusable.items()
    assert origin == f"{broken.name} = {broken.value}"
    assert received.startswith(reason)


LIGHT = """
import sys
from sinks import registry

for kind in registry.types().values():
    kind.options.model_json_schema()
loaded = {"confluent_kafka", "nats", "httpx", "aiohttp"} & sys.modules.keys()
assert not loaded, loaded
"""


def test_options_are_had_without_any_client_library() -> None:
    subprocess.run([sys.executable, "-c", LIGHT], cwd=ROOT, check=True, timeout=60 * BUSY)


# ── A package of somebody else, as the README describes it ──────────────────────────────────────────────────────

USE_IT = """
import asyncio, sys
from pathlib import Path
from sinks import registry
from sinks.base import SinkContext
from bridge.model.change import Op
from tests.kit.records import a_delta, a_gap

async def main(folder):
    kind = registry.types()["mirror"]
    sink = registry.create("picture", "mirror", kind.options(folder=folder), cluster="prod")
    await sink.open(SinkContext())
    batch = [a_delta(1), a_delta(2, key="shop/web-2"), a_gap(3, 4), a_delta(5, op=Op.DELETED)]
    receipt = await sink.deliver(batch)
    assert not receipt.pending and not receipt.rejected, receipt
    print(await sink.check())
    await sink.close()
    assert [path.name for path in folder.iterdir()] == ["pods~shop~web-2.json"]
    assert (folder / "pods~shop~web-2.json").read_bytes() == batch[1].body
    assert not registry.unusable(), registry.unusable()

asyncio.run(main(Path(sys.argv[1])))
"""


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The README's package, built by its own pyproject.toml and installed into a folder."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("target")
    text = (ROOT / "sinks" / "README.md").read_text()
    files = re.findall(r"```(?:python|toml)\n# (\S+)\n(.*?)```", text, re.DOTALL)
    assert len(files) == 5
    for name, content in files:
        (source / name).parent.mkdir(exist_ok=True)
        (source / name).write_text(content)
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]
    subprocess.run(
        [*install, "--no-deps", "--no-build-isolation", "--target", target, source], check=True, timeout=120 * BUSY
    )
    return target


def test_the_sink_of_the_readme_is_installed_found_and_used(mirror: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mirror"
    folder.mkdir()
    code = f"import sys; sys.path[:0] = [{str(mirror)!r}, {str(ROOT)!r}]\n{USE_IT}"

    ran = subprocess.run(
        [sys.executable, "-c", code, folder], capture_output=True, text=True, timeout=60 * BUSY, check=False
    )

    assert ran.stderr == ""
    assert ran.stdout == f"{folder} with 1 objects\n"
