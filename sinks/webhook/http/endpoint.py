"""A URL with its HTTP client: TLS files, permitted addresses, deadlines, and failures in words for the operator."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from httpx_aiohttp import AiohttpTransport

from sinks.base import always
from sinks.errors import NotLeading, SinkUnavailable
from sinks.tls import TlsFiles
from sinks.webhook.http.client import HTTP_ERRORS, HttpClient, HttpResponse, describe, is_unreachable
from sinks.webhook.http.networks import NetworkPolicy


class RequestFailed(SinkUnavailable):
    """A request was not answered, or an earlier step was refused. The message is for the operator and holds no
    secret."""

    def __init__(self, reason: str, *, unavailable: bool, after: float | None = None) -> None:
        super().__init__(reason)
        self.unavailable = unavailable
        """Another request would fail too: no connection could be made, for instance."""
        self.after = after
        """Seconds that the endpoint asked the sink to wait."""


class _AskingConnector(aiohttp.TCPConnector):
    """Asks before each request, when the request has its connection: it may have waited long for that. What waited
    before (for a turn, a token, an answer to the request in front) is covered, too."""

    def __init__(self, may_send: Callable[[], bool], **settings: Any) -> None:
        super().__init__(**settings)
        self._may_send = may_send

    async def connect(self, *args: Any, **settings: Any) -> aiohttp.connector.Connection:
        """Raises NotLeading."""
        connection = await super().connect(*args, **settings)
        if not self._may_send():
            connection.close()
            raise NotLeading
        return connection


class HttpEndpoint:
    """``open`` before ``request``. Reads certificates again when their files change, whatever an endpoint says: with
    TLS 1.3 it refuses a client's certificate behind the handshake, by a connection that breaks, and a proxy does so by
    a response. Those of the system are read again when no connection could be made."""

    def __init__(
        self,
        url: str,
        *,
        timeout: float,
        connections: int,
        networks: NetworkPolicy,
        tls: TlsFiles,
        may_send: Callable[[], bool] = always,
    ) -> None:
        """``timeout``: seconds for a request and its response. ``may_send``: see ``AsksToSend``."""
        parts = urlsplit(url)
        self.name = f"{parts.scheme}://{parts.netloc}"
        """The endpoint in messages. Without path and query, which may hold a secret."""
        self._url = url
        self._timeout = timeout
        self._connections = connections
        self._networks = networks
        self._tls = tls
        self._renewed = tls.watched()
        self._may_send = may_send
        self._client: HttpClient | None = None
        self._opening = asyncio.Lock()
        self._stale = False
        """No connection could be made: certificates may have been renewed."""

    async def open(self) -> None:
        """Makes the client; sends no request. Raises WrongOption."""
        if self._client is not None and not self._stale and not self._renewed.found():
            return
        async with self._opening:
            if self._client is None or self._stale or self._renewed.found():
                new = await self._new_client()
                # Requests in flight go on with the former client, which closes after the last of them.
                former, self._client = self._client, new
                self._stale = False
                if former is not None:
                    await former.retire()

    async def request(
        self, method: str, headers: dict[str, str], body: bytes, *, keep: int = 0, target: str = ""
    ) -> HttpResponse:
        """May run beside other requests. ``keep``, ``target``: see HttpClient. Raises RequestFailed, NotLeading."""
        client = self._client
        if client is None:
            raise RuntimeError("request() before open()")
        try:
            async with asyncio.timeout(self._timeout):
                return await client.request(method, headers, body, keep=keep, target=target)
        except TimeoutError:
            raise RequestFailed(f"{self.name} did not answer within {self._timeout:g} s", unavailable=False) from None
        except HTTP_ERRORS as error:
            unreachable = is_unreachable(error)
            self._stale = self._stale or (unreachable and client is self._client)
            raise RequestFailed(f"{self.name} {describe(error)}", unavailable=unreachable) from error

    async def close(self) -> None:
        client, self._client = self._client, None
        self._stale = False
        if client is not None:
            await client.retire()

    async def _new_client(self) -> HttpClient:
        tls: ssl.SSLContext | bool = False
        if self._url.startswith("https:"):
            # Looked at before the files are read, and kept behind it: half of a renewal is read once more.
            renewed = self._tls.watched()
            tls = await asyncio.to_thread(self._tls.context)
            self._renewed = renewed

        def session() -> aiohttp.ClientSession:
            # A connection for each lane, and no cookies: requests must not depend on each other.
            connector = _AskingConnector(
                self._may_send, ssl=tls, limit=self._connections, socket_factory=self._networks.new_socket
            )
            return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())

        # trust_env=False: a proxy of the environment is not meant for records.
        transport = AiohttpTransport(verify=tls, trust_env=False, client=session)
        return HttpClient(transport, self._url)
