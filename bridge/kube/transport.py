"""Carries requests and watches: httpx's interface over aiohttp's connections, with an HTTP/1.1 connection for each
watch. ``Api`` makes a single request over it, JSON in and JSON out.

Plain httpx costs three times as much for every streamed event, and over HTTP/2 it delivers events late and hangs
watches beyond the server's stream limit. Errors without an HTTP answer become answers in ``not_answered``, which says
what the operator can mend.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeVar

import aiohttp
import httpx
import msgspec
from aiohttp import AddrInfoType
from httpx_aiohttp.transport import AiohttpResponseStream, map_aiohttp_exceptions

from bridge.kube.auth.connection import RenewedConnection
from bridge.kube.auth.credentials import CredentialsError
from bridge.kube.gathering import CHUNK
from bridge.kube.wire.answering import error_of, read_whole
from bridge.kube.wire.objects import UNREADABLE
from bridge.kube.wire.status import shortened
from bridge.model.answers import Busy, ErrorAnswer, Failed
from bridge.model.primitives.network import wants_http, why_unconnected, why_unverified

TIMEOUT = 30.0
"""Seconds without a byte of the answer to a single request."""
CONNECT_TIMEOUT = 10.0
"""Seconds for TCP and TLS, for each address of the server."""
KEEP_ALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}
"""Seconds, seconds, probes: a dead peer is noticed after 90 seconds without traffic."""
USER_TIMEOUT = 90_000
"""Milliseconds until unacknowledged data ends the connection; it bounds the keep-alive's probes too (tcp(7))."""

RESPONSE = "aiohttp_response"
"""The extension of a response with aiohttp's response, for a watch: httpx's stream costs three generators a chunk."""

REQUEST_ERRORS = (
    CredentialsError,
    httpx.HTTPError,
    httpx.StreamError,
    httpx.InvalidURL,
    aiohttp.ClientError,
    OSError,
    UnicodeError,
)
"""The errors that a request may raise; ``not_answered`` words them. httpx-aiohttp passes some of aiohttp's own errors
through, and raises UnicodeError for a status line that is not UTF-8."""

T = TypeVar("T")


def http_client(renewed: RenewedConnection) -> httpx.AsyncClient:
    """An HTTP client, to be made in a running event loop. Redirects, proxies of the environment and compression are
    off."""
    return httpx.AsyncClient(
        base_url=renewed.connection.server,
        auth=renewed,
        headers={"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": _user_agent()},
        timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT),
        transport=_Transport(renewed),
        trust_env=False,
        # Cookies are dropped: a cookie with a character that no header can carry would break every later request.
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
    )


