"""Sends commands to a running bridge over its admin socket."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import aiohttp
import msgspec

from bridge.model.admin import (
    About,
    Cursors,
    DeadLetter,
    DeadLetterChain,
    Followed,
    Reloaded,
    ReloadRequest,
    Replayed,
    ReplayRequest,
    SnapshotRequest,
    StateReport,
    UnknownTarget,
)
from bridge.model.status import SnapshotStatus, StatusSnapshot
from bridge.operations.admin.protocol import (
    LARGEST_LINE,
    LARGEST_PAGE,
    LARGEST_REQUEST,
    PREFIX,
    SOCKET,
    Changed,
    Count,
    DeadLetterChoice,
    DeadLetterQuery,
    Refusal,
    SinkName,
    found,
)

T = TypeVar("T")

_HOST = "http://bridge"
"""A placeholder: the connector connects to the socket, whatever host the URL names."""
_GREETING_SECONDS = 5.0
_ANSWER_SECONDS = 300.0
_CHECK_SECONDS = 86_400.0
_SILENCE_SECONDS = 30.0
"""The bridge writes every few seconds."""


class NotRunning(Exception):
    """No bridge runs on this state directory: there is no socket, or no listener on it."""


class NoAnswer(Exception):
    """A socket exists, and a bridge may be running, but does not answer."""


class CommandFailed(Exception):
    """The running bridge failed at the command. The message has its reason."""


class AdminClient:
    """``AdminOperations`` of the bridge that runs on ``directory``, inside ``async with``.

    Entering raises NotRunning or NoAnswer. Every method raises them too, if the bridge has ended since; after NoAnswer
    the command may have been done or not. A method raises CommandFailed if the bridge failed at it.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path = directory / SOCKET
        self._exit_stack = AsyncExitStack()
        self._session: aiohttp.ClientSession
        self.about = About()
        """Identity of the running bridge, once entered."""

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            try:
                connector = aiohttp.UnixConnector(stack.enter_context(found(self._directory)))
            except (FileNotFoundError, NotADirectoryError) as error:
                raise NotRunning(f"{self._path}: no bridge runs here") from error
            except FileExistsError as error:
                raise NoAnswer(str(error)) from error
            except OSError as error:
                raise NoAnswer(f"{self._path}: {error.strerror}") from error
            self._session = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
            greeting = await self._ask("GET", "/", seconds=_GREETING_SECONDS)
            self.about = _decoded(greeting, About) if greeting else About()
            # Up to here, an error closes the session and the socket's descriptor.
            self._exit_stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._exit_stack.aclose()

    async def cursors(self) -> Cursors:
        return _decoded(await self._ask("GET", "/cursors"), Cursors)

    async def replay(self, request: ReplayRequest) -> Replayed:
        return _decoded(await self._ask("POST", "/replay", request), Replayed)

    async def snapshot(self, request: SnapshotRequest) -> SnapshotStatus:
        return _decoded(await self._ask("POST", "/snapshots", request), SnapshotStatus)

    async def snapshots(self) -> list[SnapshotStatus]:
        return _decoded(await self._ask("GET", "/snapshots"), list[SnapshotStatus])

    async def cancel_snapshot(self, sink: str) -> SnapshotStatus:
        return _decoded(await self._ask("POST", "/snapshots/cancel", SinkName(sink)), SnapshotStatus)

    async def dead_letters(
        self, sink: str | None = None, *, after: int = 0, limit: int = LARGEST_PAGE
    ) -> list[DeadLetter]:
        """``limit``: at most 1000."""
        query = msgspec.to_builtins(DeadLetterQuery(sink, after, limit))
        return _decoded(await self._ask("GET", "/dead-letters", query=query), list[DeadLetter])

    async def dead_letter_chains(
        self, sink: str | None = None, *, after: int = 0, limit: int = LARGEST_PAGE
    ) -> list[DeadLetterChain]:
        """``limit``: at most 1000."""
        query = msgspec.to_builtins(DeadLetterQuery(sink, after, limit))
        return _decoded(await self._ask("GET", "/dead-letters/chains", query=query), list[DeadLetterChain])

    async def dead_letter_body(self, number: int) -> bytes:
        return await self._ask("GET", f"/dead-letters/{number}/object")

    async def retry(self, sink: str, numbers: Sequence[int] | None = None) -> int:
        return _decoded(await self._ask("POST", "/dead-letters/retry", _chosen(sink, numbers)), Count).count

    async def drop(self, sink: str, numbers: Sequence[int] | None = None) -> int:
        return _decoded(await self._ask("POST", "/dead-letters/drop", _chosen(sink, numbers)), Count).count

    async def retry_sink(self, sink: str) -> bool:
        return _decoded(await self._ask("POST", "/sinks/retry", SinkName(sink)), Changed).changed

    async def pause_sink(self, sink: str) -> bool:
        return _decoded(await self._ask("POST", "/sinks/pause", SinkName(sink)), Changed).changed

    async def resume_sink(self, sink: str) -> bool:
        return _decoded(await self._ask("POST", "/sinks/resume", SinkName(sink)), Changed).changed

    async def state_check(self) -> StateReport:
        return _decoded(await self._ask("GET", "/state", seconds=_CHECK_SECONDS), StateReport)

    async def reload(self, request: ReloadRequest) -> Reloaded:
        return _decoded(await self._ask("POST", "/reload", request), Reloaded)

    async def status(self) -> StatusSnapshot:
        return _decoded(await self._ask("GET", "/status", seconds=_GREETING_SECONDS), StatusSnapshot)

    async def follow(self, sink: str | None = None) -> AsyncGenerator[Followed, None]:
        """Ends when the bridge ends it. Raises NoAnswer if the bridge is silent or its answer breaks off."""
        query = {} if sink is None else {"sink": sink}
        timeout = aiohttp.ClientTimeout(total=None, sock_read=_SILENCE_SECONDS)
        try:
            async with self._session.get(f"{_HOST}{PREFIX}/follow", params=query, timeout=timeout) as answer:
                if answer.status >= 400:
                    raise _refused(answer, await answer.read())
                async for line in _lines(answer.content):
                    yield _decoded(line, Followed)
        except aiohttp.ClientConnectorError as error:
            raise self._unconnected(error.os_error) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise NoAnswer(f"{self._path}: the bridge ended, or is silent") from error

    async def _ask(
        self,
        method: str,
        path: str,
        value: msgspec.Struct | None = None,
        *,
        query: dict[str, str | int] | None = None,
        seconds: float = _ANSWER_SECONDS,
    ) -> bytes:
        body = None if value is None else msgspec.json.encode(value)
        if body is not None and len(body) > LARGEST_REQUEST:
            raise CommandFailed("too many dead letters for a request: name fewer, or use --all")
        timeout = aiohttp.ClientTimeout(total=seconds)
        url = f"{_HOST}{PREFIX}{path}"
        try:
            async with self._session.request(method, url, data=body, params=query, timeout=timeout) as answer:
                body = await answer.read()
        except aiohttp.ClientConnectorError as error:
            raise self._unconnected(error.os_error) from error
        except TimeoutError as error:
            raise NoAnswer(f"{self._path}: no answer within {seconds:g} seconds") from error
        except (aiohttp.ClientError, OSError) as error:
            raise NoAnswer(f"{self._path}: the bridge ended before its answer") from error
        if answer.status >= 400:
            raise _refused(answer, body)
        return body

    def _unconnected(self, error: OSError) -> Exception:
        if isinstance(error, (FileNotFoundError, ConnectionRefusedError)):
            return NotRunning(f"{self._path}: no bridge listens")
        return NoAnswer(f"{self._path}: {error.strerror or error}")


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    # ``readline`` of the library bounds a line by 64 KiB.
    rest: list[bytes] = []
    size = 0
    async for part in content.iter_any():
        *lines, last = part.split(b"\n")
        for line in lines:
            yield b"".join([*rest, line])
            rest = []
            size = 0
        rest.append(last)
        size += len(last)
        if size > LARGEST_LINE:
            raise CommandFailed("the bridge's answer has no end of a line")


def _chosen(sink: str, numbers: Sequence[int] | None) -> DeadLetterChoice:
    return DeadLetterChoice(sink, None if numbers is None else list(numbers))


def _decoded(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.MsgspecError as error:
        raise CommandFailed(f"the bridge's answer is unknown to this version: {error}") from error


def _refused(answer: aiohttp.ClientResponse, body: bytes) -> Exception:
    """A 404 with a Refusal is an UnknownTarget. A 404 in another form comes from a bridge of another version."""
    try:
        reason = msgspec.json.decode(body, type=Refusal).error
    except msgspec.MsgspecError:
        return CommandFailed(f"the bridge answered {answer.status} {answer.reason}")
    return UnknownTarget(reason) if answer.status == 404 else CommandFailed(reason)
