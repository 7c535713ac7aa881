"""Nobody but the bridge's user reads, locks or replaces what lies in the state directory."""

# ruff: noqa: ASYNC221, ASYNC240  # the tests are about files and processes

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bridge.model.policies import StartPolicy
from bridge.outbox.errors import StateUnusable
from bridge.outbox.storage.directory_lock import FILE, LOCK
from bridge.outbox.storage.state_directory import MARK
from bridge.telemetry.facts import Fact
from bridge.telemetry.facts.outbox import StateExposed
from tests.bridge.outbox.opened import opened
from tests.kit.informed import Informed

TWO = {"audit": StartPolicy.SNAPSHOT}
NOBODY = 65_534


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@pytest.fixture(autouse=True)
def wide_open() -> Iterator[None]:
    """Whatever the test's own umask is."""
    with umask(0):
        yield


@pytest.fixture
def state(tmp_path: Path) -> Path:
    directory = tmp_path / "state"
    directory.mkdir(mode=0o755)
    return directory


def modes(directory: Path) -> dict[str, str]:
    return {each.name: f"{stat.S_IMODE(each.lstat().st_mode):o}" for each in directory.iterdir()}


def mode_of(path: Path) -> str:
    return f"{stat.S_IMODE(path.stat().st_mode):o}"


async def exposed(directory: Path) -> list[str]:
    facts: list[Fact] = []
    async with opened(directory, TWO, facts=facts):
        pass
    return [fact.reason for fact in facts if isinstance(fact, StateExposed)]


async def test_every_file_is_closed_to_others_from_its_first_byte(state: Path) -> None:
    async with opened(state, TWO) as outbox:
        await (await Informed().begin(outbox)).exports(outbox, "added shop/web")
        assert modes(state) == dict.fromkeys([FILE, f"{FILE}-wal", f"{FILE}-shm", LOCK], "600")


async def test_files_open_to_others_are_closed_at_the_next_start(state: Path) -> None:
    (state / FILE).write_bytes(b"no database" * 1000)
    async with opened(state, TWO):
        pass
    for each in state.iterdir():
        each.chmod(0o644)
    (state / MARK).write_text("a page makes no sense")
    (state / "redaction.key").write_text("secret")

    async with opened(state, TWO):
        assert set(modes(state).values()) == {"600"}
        assert any("aside" in name for name in modes(state))


async def test_a_directory_of_ours_is_closed(state: Path) -> None:
    assert await exposed(state) == []
    assert mode_of(state) == "700"


@pytest.mark.parametrize("shared", ["/tmp is for all", "there is a folder in it"])
async def test_a_directory_in_other_use_is_reported_and_left_as_it_is(state: Path, shared: str) -> None:
    """``state.directory: /var/lib`` is a mistake, and would be a worse one if the start closed that folder."""
    if shared == "/tmp is for all":
        state.chmod(0o1777)
    else:
        (state / "somebody").mkdir()
    before = mode_of(state)

    assert await exposed(state) == [f"it has mode {before}, and other programs use it too"]
    assert mode_of(state) == before


async def test_what_a_file_system_puts_there_is_nobodys(state: Path) -> None:
    (state / "lost+found").mkdir()

    assert await exposed(state) == []
    assert mode_of(state) == "700"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
async def test_a_directory_of_somebody_else_is_said_at_every_start(state: Path) -> None:
    """A volume with fsGroup, an emptyDir."""
    os.chown(state, NOBODY, 0)
    state.chmod(0o2775)

    said = f"it belongs to uid {NOBODY} and has mode 2775; this process has uid 0"
    assert [await exposed(state) for _ in range(2)] == [[said], [said]]
    assert mode_of(state) == "2775"


@pytest.mark.parametrize("name", [FILE, f"{FILE}-wal", f"{FILE}-shm", LOCK, MARK])
async def test_a_symbolic_link_in_place_of_a_file_is_refused(state: Path, tmp_path: Path, name: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    victim.chmod(0o644)
    (state / name).symlink_to(victim)

    with pytest.raises(StateUnusable, match=rf"{name} is no regular file \(a symbolic link is not followed\)"):
        async with opened(state, TWO):
            pass
    assert (victim.read_text(), mode_of(victim)) == ("precious", "644")


async def test_what_is_no_file_at_all_holds_up_nobody(state: Path) -> None:
    os.mkfifo(state / LOCK)

    with pytest.raises(StateUnusable, match="lock is no regular file"):
        async with opened(state, TWO):
            pass


async def test_the_directory_itself_may_be_reached_through_a_link(state: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(state)

    async with opened(tmp_path / "link", TWO) as outbox:
        await (await Informed().begin(outbox)).exports(outbox, "added shop/web")
        assert outbox._store.state_directory.gone() == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes somebody else")
async def test_another_user_takes_no_lock_that_stops_the_next_start() -> None:
    attack = """
import fcntl, os, sys
os.setuid(65534)
for path in sys.argv[1:]:
    try:
        fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except PermissionError:
        continue
    sys.exit(path + " could be locked")
"""
    # Not in tmp_path: that is inside a folder which is closed already.
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        state = Path(folder) / "state"
        state.mkdir()
        async with opened(state, TWO):
            pass
        for entered in (state, state / LOCK, state / FILE):
            entered.chmod(0o755)
        async with opened(state, TWO):
            pass
        paths = [str(state), str(state / LOCK), str(state / FILE)]
        subprocess.run([sys.executable, "-c", attack, *paths], check=True)
