"""Who we say we are: bearer tokens that change under way, and what to do when one is refused."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol, Self

import httpx

from bridge.kube.errors import CredentialsError

REREAD_AFTER = 60.0
"""Seconds after which a file is read again even if it looks the same, as client-go does."""

_LARGEST_TOKEN = 1 << 20
"""Characters."""

FileState = tuple[int, int, int]


class Credential(Protocol):
    """What a request is made with. Both methods raise CredentialsError."""

    @property
    def certificate_changes(self) -> bool:
        """It shows a client certificate, and may show another one later."""
        ...

    async def token(self) -> str | None:
        """The bearer token to send now; None where another means (a certificate) speaks for us."""
        ...

    async def renew(self, refused: str | None) -> bool:
        """The server answered 401 to ``refused``. True if there is something newer to try."""
        ...


class ClusterAuth(httpx.Auth):
    """Sends the token of a credential, and after a 401 once more what it has then."""

    def __init__(self, credential: Credential, whose: str) -> None:
        """``whose`` names the user and file in errors."""
        self._credential = credential
        self._whose = whose

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        token = await self._credential.token()
        response = yield self._with(token, request)
        if response.status_code == httpx.codes.UNAUTHORIZED and await self._credential.renew(token):
            yield self._with(await self._credential.token(), request)

    def _with(self, token: str | None, request: httpx.Request) -> httpx.Request:
        if token is not None:
            if not (token.isascii() and token.isprintable()):
                raise CredentialsError(f"{self._whose}: the token has characters in it that no header can carry")
            request.headers["Authorization"] = f"Bearer {token}"
        if self._credential.certificate_changes:
            # A connection that is kept would go on with the certificate it was made with.
            request.headers["Connection"] = "close"
        return request


class Several:
    """A certificate and a token at once: the first token there is."""

    def __init__(self, credentials: Sequence[Credential]) -> None:
        self._credentials = credentials

    @property
    def certificate_changes(self) -> bool:
        return any(each.certificate_changes for each in self._credentials)

    async def token(self) -> str | None:
        tokens = [await each.token() for each in self._credentials]
        return next((each for each in tokens if each is not None), None)

    async def renew(self, refused: str | None) -> bool:
        return any([await each.renew(refused) for each in self._credentials])


@dataclass(frozen=True, slots=True)
class FixedToken:
    value: str = field(repr=False)
    certificate_changes: ClassVar[bool] = False

    async def token(self) -> str:
        return self.value

    async def renew(self, refused: str | None) -> bool:
        return False


class TokenFile:
    """A token in a file that somebody else renews: Kubernetes replaces a service account's about every hour.

    It is read again when the file changed, each minute, and on a 401. While it cannot be read, the last token goes on.
    """

    certificate_changes: ClassVar[bool] = False

    def __init__(
        self,
        path: Path,
        fallback: str | None = None,
        named: str = "tokenFile",
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``fallback`` is used until the file can be read; without one, that is an error, which says how the file is
        ``named``."""
        self._path = path
        self._named = named
        self._token = fallback
        self._clock = clock
        self._state: FileState | None = None
        self._read_at = float("-inf")

    def read_at_once(self) -> Self:
        """Raises CredentialsError."""
        self._read()
        return self

    async def token(self) -> str:
        state = file_state(self._path)
        if self._token is None or state != self._state or self._clock() - self._read_at >= REREAD_AFTER:
            self._read()
        assert self._token is not None  # noqa: S101 (or _read raised)
        return self._token

    async def renew(self, refused: str | None) -> bool:
        self._read()
        return self._token != refused

    def _read(self) -> None:
        state = file_state(self._path)
        try:
            with self._path.open(encoding="utf-8") as file:
                token = file.read(_LARGEST_TOKEN).strip()
        except (OSError, UnicodeDecodeError) as error:
            trouble = f"{self._named}: {self._path} cannot be read: {reason_of(error)}"
        else:
            trouble = "" if token else f"{self._named}: {self._path} is empty, and a token is expected in it"
        self._read_at = self._clock()
        if not trouble:
            self._token, self._state = token, state
        elif self._token is None:
            raise CredentialsError(trouble)


def file_state(path: Path) -> FileState | None:
    """Differs when the file was written or replaced (Kubernetes swaps a symbolic link); None when it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def reason_of(error: Exception) -> str:
    """In the system's words, without the path that the message names already."""
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else type(error).__name__
