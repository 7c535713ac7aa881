"""HTTP as watches need it: httpx's interface over aiohttp's connections, one HTTP/1.1 connection for each watch.

Plain httpx costs three times as much for every streamed event, and over HTTP/2 it delivers events late and hangs
watches beyond the server's stream limit.
"""

from __future__ import annotations

import os
import socket
import ssl
from http.cookiejar import CookieJar, DefaultCookiePolicy
from importlib.metadata import PackageNotFoundError, version

import aiohttp
import httpx
from aiohttp import AddrInfoType
from httpx_aiohttp import AiohttpTransport
from httpx_aiohttp.transport import AiohttpResponseStream

from bridge.kube.access import Connection
from bridge.kube.status import shortened
from bridge.model.answers import Busy, Failed
from bridge.model.wrong_protocol import wants_http

CONNECT_TIMEOUT = 10.0
"""Seconds for TCP and TLS, each address."""
CHUNK = 128 * 1024
"""Bytes at most that are handed on at once: some 16 events of a busy stream. More gains nothing."""

KEEP_ALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}
"""Seconds, seconds, probes: a peer that is gone is noticed after 90 seconds without traffic."""
USER_TIMEOUT = 90_000
"""Milliseconds that something sent may stay without acknowledgement; it also ends the keep-alive's patience."""

NETWORK_ERRORS = (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, aiohttp.ClientError, OSError, UnicodeError)
"""What a request may raise: httpx-aiohttp lets some of aiohttp's own errors through, and chokes on a status line that
is not UTF-8."""


def http_client(connection: Connection) -> httpx.AsyncClient:
    """Made in a running event loop. Follows no redirect, heeds no environment, and asks for nothing compressed."""
    return httpx.AsyncClient(
        base_url=connection.server,
        auth=connection.auth,
        headers={"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": _user_agent()},
        timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT),
        transport=_Transport(connection),
        trust_env=False,
        # No server's cookie is kept: one with a character that no header can carry would spoil every later request.
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
    )


class _Transport(AiohttpTransport):
    def __init__(self, connection: Connection) -> None:
        connector = aiohttp.TCPConnector(
            limit=0,
            ssl=connection.tls or True,
            socket_factory=_kept_alive,
        )
        # Impersonate-Group may come several times: the session keeps that, a request's httpx.Headers do not.
        session = aiohttp.ClientSession(
            connector=connector,
            headers=list(connection.headers),
            read_bufsize=CHUNK,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        super().__init__(verify=connection.tls or False, trust_env=False, proxy=connection.proxy, client=session)
        self._server_name = connection.tls_server_name

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self._server_name:
            request.extensions["sni_hostname"] = self._server_name
        response = await super().handle_async_request(request)
        if isinstance(response.stream, AiohttpResponseStream):
            response.stream.CHUNK_SIZE = CHUNK
        return response


def not_answered(error: Exception, server: httpx.URL) -> Busy | Failed:
    """What it means that a request got no answer: Busy where nobody could be reached, else Failed."""
    cause = error.__cause__ if isinstance(error, httpx.TransportError) and error.__cause__ else error
    match cause:
        case aiohttp.ClientConnectorCertificateError(certificate_error=inner):
            reason = getattr(inner, "verify_message", "") or str(inner)
            return Failed(shortened(f"the certificate of {server} is not accepted: {reason}"))
        case aiohttp.ClientConnectorSSLError() if wants_http(cause.os_error):
            return Failed(shortened(f"{server} speaks plain HTTP on this port: write http:// in its address"))
        case aiohttp.ClientConnectorSSLError():
            return Failed(shortened(f"no TLS with {server}: {_in_words(cause.os_error)}"))
        case aiohttp.ClientProxyConnectionError():
            return Busy(shortened(f"cannot connect to the proxy: {_in_words(cause.os_error)}"))
        case aiohttp.ClientHttpProxyError():
            return Failed(shortened(f"the proxy answered {cause.status} {cause.message}"))
        case aiohttp.ClientConnectorError():
            return Busy(shortened(f"cannot connect to {server}: {_in_words(cause.os_error)}"))
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


def _in_words(error: OSError) -> str:
    """asyncio says "Connect call failed" where the system says "Connection refused"."""
    if error.errno is None or isinstance(error, socket.gaierror | ssl.SSLError):
        return error.strerror or str(error)
    return os.strerror(error.errno)


def _kept_alive(address: AddrInfoType) -> socket.socket:
    """A half-open connection is found by the system too, not by silence alone."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = {**KEEP_ALIVE, "TCP_USER_TIMEOUT": USER_TIMEOUT}
    for name, value in options.items():
        if hasattr(socket, name):  # Each system has some of them.
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made


def _user_agent() -> str:
    try:
        return f"kubedelta/{version('kubedelta')}"
    except PackageNotFoundError:
        return "kubedelta"
