"""The admin socket: both ends of it, over a real socket, with a state in memory behind it."""

from __future__ import annotations

import asyncio
import io
import os
import socket
import stat
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import aiohttp
import pytest

from bridge.app.admin import client as admin_client
from bridge.app.admin.client import AdminClient, CommandFailed, NoAnswer, NotRunning
from bridge.app.admin.commands import COMMANDS, LARGEST_PAGE, LARGEST_REQUEST
from bridge.app.admin.server import AdminServer
from bridge.http import socket_file
from bridge.http.socket_file import SOCKET, SocketFile
from bridge.model.admin import (
    Cursors,
    CursorStatus,
    ReloadRequest,
    ReplayRequest,
    SnapshotRequest,
    StateReport,
    UnknownTarget,
)
from bridge.telemetry.facts import Fact
from bridge.telemetry.facts.process import OperatorCommand
from tests.kit.deadlines import BUSY
from tests.kit.fake_admin import FakeAdmin, a_dead_letter


@pytest.fixture
def admin() -> FakeAdmin:
    return FakeAdmin()


@pytest.fixture
async def server(tmp_path: Path, admin: FakeAdmin) -> AsyncIterator[AdminServer]:
    async with AdminServer(tmp_path, admin) as running:
        yield running


@pytest.fixture
async def client(server: AdminServer, tmp_path: Path) -> AsyncIterator[AdminClient]:
    async with AdminClient(tmp_path) as connected:
        yield connected


