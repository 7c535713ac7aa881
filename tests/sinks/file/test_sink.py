"""The file sink as the bridge uses it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from bridge.model.formats.content import Include
from sinks.base import ALL_STORED, SinkContext
from sinks.file.options import FileOptions
from sinks.file.sink import FileSink
from tests.kit.commands import child
from tests.kit.content import with_content
from tests.kit.deadlines import BUSY
from tests.kit.records import a_delta, a_gap, a_snapshot, changes
from tests.kit.sinks import opened_sink, remembered


async def opened(path: Path, **options: object) -> FileSink:
    sink = FileSink("copy", FileOptions.model_validate({"path": str(path), **options}), cluster="prod")
    await sink.open(SinkContext())
    return sink


async def test_an_object_that_came_on_several_lines_is_written_on_one(tmp_path: Path) -> None:
    sink = await opened(tmp_path / "deltas.ndjson")

    await sink.deliver([a_delta(1, body=b'{\r\n  "a": "\xe2\x80\xa8\\n",\n  "b": 1\n}'), a_delta(2)])
    await sink.close()

    text = (tmp_path / "deltas.ndjson").read_bytes()
    assert text.count(b"\n") == 2
    assert json.loads(text.partition(b"\n")[0])["data"] == {"a": "\u2028\n", "b": 1}


async def test_an_unencodable_record_is_rejected_and_others_are_stored(tmp_path: Path) -> None:
    sink = await opened(tmp_path / "deltas.ndjson", format="envelope", include=["managers"])
    batch = [a_delta(1), a_delta(2, managers=b"damaged"), a_delta(3, key="shop/web-2"), a_delta(4)]
    made = [with_content(each, include=[Include.MANAGERS]) for each in batch]
    damaged = made[1]

    receipt = await sink.deliver(made)
    only_damaged = await sink.deliver([damaged])
    await sink.close()

    assert (list(receipt.rejected), list(only_damaged.rejected)) == ([1], [0])
    assert (receipt.pending, receipt.failure) == ([3], None), "of the same object, and so not written"
    assert len((tmp_path / "deltas.ndjson").read_bytes().splitlines()) == 2


async def test_a_cancelled_deliver_leaves_whole_lines_and_works_on(tmp_path: Path) -> None:
    path = tmp_path / "deltas.ndjson"
    sink = await opened(path)
    batch = changes(1000)

    for _ in range(20):
        delivering = asyncio.get_running_loop().create_task(sink.deliver(batch))
        await asyncio.sleep(0)
        delivering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await delivering
    assert await sink.deliver(batch) == ALL_STORED
    await sink.close()

    ids = [json.loads(line)["id"] for line in path.read_bytes().splitlines()]
    expected = [record.id for record in batch]
    assert ids[-1000:] == expected
    assert len(ids) % 1000 == 0


async def test_check_opens_nothing(tmp_path: Path) -> None:
    path = tmp_path / "deltas.ndjson"
    sink = FileSink("copy", FileOptions(path=path), cluster="prod")

    assert await sink.check() == f"{path}, to be created"
    assert not path.exists()
    await sink.close()


STANDARD_OUTPUT = """
import asyncio
from pathlib import Path
from sinks.base import SinkContext
from sinks.file.options import FileOptions
from sinks.file.sink import FileSink
from tests.kit.records import changes

async def main():
    sink = FileSink("copy", FileOptions(path=Path("-")), cluster="prod")
    await sink.open(SinkContext())
    print(await sink.deliver(changes(100)), flush=True, file=__import__("sys").stderr)
    await sink.close()

asyncio.run(main())
"""


def test_a_dash_is_standard_output() -> None:
    with child(STANDARD_OUTPUT) as ran:
        lines = ran.output.read().splitlines()
        assert ran.process.wait(60 * BUSY) == 0

    assert [json.loads(line)["id"] for line in lines] == [record.id for record in changes(100)]


@pytest.mark.parametrize("saved", [b"gap/5/\xff", b"gap/5/9\r\nX: y", b"{"])
async def test_an_unreadable_saved_gap_is_an_unknown_gap(tmp_path: Path, saved: bytes) -> None:
    """A flipped bit ends no start, and is in no header."""
    options = FileOptions.model_validate({"path": tmp_path / "deltas.ndjson", "format": "envelope"})
    sink = FileSink("copy", options, cluster="prod")
    async with opened_sink(sink, SinkContext(memory=saved)):
        assert sink.newest_gap == b"gap/unknown"


async def test_among_envelopes_a_gap_is_named_by_every_later_line(tmp_path: Path) -> None:
    """Also after a restart: whoever reads envelopes knows the operations c, u, d and r, and no others."""
    path = tmp_path / "deltas.ndjson"
    options = FileOptions.model_validate({"path": path, "format": "envelope"})
    first = FileSink("copy", options, cluster="prod")
    await first.open(SinkContext())
    for batch in ([a_snapshot()], changes(2)):
        assert await first.deliver(batch) == ALL_STORED
    saved = await remembered(first, [a_gap()])
    assert await first.deliver(changes(1, first=10)) == ALL_STORED
    await first.close()
    again = FileSink("copy", options, cluster="prod")
    await again.open(SinkContext(memory=saved))
    assert await again.deliver(changes(1, first=11)) == ALL_STORED
    await again.close()

    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert [(line["op"], line["source"].get("gap")) for line in lines] == [
        ("u", None),
        ("u", None),
        ("u", "gap/5/9"),
        ("u", "gap/5/9"),
    ]
