"""Authenticates requests by bearer tokens that change over time.

A token is fixed, or stands in a file that another program renews, or is printed by a plugin (``exec_plugin``). After a
401, the credential is asked for a newer one, with which the request is repeated once.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

import httpx

REREAD_AFTER = 60.0
"""Seconds after which an apparently unchanged file is read again, as in client-go (``transport/token_source.go``)."""

_LARGEST_TOKEN = 1 << 20
"""Characters."""

FileState = tuple[int, int, int]


class CredentialsError(Exception):
    """No connection or no usable credentials are configured. The message names the file, context or user and the
    remedy; it never holds a token."""


class Credential(ABC):
    """The credentials of requests. Each method raises CredentialsError."""

    certificate_changes = False
    """It has a client certificate, which may be replaced later."""

    def __init__(self, whose: str) -> None:
        """``whose`` names the user and file in errors."""
        self._whose = whose

    @abstractmethod
    async def token(self) -> str | None:
        """The current bearer token; None if a certificate authenticates us instead."""

    @abstractmethod
    async def renew(self, refused: str | None) -> bool:
        """Called after a 401 to ``refused``. True if a newer credential is available."""

    async def sign(self, request: httpx.Request) -> str | None:
        """Adds the current token to the request, and returns it."""
        token = await self.token()
        if token is not None:
            if not (token.isascii() and token.isprintable()):
                raise CredentialsError(f"{self._whose}: the token has characters that no header can carry")
            request.headers["Authorization"] = f"Bearer {token}"
        if self.certificate_changes:
            # A pooled connection keeps the certificate of its handshake.
            request.headers["Connection"] = "close"
        return token


class FixedToken(Credential):
    def __init__(self, value: str, whose: str) -> None:
        super().__init__(whose)
        self._value = value

    async def token(self) -> str:
        return self._value

    async def renew(self, refused: str | None) -> bool:
        return False


class TokenFileCredential(Credential):
    """A token in a file that another program renews: the kubelet replaces a service account's token about every hour.

    The file is read at once, so that an unreadable one ends the start, while the operator is there to mend it; and
    again when its state changes, after REREAD_AFTER seconds, and after a 401. While it is unreadable, the last token
    stays in use.
    """

    def __init__(
        self,
        path: Path,
        whose: str,
        fallback: str | None = None,
        named: str = "tokenFile",
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``fallback`` is used until the file can be read. Without a fallback, an unreadable file is an error, in which
        ``named`` names the setting."""
        super().__init__(whose)
        self._path = path
        self._named = named
        self._token = fallback or ""
        self._clock = clock
        self._state: FileState | None = None
        self._read()

    async def token(self) -> str:
        if file_state(self._path) != self._state or self._clock() - self._read_at >= REREAD_AFTER:
            self._read()
        return self._token

    async def renew(self, refused: str | None) -> bool:
        self._read()
        return self._token != refused

    def _read(self) -> None:
        # Before the read: a write in between then shows as another state at the next request.
        state = file_state(self._path)
        try:
            with self._path.open(encoding="utf-8") as file:
                token = file.read(_LARGEST_TOKEN).strip()
            failure = "" if token else f"{self._named}: {self._path} is empty, and a token is expected in it"
        except (OSError, UnicodeDecodeError) as error:
            failure = f"{self._named}: {self._path} cannot be read: {reason_of(error)}"
        self._read_at = self._clock()
        if not failure:
            self._token, self._state = token, state
        elif not self._token:
            raise CredentialsError(failure)


def file_state(path: Path) -> FileState | None:
    """Inode, modification time (ns) and size (bytes), which differ after a write or a replacement (the kubelet swaps a
    symbolic link). None if the file does not exist."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def reason_of(error: Exception) -> str:
    """The operating system's text for an error, without the path, which the caller's message names already."""
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else type(error).__name__
