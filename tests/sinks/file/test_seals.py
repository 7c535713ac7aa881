"""Seals of closed parts: what changes behind a seal is found, and what the sink does itself is no fault."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import pytest
import zstandard
from kubedelta_reader.sources.lines import blocks_of
from kubedelta_reader.sources.parts import parts_of
from nacl.signing import SigningKey

from bridge.cli.command_line import parse
from sinks.base import ALL_STORED, SinkContext, SinkUnavailable
from sinks.file import seals
from sinks.file.closed_parts import ClosedParts
from sinks.file.connection import examine
from sinks.file.options import FileOptions, Rotation
from sinks.file.seals import Seals, check_seals
from sinks.file.sink import FileSink
from sinks.reader import CheckedSeals
from tests.kit.records import changes
from tests.kit.sinks import opened_sink
from tests.kit.small_disk import CannotMount, mounted_small_disk
from tests.sinks.file.test_rotation import until

PLAIN: dict[str, Any] = {"bytes": 4096, "compression": "none", "seal": True}
PAGE = 4096
"""Bytes that the small disk takes at once."""
PACKED: dict[str, Any] = {"bytes": 4096, "seal": True}


async def written(path: Path, count: int, *, first: int = 1, left: int = 10_000, **rotation: Any) -> None:
    """Waits until every closed part has its seal, and is compressed where it shall be, and until at most ``left`` are
    plain: a sink that is closed does nothing more."""
    options = FileOptions.model_validate({"path": path, "rotation": rotation})
    async with opened_sink(FileSink("copy", options, cluster="prod")) as sink:
        for start in range(first, first + count, 10):
            assert await sink.deliver(changes(10, first=start)) == ALL_STORED
        most = left if "compression" in rotation else 0
        await until(lambda: not checked(path).unsealed and len(plain_parts(path)) <= most)


def checked(path: Path, keys: Sequence[str] = ()) -> CheckedSeals:
    found = check_seals(path.parent, keys)
    return found[0] if found else CheckedSeals(path, (), 0, 0, ("no seals yet",), "")


def plain_parts(path: Path) -> list[Path]:
    return sorted(each for each in path.parent.glob(f"{path.name}.2*") if each.suffix not in (".zst", ".tmp"))


def lines_of(path: Path) -> list[bytes]:
    return path.with_name(f"{path.name}.seals").read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize("rotation", [PLAIN, PACKED])
async def test_each_closed_part_has_a_seal(tmp_path: Path, rotation: dict[str, Any]) -> None:
    path = tmp_path / "deltas"
    await written(path, 100, **rotation)

    found = checked(path)
    seals = [json.loads(each) for each in lines_of(path)]
    assert found.faults == []
    assert found.sealed == len(seals) > 2
    assert [seal["first"] for seal in seals[1:]] == [seal["last"] + 1 for seal in seals[:-1]]
    assert seals[0]["first"] == 1
    assert all(seal["lines"] == seal["last"] - seal["first"] + 1 for seal in seals)


async def test_a_restart_goes_on_behind_a_line_of_another_program(tmp_path: Path) -> None:
    path = tmp_path / "deltas"
    await written(path, 50, **PLAIN)
    fault = line_of_another_program(path)
    sealed = {part.name for part in plain_parts(path)}
    await written(path, 50, first=51, **PLAIN)

    parts = [json.loads(line)["part"] for line in lines_of(path) if line.startswith(b"{")]
    assert parts == [part.name for part in plain_parts(path)]
    assert sealed < set(parts)
    assert checked(path).faults[0] == fault


async def test_a_restart_goes_on_with_the_chain(tmp_path: Path) -> None:
    path = tmp_path / "deltas"
    await written(path, 50, **PLAIN)
    seals = path.with_name("deltas.seals")
    before = len(lines_of(path))
    seals.write_bytes(seals.read_bytes() + lines_of(path)[0][:50])  # A crash cut a line.
    await written(path, 50, first=51, **PLAIN)

    assert checked(path).faults == []
    assert len(lines_of(path)) > before


def changed(path: Path) -> str:
    part = plain_parts(path)[1]
    part.write_bytes(part.read_bytes().replace(b"watched", b"deduced", 1))
    return f"{part.name} was changed"


def shortened(path: Path) -> str:
    part = plain_parts(path)[1]
    part.write_bytes(b"".join(part.read_bytes().splitlines(keepends=True)[:-1]))
    return f"{part.name} was changed"


def replaced_by_a_torn_archive(path: Path) -> str:
    part = plain_parts(path)[1]
    packed = zstandard.compress(part.read_bytes())
    part.with_name(f"{part.name}.zst").write_bytes(packed[:-10])
    part.unlink()
    return f"{part.name} cannot be unpacked"


def taken_away(path: Path) -> str:
    part = plain_parts(path)[1]
    part.unlink()
    return f"{part.name} is missing"


def put_in(path: Path) -> str:
    part = plain_parts(path)[1]
    forged = part.with_name(f"{part.name[:-41]}{0:020}-{0:020}")
    forged.write_bytes(part.read_bytes())
    return f"{forged.name} has no seal"


def line_taken_out(path: Path) -> str:
    path.with_name("deltas.seals").write_bytes(b"".join(lines_of(path)[:1] + lines_of(path)[2:]))
    return "line 2 does not follow the line before it"


def line_changed(path: Path) -> str:
    lines = lines_of(path)
    lines[1] = lines[1].replace(b'"lines":', b'"lines":1')
    path.with_name("deltas.seals").write_bytes(b"".join(lines))
    return "line 3 does not follow the line before it"


def line_of_another_program(path: Path) -> str:
    lines = lines_of(path)
    path.with_name("deltas.seals").write_bytes(b"".join([*lines, b"\xff" + b"x" * 50 + b"\n"]))
    return f"line {len(lines) + 1} is no seal"


def line_of_lists_in_lists(path: Path) -> str:
    lines = lines_of(path)
    path.with_name("deltas.seals").write_bytes(b"".join([*lines, b'{"part":"x","time":"","x":' + b"[" * 4000 + b"\n"]))
    return f"line {len(lines) + 1} is no seal"


def line_without_an_end(path: Path) -> str:
    lines = lines_of(path)
    path.with_name("deltas.seals").write_bytes(b"".join([*lines, b"x" * 10_000_000]))
    return f"line {len(lines) + 1} is cut, or longer"


@pytest.mark.parametrize(
    "tamper",
    [
        changed,
        shortened,
        replaced_by_a_torn_archive,
        taken_away,
        put_in,
        line_taken_out,
        line_changed,
        line_of_another_program,
        line_of_lists_in_lists,
        line_without_an_end,
    ],
)
async def test_what_changes_behind_a_seal_is_found(tmp_path: Path, tamper: Callable[[Path], str]) -> None:
    path = tmp_path / "deltas"
    await written(path, 100, **PLAIN)
    fault = tamper(path)

    assert any(each.startswith(fault) for each in checked(path).faults), checked(path).faults


async def test_what_retention_removes_is_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "deltas"
    await written(path, 200, left=2, **PLAIN, retain_parts=2)

    found = checked(path)
    assert found.faults == []
    assert found.removed > 2
    assert found.sealed == len(plain_parts(path))


async def test_a_part_that_stays_has_no_line_of_a_removal(tmp_path: Path) -> None:
    path = tmp_path / "deltas"
    await written(path, 100, **PLAIN)
    kept = plain_parts(path)[0]
    kept.with_name(f"{kept.name}.zst").write_bytes(zstandard.compress(b"of somebody else"))
    await written(path, 100, first=101, left=3, **PLAIN, retain_parts=2)

    assert kept in plain_parts(path)
    assert not any(b"retention" in each and kept.name.encode() in each for each in lines_of(path))


async def test_a_part_that_cannot_be_read_holds_up_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "deltas"
    options = FileOptions.model_validate({"path": path, "rotation": {**PLAIN, "retain_parts": 3}})
    unreadable = tmp_path / "deltas.20200101T000000000000Z.00000000000000000001-00000000000000000001"

    def failing(file: BinaryIO, packed: str) -> Iterator[bytes]:
        if file.name == str(unreadable):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return blocks_of(file, packed)

    monkeypatch.setattr(seals, "blocks_of", failing)
    unreadable.write_bytes(b"{}\n")
    async with opened_sink(FileSink("copy", options, cluster="prod")) as sink:
        for start in range(1, 101, 10):
            assert await sink.deliver(changes(10, first=start)) == ALL_STORED
        await until(lambda: len(plain_parts(path)) <= 3 and not checked(path).unsealed)

    assert not unreadable.exists()
    assert checked(path).faults == []


async def test_a_full_disk_holds_up_no_removal(tmp_path: Path) -> None:
    try:
        with mounted_small_disk(tmp_path / "disk") as disk:
            path, first = disk.folder / "deltas", 1
            while sum(map(len, lines_of(path) if first > 1 else ())) % PAGE < PAGE - 150:  # No room for a line.
                await written(path, 20, first=first, **PLAIN)
                first += 20
            parts = len(plain_parts(path))
            disk.fill()
            rotation = Rotation.model_validate({**PLAIN, "retain_parts": 2})
            closed = ClosedParts(path, rotation, "copy")
            await until(lambda: len(plain_parts(path)) == 2)
            await asyncio.to_thread(closed.close)

            found = checked(path)
            assert found.faults == []
            assert found.removed == parts - 2 > 0
            assert found.sealed == 2
    except CannotMount as error:
        pytest.skip(f"no small disk: {error}")


async def test_a_removal_that_fails_has_a_single_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "deltas"
    await written(path, 100, **PLAIN)
    stays, failed, unlink = plain_parts(path)[0], 0, Path.unlink

    def failing(self: Path, missing_ok: bool = False) -> None:
        nonlocal failed
        if self == stays and failed < 3:
            failed += 1
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(self))
        unlink(self, missing_ok)

    monkeypatch.setattr(Path, "unlink", failing)
    rotation = Rotation.model_validate({**PLAIN, "retain_parts": 1})
    closed = ClosedParts(path, rotation, "copy")

    def one_is_left() -> bool:
        closed.wake()
        return len(plain_parts(path)) == 1

    await until(one_is_left)
    await asyncio.to_thread(closed.close)

    assert failed == 3
    assert sum(stays.name.encode() in each for each in lines_of(path)) == 2, "its seal, and its removal"
    assert checked(path).faults == []


async def test_a_part_that_was_gone_meanwhile_is_sealed_again(tmp_path: Path) -> None:
    """What is known of parts is that of the parts which are there: a sink closes new ones for as long as it runs."""
    path = tmp_path / "deltas"
    await written(path, 100, **PLAIN)
    first, second, *_ = plain_parts(path)
    kept = Seals(path, None, lambda: None)
    kept.seal(parts_of(path))
    kept.removing(parts_of(path)[0])
    assert kept.seal(parts_of(path))
    assert sum(first.name.encode() in each for each in lines_of(path)) == 2, "its seal, and its removal"
    for part in (first, second):
        part.rename(tmp_path / f"away-{part.name}")
    assert kept.seal(parts_of(path))
    for part in (first, second):
        (tmp_path / f"away-{part.name}").rename(part)
    assert kept.seal(parts_of(path))

    assert sum(first.name.encode() in each for each in lines_of(path)) == 3
    assert sum(second.name.encode() in each for each in lines_of(path)) == 2
    assert checked(path).faults == []


async def test_a_stop_does_not_wait_for_the_seal_of_a_large_part(tmp_path: Path) -> None:
    path = tmp_path / "deltas"
    part = tmp_path / "deltas.20200101T000000000000Z.00000000000000000001-00000000000000000001"
    with part.open("wb") as file:
        file.truncate(16 << 30)  # Without content on the disk; its hash takes many seconds.
    rotation = Rotation.model_validate(PLAIN)
    parts = ClosedParts(path, rotation, "copy")
    try:
        await until(path.with_name("deltas.seals").exists)
    finally:
        parts.close()

    assert lines_of(path) == []


async def test_a_signature_shows_that_another_chain_was_written(tmp_path: Path) -> None:
    path, key, other = tmp_path / "deltas", SigningKey.generate(), SigningKey.generate()
    file = tmp_path / "key"
    file.write_text(f"whsk_{b64encode(bytes(key)).decode()}\n")
    await written(path, 100, **PLAIN, seal_key_file=str(file))
    public = [f"whpk_{b64encode(bytes(each.verify_key)).decode()}" for each in (other, key)]

    assert checked(path, public).faults == []
    assert "line 1 is not signed by a key that you gave" in checked(path, public[:1]).faults
    # Somebody writes the whole chain anew, around a part that is changed.
    changed(path)
    path.with_name("deltas.seals").unlink()
    await written(path, 10, first=101, **PLAIN)
    assert checked(path).faults == []
    assert "line 1 is not signed by a key that you gave" in checked(path, public).faults


async def test_a_key_that_cannot_sign_is_named_with_its_option(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("whsec_" + b64encode(b"x" * 32).decode())
    options = FileOptions.model_validate(
        {"path": tmp_path / "deltas", "rotation": {**PLAIN, "seal_key_file": str(file)}}
    )
    [wrong] = examine(options)

    assert str(wrong).startswith(f"rotation.seal_key_file: {file} has no private key")
    with pytest.raises(SinkUnavailable, match=r"rotation\.seal_key_file"):
        await FileSink("copy", options, cluster="prod").open(SinkContext())
    with pytest.raises(ValueError, match="seal_key_file has no effect without seal: true"):
        FileOptions.model_validate({"path": "d", "rotation": {"seal_key_file": str(file)}})


async def test_the_command_says_what_it_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "deltas"
    assert parse(["verify", "--seals", str(tmp_path)])() == 1
    await written(path, 100, **PLAIN)

    assert parse(["verify", "--seals", str(tmp_path)])() == 0
    assert f"last line {checked(path).last}" in capsys.readouterr().out
    taken_away(path)
    assert parse(["verify", "--seals", str(tmp_path), "--json"])() == 1
    [document] = json.loads(capsys.readouterr().out)
    assert len(document["faults"]) == 1