class _Transport(httpx.AsyncBaseTransport):
    """httpx-aiohttp's transport, with the TLS context, the proxy and the headers of the connection as it is now:
    aiohttp keeps apart what it pools for each context."""

    def __init__(self, renewed: RenewedConnection) -> None:
        self._renewed = renewed
        self._session = aiohttp.ClientSession(
            # aiohttp's default of 100 connections would block further watches.
            connector=aiohttp.TCPConnector(limit=0, socket_factory=kept_alive),
            read_bufsize=CHUNK,
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        connection, timeout = self._renewed.connection, request.extensions.get("timeout", {})
        proxy = connection.proxy
        try:
            with map_aiohttp_exceptions():
                answer = await self._session.request(
                    request.method,
                    str(request.url),
                    # A list: Impersonate-Group may be repeated.
                    headers=[*request.headers.multi_items(), *connection.headers],
                    data=await request.aread() or None,
                    allow_redirects=False,
                    auto_decompress=False,
                    compress=False,
                    timeout=aiohttp.ClientTimeout(sock_connect=timeout.get("connect"), sock_read=timeout.get("read")),
                    ssl=connection.tls or True,
                    server_hostname=connection.tls_server_name,
                    proxy=str(proxy.url) if proxy else None,
                    proxy_auth=aiohttp.BasicAuth(*proxy.auth) if proxy and proxy.auth else None,
                    proxy_headers=proxy.headers if proxy else None,
                )
        except REQUEST_ERRORS:
            self._renewed.refused()
            raise
        stream = AiohttpResponseStream(answer)
        stream.CHUNK_SIZE = CHUNK
        return httpx.Response(
            answer.status,
            headers=answer.raw_headers,
            stream=stream,
            request=request,
            extensions={
                RESPONSE: answer,
                "http_version": b"HTTP/1.1",
                "reason_phrase": (answer.reason or "").encode(),
            },
        )

    async def aclose(self) -> None:
        await self._session.close()


def not_answered(error: Exception, server: httpx.URL) -> Busy | Failed:
    """Classifies an error without an HTTP answer: Busy if the server (or proxy) was unreachable, else Failed."""
    cause = error.__cause__ if isinstance(error, httpx.TransportError) and error.__cause__ else error
    match cause:
        case CredentialsError():
            return Failed(shortened(str(cause)))
        case aiohttp.ClientConnectorCertificateError(certificate_error=inner):
            reason = why_unverified(inner, "cluster.ca_file")
            return Failed(shortened(f"the certificate of {server} is not accepted: {reason}"))
        case aiohttp.ClientConnectorSSLError() if wants_http(cause.os_error):
            return Failed(shortened(f"{server} speaks plain HTTP on this port: write http:// in its address"))
        case aiohttp.ClientConnectorSSLError():
            return Failed(shortened(f"no TLS with {server}: {why_unconnected(cause.os_error)}"))
        case aiohttp.ClientProxyConnectionError():
            return Busy(shortened(f"cannot connect to the proxy: {why_unconnected(cause.os_error)}"))
        case aiohttp.ClientHttpProxyError():
            return Failed(shortened(f"the proxy answered {cause.status} {cause.message}"))
        case aiohttp.ClientConnectorError():
            return Busy(shortened(f"cannot connect to {server}: {why_unconnected(cause.os_error)}"))
        case aiohttp.ConnectionTimeoutError():
            return Busy(f"cannot connect to {server}: no answer within {CONNECT_TIMEOUT:g} seconds")
        case aiohttp.ServerDisconnectedError():
            return Failed(f"{server} closed the connection before it answered")
        case aiohttp.ClientPayloadError():
            return Failed(f"the answer of {server} broke off")
        case httpx.DecodingError():
            return Failed(shortened(f"the answer of {server} could not be read: {cause}"))
        case TimeoutError():
            return Failed(f"{server} did not answer in time")
        case _:
            return Failed(shortened(f"no answer from {server}: {type(cause).__name__}: {cause}"))


def kept_alive(address: AddrInfoType) -> socket.socket:
    """A socket with keep-alive, so that the system finds half-open connections before the idle timeout does."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = {**KEEP_ALIVE, "TCP_USER_TIMEOUT": USER_TIMEOUT}
    for name, value in options.items():
        if hasattr(socket, name):  # Other systems than Linux lack some of them.
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made


def _user_agent() -> str:
    try:
        return f"kubedelta/{version('kubedelta')}"
    except PackageNotFoundError:
        return "kubedelta"


# ── Single requests ──────────────────────────────────────────────────────────


class ApiError(Exception):
    """A request failed; ``answer`` is the classified failure."""

    def __init__(self, asked: str, answer: ErrorAnswer) -> None:
        super().__init__(f"{asked}: {answer.reason}")
        self.answer = answer


@dataclass(frozen=True, slots=True)
class Answered:
    status: int
    headers: Mapping[str, str]
    """Looked up regardless of case."""
    body: bytes


class Api:
    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def ask(
        self, method: str, path: str, *, json: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answered:
        """Sends a request and reads the whole answer: JSON with a 2xx status, or a 304 if ``headers`` ask for it.

        Raises ApiError for every other answer, for a body beyond LARGEST_DOCUMENT bytes, and for network errors."""
        asked = f"{method} {path}"
        timeout = httpx.Timeout(TIMEOUT, connect=self._http.timeout.connect)
        try:
            async with self._http.stream(method, path, json=json, headers=headers, timeout=timeout) as response:
                if response.status_code != httpx.codes.NOT_MODIFIED and (answer := await error_of(response)):
                    raise ApiError(asked, answer)
                return Answered(response.status_code, response.headers, await read_whole(response))
        except REQUEST_ERRORS as error:
            raise ApiError(asked, not_answered(error, self._http.base_url)) from error

    async def ask_for(self, kind: type[T], method: str, path: str, *, json: Any = None) -> T:
        """The answer's JSON as a ``kind``. Raises ApiError, also for JSON of another shape."""
        response = await self.ask(method, path, json=json)
        try:
            return msgspec.json.decode(response.body, type=kind)
        except UNREADABLE as error:
            raise ApiError(f"{method} {path}", Failed(shortened(f"the answer could not be read: {error}"))) from error
