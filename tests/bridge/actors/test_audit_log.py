"""The audit log is read through its rotations, from a position on."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from bridge.actors import audit_log
from bridge.actors.audit_log import AuditLog, Position


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.log"


def rotate(path: Path, time: str, *, compressed: bool = False) -> None:
    """As lumberjack does."""
    backup = path.with_name(f"audit-2026-11-27T{time}.000.log")
    path.rename(backup)
    if compressed:
        backup.with_name(f"{backup.name}.gz").write_bytes(gzip.compress(backup.read_bytes()))
        backup.unlink()


def test_lines_come_once_through_rotations(path: Path) -> None:
    log = AuditLog(path, Position())
    path.write_bytes(b"1\n2\n")
    assert [*log.lines()] == [b"1\n", b"2\n"]
    with path.open("ab") as file:
        file.write(b"3\n")
    rotate(path, "10-00-00")
    path.write_bytes(b"4\n")
    rotate(path, "11-00-00", compressed=True)
    path.write_bytes(b"5\n")
    assert [*log.lines()] == [b"3\n", b"4\n", b"5\n"]
    assert [*log.lines()] == []


def test_another_process_goes_on_at_the_position_in_a_renamed_and_compressed_file(path: Path) -> None:
    path.write_bytes(b"1\n2\n3\n")
    log = AuditLog(path, Position())
    lines = log.lines()
    assert [next(lines), next(lines)] == [b"1\n", b"2\n"]
    rotate(path, "10-00-00", compressed=True)
    path.write_bytes(b"4\n")
    later = AuditLog(path, log.position)
    assert [*later.lines()] == [b"3\n", b"4\n"]
    assert not later.lost


def test_a_position_whose_file_is_gone_is_said_to_be_lost(path: Path) -> None:
    path.write_bytes(b"1\n")
    log = AuditLog(path, Position())
    assert [*log.lines()] == [b"1\n"]
    path.write_bytes(b"9\n")
    assert [*log.lines()] == [b"9\n"]
    assert log.lost


def test_a_line_without_its_end_waits_for_it(path: Path) -> None:
    path.write_bytes(b"1\n2")
    log = AuditLog(path, Position())
    assert [*log.lines()] == [b"1\n"]
    with path.open("ab") as file:
        file.write(b"2\n")
    assert [*log.lines()] == [b"22\n"]


def test_a_torn_line_in_front_of_another_file_is_passed_over(path: Path) -> None:
    path.write_bytes(b"1\n2")
    rotate(path, "10-00-00")
    path.write_bytes(b"3\n")
    assert [*AuditLog(path, Position()).lines()] == [b"1\n", b"3\n"]


def test_a_file_without_a_line_yet_is_no_loss(path: Path) -> None:
    log = AuditLog(path, Position())
    assert [*log.lines()] == []
    path.write_bytes(b"1\n")
    assert [*log.lines()] == [b"1\n"]
    rotate(path, "10-00-00")
    path.write_bytes(b"")
    assert [*log.lines()] == []
    assert not log.lost


def test_files_of_others_are_not_read(path: Path) -> None:
    path.write_bytes(b"1\n")
    path.with_name("audit-policy.log").write_bytes(b"mine\n")
    path.with_name("audit-2026-11-27.log").write_bytes(b"mine\n")
    assert [*AuditLog(path, Position()).lines()] == [b"1\n"]


def test_a_line_that_is_too_long_is_passed_over_and_counted(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_log, "LONGEST_LINE", 8)
    path.write_bytes(b"1\n" + b"x" * 100 + b"\n2\n")
    log = AuditLog(path, Position())
    assert [*log.lines()] == [b"1\n", b"2\n"]
    assert log.too_long == 1
