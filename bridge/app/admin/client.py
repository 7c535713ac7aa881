"""Sends commands to a running bridge over its admin socket."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import aiohttp
import msgspec

from bridge.app.admin.commands import (
    LARGEST_LINE,
    LARGEST_REQUEST,
    PREFIX,
    AdminCommand,
    AdminOperations,
    Arguments,
    Refusal,
)
from bridge.http.socket_file import SOCKET, found
from bridge.model.admin import About, Followed, UnknownTarget

T = TypeVar("T")

_HOST = "http://bridge"
"""A placeholder: the connector connects to the socket, whatever host the URL names."""
_GREETING_SECONDS = 5.0
_SILENCE_SECONDS = 30.0
"""The bridge writes every few seconds."""
_ABOUT = msgspec.json.Decoder(About)
_FOLLOWED = msgspec.json.Decoder(Followed)


class NotRunning(Exception):
    """No bridge runs on this state directory: there is no socket, or no listener on it."""


class NoAnswer(Exception):
    """A socket exists, and a bridge may be running, but does not answer."""


class CommandFailed(Exception):
    """The running bridge failed at the command. The message has its reason."""


class AdminClient(AdminOperations):
    """The commands of the bridge that runs on ``directory``, inside ``async with``.

    Entering raises NotRunning or NoAnswer. Every command raises them too, if the bridge has ended since; after NoAnswer
    the command may have been done or not. A command raises CommandFailed if the bridge failed at it.
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
            greeting = await self._exchange("GET", f"{PREFIX}/", {}, None, _GREETING_SECONDS)
            self.about = _decoded(greeting, _ABOUT.decode) if greeting else About()
            # Up to here, an error closes the session and the socket's descriptor.
            self._exit_stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._exit_stack.aclose()

    async def ask(self, command: AdminCommand, arguments: Arguments) -> Any:
        path, query, body = command.encode_request(arguments)
        answer = await self._exchange(command.method, path, query, body, command.seconds)
        return _decoded(answer, command.decode_answer)

    async def follow(self, sink: str | None = None) -> AsyncGenerator[Followed, None]:
        """Ends when the bridge ends it. Raises NoAnswer if the bridge is silent or its answer breaks off."""
        query = {} if sink is None else {"sink": sink}
        timeout = aiohttp.ClientTimeout(total=None, sock_read=_SILENCE_SECONDS)
        try:
            async with self._session.get(f"{_HOST}{PREFIX}/follow", params=query, timeout=timeout) as answer:
                if answer.status >= 400:
                    raise _refused(answer, await answer.read())
                async for line in _lines(answer.content):
                    yield _decoded(line, _FOLLOWED.decode)
        except aiohttp.ClientConnectorError as error:
            raise self._unconnected(error.os_error) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise NoAnswer(f"{self._path}: the bridge ended, or is silent") from error

    async def _exchange(
        self, method: str, path: str, query: Mapping[str, str | int], body: bytes | None, seconds: float
    ) -> bytes:
        if body is not None and len(body) > LARGEST_REQUEST:
            raise CommandFailed("too many dead letters for a request: name fewer, or use --all")
        timeout = aiohttp.ClientTimeout(total=seconds)
        try:
            async with self._session.request(
                method, f"{_HOST}{path}", data=body, params=query, timeout=timeout
            ) as answer:
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


async def running_on(directory: Path) -> About | None:
    """The bridge that runs on the state directory; None without a bridge, or if it does not answer."""
    try:
        async with AdminClient(directory) as running:
            return running.about
    except (NotRunning, NoAnswer):
        return None


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


def _decoded(body: bytes, decode: Callable[[bytes], T]) -> T:
    try:
        return decode(body)
    except msgspec.MsgspecError as error:
        raise CommandFailed(f"the bridge's answer is unknown to this version: {error}") from error


def _refused(answer: aiohttp.ClientResponse, body: bytes) -> Exception:
    """A 404 with a Refusal is an UnknownTarget. A 404 in another form comes from a bridge of another version."""
    try:
        reason = msgspec.json.decode(body, type=Refusal).error
    except msgspec.MsgspecError:
        return CommandFailed(f"the bridge answered {answer.status} {answer.reason}")
    return UnknownTarget(reason) if answer.status == 404 else CommandFailed(reason)
