"""The connection to an endpoint: its secrets, its certificates, and the HTTP client."""

from __future__ import annotations

import asyncio
import ssl
from urllib.parse import parse_qsl, urlsplit

import aiohttp
from httpx_aiohttp import AiohttpTransport

from bridge.model.primitives.wrong_protocol import BEGINNING, wants_https
from sinks.errors import SinkUnavailable, WrongOption
from sinks.secret_files import SecretFile
from sinks.tls import tls_context
from sinks.webhook.auth.authorization import authorization_of
from sinks.webhook.auth.signature import WebhookKey, keys_in
from sinks.webhook.examine import header_value
from sinks.webhook.http.client import HTTP_ERRORS, HttpClient, HttpResponse, describe, is_unreachable
from sinks.webhook.http.networks import NetworkPolicy
from sinks.webhook.options import WebhookOptions

_LONG = 8
"""Characters. A shorter path or public header value may be in a response by chance, so it is not redacted."""


class RequestFailed(Exception):
    """A request got no response. The message is for the operator and holds no secret."""

    def __init__(self, reason: str, *, unreachable: bool) -> None:
        super().__init__(reason)
        self.unreachable = unreachable
        """No connection could be made."""


class WebhookConnection:
    """``open`` before ``request``. Reads files of secrets again when they change, and certificates when no connection
    could be made."""

    def __init__(self, options: WebhookOptions) -> None:
        self._options = options
        parts = urlsplit(options.url)
        self.name = f"{parts.scheme}://{parts.netloc}"
        """The endpoint in messages. Without path and query, which may hold a secret."""
        self._secret_headers = {
            name: SecretFile(path, f"header_files.{name}") for name, path in options.header_files.items()
        }
        self._authorization = authorization_of(options)
        self._networks = NetworkPolicy(options.allow_networks)
        self._secret = SecretFile(options.secret_file, "secret_file") if options.secret_file else None
        self._client: HttpClient | None = None
        self._opening = asyncio.Lock()
        self._stale = False
        """No connection could be made: certificates may have been renewed."""
        self.headers: dict[str, str] = {}
        """The headers of every request. Names are in lower case."""
        self.keys: tuple[WebhookKey, ...] = ()
        """The keys of ``secret_file``, for signatures."""

    async def open(self) -> None:
        """Reads changed secrets and makes the client; sends no request. Raises SinkUnavailable."""
        self._read_secrets()
        if self._client is not None and not self._stale:
            return
        async with self._opening:
            if self._client is None or self._stale:
                new = await self._new_client()
                # Requests in flight go on with the former client, which closes after the last of them.
                former, self._client = self._client, new
                self._stale = False
                if former is not None:
                    await former.retire()

    async def request(self, method: str, headers: dict[str, str], body: bytes) -> HttpResponse:
        """May run beside other requests. Raises RequestFailed."""
        client, timeout = self._client, self._options.timeout
        if client is None:
            raise RuntimeError("request() before open()")
        try:
            async with asyncio.timeout(timeout):
                return await client.request(method, headers, body)
        except TimeoutError:
            raise RequestFailed(f"{self.name} did not answer within {timeout:g} s", unreachable=False) from None
        except HTTP_ERRORS as error:
            unreachable = is_unreachable(error)
            self._stale = self._stale or (unreachable and client is self._client)
            raise RequestFailed(f"{self.name} {describe(error)}", unreachable=unreachable) from error

    async def ping(self) -> str:
        """Sends an OPTIONS request and returns a few words about the response. Raises SinkUnavailable."""
        await self.open()
        try:
            response = await self.request("OPTIONS", self.headers, b"")
        except RequestFailed as error:
            raise SinkUnavailable(str(error)) from error
        if reason := self.wants_https(response):
            raise WrongOption("url", reason)
        return f"{self.name} answers ({response.status} to OPTIONS)"

    def wants_https(self, response: HttpResponse) -> str:
        """The reason, if this response says that the port expects HTTPS; otherwise empty. Such a server answers 400,
        like an endpoint that rejects a record."""
        if not wants_https(response.status, response.body[:BEGINNING]):
            return ""
        return f"{self.name} answers 400: it speaks HTTPS on this port: write https:// in url"

    def secrets(self, signature: str) -> list[str]:
        """Values that an excerpt of a response must not repeat: secret headers, long public headers, keys, the
        signature, and the URL behind the host."""
        values = [self.headers[name.lower()] for name in self._secret_headers]
        if self._authorization is not None:
            values += [self.headers["authorization"], *self._authorization.secrets]
        values += [value for value in self._options.headers.values() if len(value) >= _LONG]
        values += signature.split()
        values += [text for key in self.keys for text in key.encoded]
        parts = urlsplit(self._options.url)
        values += [value for _, value in parse_qsl(parts.query)]
        targets = (f"{parts.path}?{parts.query}", parts.path, parts.query)
        return values + [target for target in targets if len(target) >= _LONG]

    async def close(self) -> None:
        client, self._client = self._client, None
        self._stale = False
        if client is not None:
            await client.retire()

    def _read_secrets(self) -> None:
        files = self._options.header_files
        secrets = {name: header_value(file.read(), name, files[name]) for name, file in self._secret_headers.items()}
        chosen = {name.lower(): value for name, value in (self._options.headers | secrets).items()}
        if self._authorization is not None:
            chosen["authorization"] = self._authorization.read()
        self.headers = {"user-agent": "kubedelta"} | chosen
        if self._secret is not None and self._options.secret_file is not None:
            self.keys = keys_in(self._secret.read(), self._options.secret_file)

    async def _new_client(self) -> HttpClient:
        options = self._options
        tls: ssl.SSLContext | bool = False
        if options.url.startswith("https:"):
            tls = await asyncio.to_thread(tls_context, options.ca_file, options.cert_file, options.key_file)

        def session() -> aiohttp.ClientSession:
            # A connection for each lane, and no cookies: requests must not depend on each other.
            connector = aiohttp.TCPConnector(
                ssl=tls, limit=options.concurrency, socket_factory=self._networks.new_socket
            )
            return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())

        # trust_env=False: a proxy of the environment is not meant for records.
        transport = AiohttpTransport(verify=tls, trust_env=False, client=session)
        return HttpClient(transport, options.url)
