"""Token files; that a client reads one again when it changed, and after a 401, ``test_access`` shows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bridge.kube.auth.credentials import FixedToken, TokenFileCredential
from tests.kit.virtual_time import StandingClock


def write(path: Path, content: str, *, like_before: bool = False) -> None:
    """``like_before`` leaves the time of the last change as it was."""
    times = (path.stat().st_atime_ns, path.stat().st_mtime_ns) if like_before else None
    path.write_text(content)
    if times:
        os.utime(path, ns=times)


def remove(path: Path) -> None:
    path.unlink()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("first\n")
    return path


async def test_a_token_file_is_read_again_when_its_link_was_swapped(tmp_path: Path) -> None:
    """As the kubelet does it: ..data points to a new folder."""
    link = tmp_path / "token"
    for name in ("one", "two"):
        (tmp_path / name).write_text(name)
        os.utime(tmp_path / name, (1, 1))
    link.symlink_to("one")
    token = TokenFileCredential(link, "user u", clock=StandingClock())
    assert await token.token() == "one"
    link.unlink()
    link.symlink_to("two")
    assert await token.token() == "two"


async def test_a_token_file_is_read_each_minute_even_if_it_looks_same(path: Path) -> None:
    clock = StandingClock()
    token = TokenFileCredential(path, "user u", clock=clock)
    assert await token.token() == "first"
    write(path, "other\n", like_before=True)
    assert await token.token() == "first"
    clock.now += 60
    assert await token.token() == "other"


async def test_the_last_token_goes_on_while_the_file_cannot_be_read(path: Path) -> None:
    clock = StandingClock()
    token = TokenFileCredential(path, "user u", clock=clock)
    assert await token.token() == "first"
    remove(path)
    clock.now += 60
    assert await token.token() == "first"
    write(path, " \n")
    assert await token.token() == "first"
    write(path, "second")
    assert await token.token() == "second"


async def test_a_fixed_token_stands_in_until_the_file_can_be_read(tmp_path: Path) -> None:
    token = TokenFileCredential(tmp_path / "token", "user u", fallback="fixed", clock=StandingClock())
    assert await token.token() == "fixed"
    (tmp_path / "token").write_text("from the file")
    assert await token.token() == "from the file"


async def test_a_token_is_never_printed() -> None:
    assert "hunter2" not in repr(FixedToken("hunter2", "user u"))