@pytest.fixture
async def raw(server: AdminServer, tmp_path: Path) -> AsyncIterator[aiohttp.ClientSession]:
    """Whatever can be sent through the socket, not only what the client would send."""
    connector = aiohttp.UnixConnector(str(tmp_path / SOCKET))
    async with aiohttp.ClientSession("http://bridge", connector=connector) as session:
        yield session


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture(params=["through /proc", "by its path"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How the file is reached: as on Linux, and as elsewhere."""
    if request.param == "by its path":
        monkeypatch.setattr(socket_file, "_DESCRIPTORS", Path("/proc/self/missing"))


def a_folder_of_200_bytes(above: Path) -> Path:
    folder = above
    while len(os.fsencode(folder)) < 200:
        folder /= "deep" * 10
    folder.mkdir(parents=True)
    return folder


def left_behind(directory: Path) -> Path:
    """The socket file of a process that was killed."""
    path = directory / SOCKET
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(path))
        killed.listen()
    return path


# ── What is asked, and what is answered ──────────────────────────────────────


def call(command: str, *arguments: object, **named: object) -> tuple[str, tuple[object, ...], dict[str, object]]:
    return command, arguments, named


CALLS = (
    call("cursors"),
    *(
        call("replay", ReplayRequest("hook", start, resource="deployments.apps", namespace="shop"))
        for start in (7, "beginning", "2026-11-21T08:30:00.000000Z")
    ),
    call("snapshot", SnapshotRequest("hook", "deployments.apps", "shop", "object.spec.replicas > 1")),
    call("snapshots"),
    call("cancel_snapshot", "hook"),
    call("dead_letters"),
    call("dead_letters", "hook", after=1, limit=1),
    call("dead_letters", after=4),
    call("dead_letter_chains", "hook", after=1, limit=1),
    call("dead_letter_body", 7),
    *(call(command, "hook", [1, 3]) for command in ("retry", "drop")),
    *(call(command, "hook", []) for command in ("retry", "drop")),
    *(call(command, "hook") for command in ("retry", "drop")),
    call("retry_sink", "hook"),
    call("pause_sink", "hook"),
    call("resume_sink", "hook"),
    call("reload", ReloadRequest(4211)),
    call("status"),
    call("state_check"),
)


@pytest.mark.parametrize(("command", "arguments", "named"), CALLS)
async def test_a_command_and_its_answer_arrive_as_they_are(
    client: AdminClient, admin: FakeAdmin, command: str, arguments: Sequence[object], named: Mapping[str, object]
) -> None:
    admin.found = Cursors(
        first=1,
        last=2**63 - 1,
        sinks=[
            CursorStatus("hook", 7, 3, 4096, 12.5, True),
            CursorStatus("gone", 0, 10, 99, 3600.0, False, backfill="snapshot", backfill_left=4),
        ],
    )
    admin.stored = [a_dead_letter(1), a_dead_letter(2, parked=True), a_dead_letter(3, retrying=True)]
    admin.bodies[7] = b'{"kind": "Pod",\n "big": "' + b"x" * (3 * LARGEST_REQUEST) + b'"}'
    admin.report = StateReport("/s", "3.51.0", 1, "", ["page 7: wrong", "page 9: wrong"], 1, 2, 3, 4, 5, 6, 7, 8)
    admin.changes = command != "resume_sink"

    through_the_socket = await getattr(client, command)(*arguments, **named)

    assert through_the_socket == await getattr(admin, command)(*arguments, **named)
    assert admin.asked[0] == admin.asked[1]


def test_every_command_is_called_here() -> None:
    assert {command for command, _, _ in CALLS} == COMMANDS.keys()


@pytest.mark.parametrize("name", ["null", "7", "true", "", "a b", "a&sink=b", "a/../b", "ä%2F", "#"])
async def test_a_sink_is_asked_for_by_its_very_name(client: AdminClient, admin: FakeAdmin, name: str) -> None:
    with pytest.raises(UnknownTarget):
        await client.dead_letters(name)
    with pytest.raises(UnknownTarget):
        await client.retry(name)
    assert [asked[1] for asked in admin.asked] == [name, name]


async def test_what_one_asks_does_not_wait_for_what_another_asked(tmp_path: Path) -> None:
    class Checking(FakeAdmin):
        began = asyncio.Event()
        may_end = asyncio.Event()

        async def state_check(self) -> StateReport:
            self.began.set()
            await self.may_end.wait()
            return self.report

    admin = Checking()
    admin.stored = [a_dead_letter(number) for number in range(1, 4)]
    async with (
        AdminServer(tmp_path, admin),
        AdminClient(tmp_path) as one,
        AdminClient(tmp_path) as other,
        asyncio.TaskGroup() as group,
    ):
        check = group.create_task(one.state_check())
        await admin.began.wait()
        dead_letters = [group.create_task(each.dead_letters()) for each in (one, other) for _ in range(20)]
        assert all(page == admin.stored for page in await asyncio.gather(*dead_letters))
        assert not check.done()
        admin.may_end.set()
    assert check.result() == admin.report


# ── What goes wrong ──────────────────────────────────────────────────────────


async def test_what_does_not_exist_is_said_in_the_words_of_the_bridge(
    client: AdminClient, raw: aiohttp.ClientSession
) -> None:
    with pytest.raises(UnknownTarget, match=r"^there is no sink audit; there is: hook$"):
        await client.replay(ReplayRequest("audit", "beginning"))
    with pytest.raises(UnknownTarget, match=r"^there is no dead letter 5$"):
        await client.dead_letter_body(5)
    async with raw.get("/v1/dead-letters/5/object") as answer:
        assert (answer.status, await answer.json()) == (404, {"error": "there is no dead letter 5"})


async def test_an_error_goes_to_the_client_and_the_server_goes_on(client: AdminClient, admin: FakeAdmin) -> None:
    admin.error = RuntimeError("no room in /state/\udcff.db")
    with pytest.raises(CommandFailed, match=r"^RuntimeError: no room in /state/\?\.db$"):
        await client.cursors()
    admin.error = None
    assert await client.cursors() == admin.found


async def test_an_endless_reason_is_cut(client: AdminClient, admin: FakeAdmin) -> None:
    admin.error = RuntimeError("x" * 10_000_000)
    with pytest.raises(CommandFailed) as failed:
        await client.cursors()
    assert len(str(failed.value)) == 1000


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b'{"sink": "hook"}',
        b'{"sink": 7, "numbers": null}',
        b'{"sink": "hook", "numbers": [0]}',
        b'{"sink": "hook", "numbers": ["1"]}',
        b'{"sink": "hook", "numbers": [9223372036854775808]}',
        b'{"sink": "hook", "numbers": null, "all": false}',
    ],
)
async def test_a_request_that_is_not_understood_drops_nothing(
    raw: aiohttp.ClientSession, admin: FakeAdmin, body: bytes
) -> None:
    async with raw.post("/v1/dead-letters/drop", data=body) as answer:
        assert answer.status == 400
        assert "error" in await answer.json()
    assert admin.asked == []


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_has_a_maximum_size_announced_or_not(
    raw: aiohttp.ClientSession, admin: FakeAdmin, chunked: bool
) -> None:
    async def endless() -> AsyncIterator[bytes]:
        yield b'{"sink": "hook", "numbers": ['
        for _ in range(LARGEST_REQUEST // 2**15):
            yield b"1, " * 2**15

    data = endless() if chunked else io.BytesIO(b" " * (LARGEST_REQUEST + 1))
    async with raw.post("/v1/dead-letters/drop", data=data) as answer:
        assert answer.status == 413
    assert admin.asked == []


async def test_100_000_letters_fit_one_request_and_more_are_refused(client: AdminClient, admin: FakeAdmin) -> None:
    assert await client.drop("hook", list(range(1, 100_001))) == 100_000
    admin.asked.clear()
    with pytest.raises(CommandFailed, match="too many dead letters"):
        await client.drop("hook", [2**62] * 100_000)
    assert admin.asked == []


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        *(
            ("GET", f"/v1/dead-letters?{query}", 400)
            for query in ("after=-1", "after=x", "limit=0", f"limit={LARGEST_PAGE + 1}", "limit=1.5", "sinks=hook")
        ),
        *(("GET", f"/v1/dead-letters/{number}/object", 400) for number in ("0", "-1", "x", "9223372036854775808")),
        ("POST", "/v1/cursors", 405),
        ("GET", "/v1/dead-letters/drop", 405),
        ("GET", "/v2/cursors", 404),
    ],
)
async def test_a_request_beyond_bounds_or_to_another_path_is_not_carried_out(
    raw: aiohttp.ClientSession, admin: FakeAdmin, method: str, path: str, status: int
) -> None:
    async with raw.request(method, path) as answer:
        assert answer.status == status
    assert admin.asked == []


async def test_a_bridge_of_another_version_is_no_unknown_sink(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_client, "PREFIX", "/v2")
    async with AdminServer(tmp_path, FakeAdmin()):
        with pytest.raises(CommandFailed, match="404"):
            await AdminClient(tmp_path).__aenter__()


async def test_a_bridge_that_ends_before_its_answer_leaves_it_open(tmp_path: Path) -> None:
    async def greet_and_leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    async with await asyncio.start_unix_server(greet_and_leave, tmp_path / SOCKET), AdminClient(tmp_path) as client:
        with pytest.raises(NoAnswer, match="ended before its answer"):
            await client.drop("hook")


async def test_a_bridge_that_stands_still_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_client, "_GREETING_SECONDS", 0.05)
    with socket.socket(socket.AF_UNIX) as stopped:
        stopped.bind(str(tmp_path / SOCKET))
        stopped.listen()
        with pytest.raises(NoAnswer, match=r"admin\.sock: no answer within 0\.05 seconds"):
            await AdminClient(tmp_path).__aenter__()


# ── The socket file ──────────────────────────────────────────────────────────


@pytest.mark.usefixtures("way")
async def test_every_command_is_logged_with_its_asker_and_outcome(tmp_path: Path, admin: FakeAdmin) -> None:
    facts: list[Fact] = []
    admin.stored = [a_dead_letter(1), a_dead_letter(2)]
    admin.bodies = {1: b"{}"}
    async with AdminServer(tmp_path, admin, facts.append), AdminClient(tmp_path) as client:
        await client.cursors()
        await client.replay(ReplayRequest("hook", 12, resource="pods", namespace="shop"))
        await client.dead_letters("hook")
        await client.dead_letters("hook", after=1)
        await client.dead_letter_body(1)
        await client.retry("hook", list(range(1, 15)))
        with pytest.raises(UnknownTarget):
            await client.drop("no-such-sink")
        await client.state_check()
        await client.pause_sink("hook")
        await client.reload(ReloadRequest(4211))

    delivered = [fact for fact in facts if isinstance(fact, OperatorCommand)]
    assert [(fact.command, fact.result, fact.done) for fact in delivered] == [
        ("cursors", "1 sink", True),
        ("replay hook --from 12 --resource pods --namespace shop", "30 records", True),
        ("dead-letters list hook", "2 dead letters", True),
        ("dead-letters list hook", "1 dead letter", True),
        ("dead-letters show 1", "2 bytes", True),
        ("dead-letters retry hook 1 2 3 4 5 6 7 8 9 10 and 4 more", delivered[5].result, True),
        ("dead-letters drop no-such-sink --all", delivered[6].result, False),
        ("state check", "0 problems", True),
        ("sinks pause hook", delivered[8].result, True),
        ("reload --allow-deletes 4211", "1 change", True),
    ]
    assert [fact.continued for fact in delivered] == [False] * 3 + [True] + [False] * 6
    assert {(fact.uid, fact.pid) for fact in delivered} == {(os.getuid(), os.getpid())}


async def test_silent_connections_keep_nobody_from_asking(
    server: AdminServer, tmp_path: Path, admin: FakeAdmin
) -> None:
    silent = [await asyncio.open_unix_connection(tmp_path / SOCKET) for _ in range(100)]
    async with AdminClient(tmp_path) as client:
        assert await client.cursors() == admin.found
    async with asyncio.timeout(10 * BUSY):
        with suppress(ConnectionResetError):
            assert await silent[0][0].read() == b"", "the first of them was cut"
    for _, writer in silent:
        writer.transport.abort()


async def test_where_no_bridge_runs_there_is_nobody(tmp_path: Path) -> None:
    with pytest.raises(NotRunning, match=r"admin\.sock: no bridge runs here"):
        await AdminClient(tmp_path).__aenter__()
    with pytest.raises(NotRunning):
        await AdminClient(tmp_path / "missing").__aenter__()
    (tmp_path / "file").touch()
    with pytest.raises(NotRunning):
        await AdminClient(tmp_path / "file").__aenter__()


@pytest.mark.usefixtures("way")
async def test_a_killed_bridges_socket_answers_nobody_until_the_next(tmp_path: Path) -> None:
    left_behind(tmp_path)
    with pytest.raises(NotRunning, match=r"admin\.sock: no bridge listens"):
        await AdminClient(tmp_path).__aenter__()
    async with AdminServer(tmp_path, FakeAdmin()), AdminClient(tmp_path) as client:
        assert await client.retry("hook", [1]) == 1


@pytest.mark.usefixtures("way", "open_umask")
async def test_only_its_owner_may_open_the_socket_from_the_beginning(tmp_path: Path) -> None:
    file = SocketFile(tmp_path)
    try:
        assert stat.S_IMODE((tmp_path / SOCKET).stat().st_mode) == 0o600
        with pytest.raises(ConnectionRefusedError), socket.socket(socket.AF_UNIX) as early:
            early.connect(str(tmp_path / SOCKET))
    finally:
        file.remove()
    async with AdminServer(tmp_path, FakeAdmin()):
        assert stat.S_IMODE((tmp_path / SOCKET).stat().st_mode) == 0o600


@pytest.mark.usefixtures("open_umask")
def test_the_mode_is_there_from_the_first_moment_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a change of the umask, which every thread of the process would have."""
    monkeypatch.delattr(Path, "chmod")
    monkeypatch.delattr(os, "umask")
    file = SocketFile(tmp_path)
    assert stat.S_IMODE((tmp_path / SOCKET).stat().st_mode) == 0o600
    file.remove()


@pytest.mark.usefixtures("way")
async def test_the_file_goes_with_the_bridge_and_comes_again(tmp_path: Path, admin: FakeAdmin) -> None:
    for _ in range(2):
        async with AdminServer(tmp_path, admin), AdminClient(tmp_path) as client:
            assert await client.cursors() == admin.found
        assert not os.listdir(tmp_path)  # noqa: PTH208


async def test_a_file_that_another_process_made_meanwhile_stays(tmp_path: Path, admin: FakeAdmin) -> None:
    async with AdminServer(tmp_path, admin):
        (tmp_path / SOCKET).unlink()
        other = left_behind(tmp_path)
    assert other.is_socket()


async def test_a_file_that_somebody_removed_is_not_missed(tmp_path: Path, admin: FakeAdmin) -> None:
    async with AdminServer(tmp_path, admin):
        (tmp_path / SOCKET).unlink()


@pytest.mark.parametrize("target", ["a socket", "a file", "nothing"])
@pytest.mark.usefixtures("way")
async def test_a_symlink_is_followed_by_neither_side(tmp_path: Path, target: str, admin: FakeAdmin) -> None:
    state, elsewhere = tmp_path / "state", tmp_path / "elsewhere"
    state.mkdir()
    elsewhere.mkdir()
    aim = elsewhere / SOCKET
    (state / SOCKET).symlink_to(aim)
    if target == "a file":
        aim.write_text("kept")
    if target == "a socket":
        async with AdminServer(elsewhere, admin):
            with pytest.raises(NoAnswer, match=r"admin\.sock is not a socket"):
                await AdminClient(state).__aenter__()
            with pytest.raises(FileExistsError):
                await AdminServer(state, admin).start()
            async with AdminClient(elsewhere):
                pass
        return

    with pytest.raises(FileExistsError, match="the bridge needs this name for its socket"):
        await AdminServer(state, admin).start()
    with pytest.raises(NoAnswer):
        await AdminClient(state).__aenter__()

    assert (state / SOCKET).readlink() == aim
    assert aim.exists() == (target == "a file")


async def test_a_state_directory_may_itself_be_a_symlink(tmp_path: Path, admin: FakeAdmin) -> None:
    (tmp_path / "volume").mkdir()
    (tmp_path / "state").symlink_to(tmp_path / "volume")
    async with AdminServer(tmp_path / "state", admin), AdminClient(tmp_path / "volume") as client:
        assert await client.cursors() == admin.found


async def test_a_state_directory_may_be_deeper_than_a_socket_path(tmp_path: Path, admin: FakeAdmin) -> None:
    directory = a_folder_of_200_bytes(tmp_path)
    left_behind(tmp_path).rename(directory / SOCKET)

    async with AdminServer(directory, admin), AdminClient(directory) as client:
        assert await client.cursors() == admin.found

    assert not os.listdir(directory)  # noqa: PTH208


async def test_a_failed_start_leaves_nothing_open(tmp_path: Path, admin: FakeAdmin) -> None:
    (tmp_path / SOCKET).write_text("a file")
    other = tmp_path / "killed"
    other.mkdir()
    left_behind(other)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208

    for _ in range(3):
        with pytest.raises(FileExistsError):
            await AdminServer(tmp_path, admin).start()
        with pytest.raises(NotRunning):
            await AdminClient(other).__aenter__()
        async with AdminServer(other, admin), AdminClient(other):
            pass
        left_behind(other)

    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
    assert (tmp_path / SOCKET).read_text() == "a file"


async def test_a_missing_directory_is_an_error_of_the_operating_system(tmp_path: Path, admin: FakeAdmin) -> None:
    with pytest.raises(FileNotFoundError, match="missing"):
        await AdminServer(tmp_path / "missing", admin).start()
