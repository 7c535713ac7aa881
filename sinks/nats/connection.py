"""One connection to NATS, and no second life for it.

The client's own reconnect would send again what was waiting in its buffer when the connection broke, but not what it
had given to the socket: a gap, with later messages behind it. So a connection that broke is over, and the next one
begins with the oldest message that was not acknowledged.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext

from sinks.base import SinkUnavailable, read_secret
from sinks.nats.client import HeadersClient
from sinks.nats.options import NatsOptions
from sinks.tls import tls_context

Heard = Callable[[int, Mapping[str, str] | None, bytes], None]
"""Number of a message, and the headers and payload of the answer to it."""

_NEVER = 1 << 40
"""Bytes. The client's own limit is out of reach, because its wait for it swallows cancellation
(``Client._flush_pending``), and a ``flush`` that is cancelled ends its reading (``Client._process_pong``). What waits
in it is bounded by who publishes: by what is not answered yet."""

_GOODBYE = 2.0
"""Seconds."""


class Connection:
    def __init__(self, client: Client, inbox: str) -> None:
        self._client = client
        self._inbox = inbox
        self._published = 0
        self._heard: Heard | None = None
        self._broken: Callable[[], None] | None = None
        self.trouble = ""
        """Why it closed, or what it was not permitted to do; empty while all is well."""

    @classmethod
    async def make(cls, options: NatsOptions, name: str, further_servers: Sequence[str]) -> Connection:
        """Raises SinkUnavailable."""
        client = HeadersClient()
        self = cls(client, "")
        tls = await _tls(options)
        settings = _settings(options) | _secrets(options, client, tls)
        servers = [*options.servers, *(each for each in further_servers if each not in options.servers)]
        try:
            async with asyncio.timeout(options.connect_timeout * len(servers)):
                await client.connect(
                    servers=servers,
                    name=f"kubedelta-{name}",
                    tls=tls,
                    error_cb=self._on_error,
                    closed_cb=self._on_closed,
                    **settings,
                )
                _check_secure(client, tls)
                self._inbox = f"{client.new_inbox()}."
                await client.subscribe(f"{self._inbox}*", cb=self._on_answer)
        except (TimeoutError, OSError, nats.errors.Error, ValueError) as error:
            await self.close()
            raise SinkUnavailable(f"cannot connect to {', '.join(options.servers)}: {self.reason(error)}") from error
        except BaseException:
            await self.close()
            raise
        return self

    @property
    def closed(self) -> bool:
        return bool(self._client.is_closed)

    @property
    def max_payload(self) -> int:
        """Bytes of headers and payload together."""
        return int(self._client.max_payload)

    @property
    def servers(self) -> list[str]:
        """All that are known, those included that the server told of."""
        return [url.geturl() for url in self._client.servers]

    @property
    def server(self) -> str:
        """The one that is connected."""
        url = self._client.connected_url
        return url.netloc if url else "nobody"

    @contextlib.contextmanager
    def listening(self, heard: Heard, broken: Callable[[], None]) -> Iterator[None]:
        """Meanwhile tell of answers, and once of the connection's end or of a refused permission."""
        self._heard, self._broken = heard, broken
        self.trouble = ""
        try:
            yield
        finally:
            self._heard = self._broken = None

    async def publish(self, subject: str, payload: bytes, headers: dict[str, str]) -> int:
        """Hand over one message, without waiting for the network; the answer comes under the number that is returned.
        Raises ConnectionError."""
        self._published += 1
        try:
            await self._client.publish(subject, payload, reply=f"{self._inbox}{self._published}", headers=headers)
        except nats.errors.Error as error:
            raise ConnectionError(self.trouble or str(error)) from error
        return self._published

    def jetstream(self, timeout: float) -> JetStreamContext:
        """The client's own view of JetStream; ``timeout`` is in seconds for each request."""
        return JetStreamContext(self._client, timeout=timeout)

    async def close(self) -> None:
        """Within a second or two: after a TLS handshake that failed the client would wait for ever."""
        self._heard = self._broken = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GOODBYE):
                await self._client.close()

    async def _on_answer(self, message: Msg) -> None:
        if self._heard is not None:
            self._heard(int(message.subject[len(self._inbox) :]), message.headers, message.data)

    async def _on_error(self, error: Exception) -> None:
        self.trouble = str(error).removeprefix("nats: ").strip("'") or type(error).__name__
        if "permissions violation" in self.trouble.lower():
            self._tell_broken()

    async def _on_closed(self) -> None:
        self.trouble = self.trouble or "the connection was closed"
        self._tell_broken()

    def _tell_broken(self) -> None:
        if self._broken is not None:
            self._broken()

    def reason(self, error: Exception) -> str:
        """Of an error of the client's, in words for an operator."""
        if self.trouble and isinstance(error, nats.errors.NoServersError | TimeoutError):
            return self.trouble
        return str(error).removeprefix("nats: ").strip("'") or type(error).__name__


def _settings(options: NatsOptions) -> dict[str, Any]:
    return {
        "allow_reconnect": False,
        "connect_timeout": options.connect_timeout,
        "max_reconnect_attempts": 1,  # At first each server is tried twice; 0 would mean for ever.
        "reconnect_time_wait": 0.1,
        "ping_interval": 20,
        "max_outstanding_pings": 2,
        "pending_size": _NEVER,
        "inbox_prefix": options.inbox_prefix,
    }


def _secrets(options: NatsOptions, client: Client, tls: ssl.SSLContext | None) -> dict[str, Any]:
    """From their files. Raises SinkUnavailable. What is sent as it is, is not sent in the clear where TLS is wanted."""

    def guarded(secret: str) -> Callable[[], str]:
        def tell() -> str:
            _check_secure(client, tls)
            return secret

        return tell

    if options.credentials_file is not None:
        read_secret(options.credentials_file, "credentials_file")
        return {"user_credentials": str(options.credentials_file)}
    if options.nkey_seed_file is not None:
        return {"nkeys_seed_str": read_secret(options.nkey_seed_file, "nkey_seed_file").strip()}
    if options.user is not None and options.password_file is not None:
        return {"user": options.user, "password": guarded(read_secret(options.password_file, "password_file"))}
    if options.token_file is not None:
        return {"token": guarded(read_secret(options.token_file, "token_file"))}
    return {}


async def _tls(options: NatsOptions) -> ssl.SSLContext | None:
    files = options.ca_file, options.cert_file, options.key_file
    if not any(files) and not any(server.startswith("tls:") for server in options.servers):
        return None
    return await asyncio.to_thread(tls_context, *files)


def _check_secure(client: Client, tls: ssl.SSLContext | None) -> None:
    """The client speaks TLS where the server asks for it, and goes on in the clear where it does not, whatever it was
    told. Raises SecureConnWantedError."""
    if tls is not None and not client._server_info.get("tls_required"):  # It has no public word for it.
        raise nats.errors.SecureConnWantedError
