"""A connection to NATS, which is never reconnected.

The client's own reconnect would send the messages again that waited in its buffer when the connection broke, but not
the messages that it had given to the socket: a gap, with later messages behind it. So a broken connection stays closed,
and the next connection begins with the oldest message that was not acknowledged.

``examine`` checks the options before the bridge runs, without a server: the files that they name.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import nats.errors
import nkeys
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.protocol.command import hpub_cmd

from bridge.model.primitives.network import why_unconnected, why_unverified
from sinks.nats.options import NatsOptions
from sinks.receipt import SinkUnavailable, WrongOption, wrong_options
from sinks.secret_files import Step, TlsFiles, check_tls_files, read_secret

OnAnswer: TypeAlias = Callable[[int, Mapping[str, str] | None, bytes], None]
"""Number of the publish, headers and payload of the answer."""

MAX_UNANSWERED_BYTES = 4 * 1024 * 1024
"""Bytes of messages that senders have in flight. The client holds them until the socket takes them."""

_PENDING_SIZE = 1 << 40
"""Bytes: the client's own limit is out of reach, because its wait for room swallows cancellation
(``Client._flush_pending``), and a cancelled ``flush`` ends its reading (``Client._process_pong``).
``MAX_UNANSWERED_BYTES`` bounds the client's buffer instead."""

_MAX_UNREAD_MESSAGES = 10_000
_MAX_UNREAD_BYTES = 64 << 20
"""Of a subscription. The client drops what comes beyond."""

_CLOSE_TIMEOUT = 2.0
"""Seconds."""


class HeadersClient(Client):
    """Hot: writes headers unchanged. Headers must not have spaces at an end or line breaks.

    The library strips, matches and translates each of the seventeen headers of an event, which takes a fifth of the
    time of the event's whole way. If a later version of the library renames ``_send_publish``, the library's own method
    is used again, and only the speed changes.
    """

    async def _send_publish(
        self, subject: str, reply: str, payload: bytes, payload_size: int, headers: dict[str, Any] | None
    ) -> None:
        if headers is None:
            await super()._send_publish(subject, reply, payload, payload_size, None)
            return
        lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        self.stats["out_msgs"] += 1
        self.stats["out_bytes"] += payload_size
        await self._send_command(hpub_cmd(subject, reply, f"NATS/1.0\r\n{lines}\r\n".encode(), payload))
        if self._flush_queue is not None and self._flush_queue.empty():
            await self._flush_pending()


class NatsConnection:
    """Made by ``connect``. ``publish`` does not wait for answers: ``listening`` hands them on."""

    def __init__(self, client: Client, inbox: str) -> None:
        self.client = client
        self._inbox = inbox
        self._published = 0
        self._closing = False
        self._on_answer: OnAnswer | None = None
        self._on_end: Callable[[], None] | None = None
        self.last_error = ""
        """Why the connection closed, or the permission that the server refused; empty without an error."""

    @classmethod
    async def connect(cls, options: NatsOptions, name: str, further_servers: Sequence[str]) -> NatsConnection:
        """``further_servers``: URLs that an earlier connection learned. Raises SinkUnavailable."""
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
                    error_cb=self._client_error,
                    closed_cb=self._client_closed,
                    **settings,
                )
                _check_secure(client, tls)
                self._inbox = f"{client.new_inbox()}."
                await client.subscribe(f"{self._inbox}*", cb=self._answer)
        except (TimeoutError, OSError, nats.errors.Error, ValueError) as error:
            await self.close()
            raise SinkUnavailable(f"cannot connect to {', '.join(options.servers)}: {self.reason(error)}") from error
        except BaseException:
            await self.close()
            raise
        return self

    @property
    def closed(self) -> bool:
        return self._closing or bool(self.client.is_closed)

    @property
    def max_payload(self) -> int:
        """Bytes of headers and payload together."""
        return int(self.client.max_payload)

    @property
    def servers(self) -> list[str]:
        """URLs of all known servers, with those that the server announced."""
        return [url.geturl() for url in self.client.servers]

    @property
    def server(self) -> str:
        """Host and port of the connected server."""
        url = self.client.connected_url
        return url.netloc if url else "nobody"

    @contextlib.contextmanager
    def listening(self, on_answer: OnAnswer, on_end: Callable[[], None]) -> Iterator[None]:
        """Inside the context, ``on_answer`` gets every answer, and ``on_end`` is called when the connection closes or
        the server refuses a permission."""
        self._on_answer, self._on_end = on_answer, on_end
        self.last_error = ""
        try:
            yield
        finally:
            self._on_answer = self._on_end = None

    async def publish(
        self, subject: str, payload: bytes, headers: dict[str, str] | None, *, answered: bool = True
    ) -> int:
        """Hands a message to the client, without waiting for the network. Returns the number of the publish, which
        ``on_answer`` gets with the answer, if the message is to be ``answered``. Raises ConnectionError."""
        self._published += 1
        reply = f"{self._inbox}{self._published}" if answered else ""
        try:
            await self.client.publish(subject, payload, reply=reply, headers=headers)
        except nats.errors.Error as error:
            raise ConnectionError(self.last_error or str(error)) from error
        return self._published

    async def publish_to_itself(self) -> int:
        """``on_answer`` gets this message when the server has read all earlier ones. Raises ConnectionError."""
        return await self.publish(f"{self._inbox}{self._published + 1}", b"", None, answered=False)

    async def subscribe(self, subject: str, receive: Callable[[Msg], Awaitable[None]]) -> None:
        """Calls ``receive`` for each message that comes to the subject. Raises errors of the client."""
        await self.client.subscribe(
            subject, cb=receive, pending_msgs_limit=_MAX_UNREAD_MESSAGES, pending_bytes_limit=_MAX_UNREAD_BYTES
        )

    async def request(self, subject: str, timeout: float, payload: bytes = b"") -> bytes:
        """The payload of the answer. Raises TimeoutError, and errors of the client."""
        return bytes((await self.client.request(subject, payload, timeout=timeout)).data)

    def jetstream(self, timeout: float) -> JetStreamContext:
        """The client's API for JetStream. ``timeout``: seconds for each request."""
        return JetStreamContext(self.client, timeout=timeout)

    async def close(self) -> None:
        """Takes at most two seconds: after a failed TLS handshake the client itself would wait for ever."""
        self._closing = True
        self._on_answer = self._on_end = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_TIMEOUT):
                await self.client.close()

    async def _answer(self, message: Msg) -> None:
        if self._on_answer is not None:
            self._on_answer(int(message.subject[len(self._inbox) :]), message.headers, message.data)

    async def _client_error(self, error: Exception) -> None:
        self.last_error = _in_words(error)
        # A refused publish gets no answer: without this the exchange would wait until its timeout.
        if "permissions violation" in self.last_error.lower() and self._on_end is not None:
            self._on_end()

    async def _client_closed(self) -> None:
        self.last_error = self.last_error or "the connection was closed"
        if self._on_end is not None:
            self._on_end()

    def reason(self, error: Exception) -> str:
        """An error of the client, in words for the operator."""
        if self.last_error and isinstance(error, nats.errors.NoServersError | TimeoutError):
            return self.last_error
        return _in_words(error)


def _in_words(error: Exception) -> str:
    match error:
        case ssl.SSLCertVerificationError():
            return f"its certificate is not accepted: {why_unverified(error, 'ca_file')}"
        case OSError() if error.errno is not None:
            return why_unconnected(error)
        case _:
            return str(error).removeprefix("nats: ").strip("'") or type(error).__name__


def _settings(options: NatsOptions) -> dict[str, Any]:
    return {
        "allow_reconnect": False,
        "connect_timeout": options.connect_timeout,
        "max_reconnect_attempts": 1,  # The client tries each server twice with 1, and for ever with 0.
        "reconnect_time_wait": 0.1,
        # Seconds: a half-open connection without traffic is noticed within a minute.
        "ping_interval": 20,
        "max_outstanding_pings": 2,
        "pending_size": _PENDING_SIZE,
        "inbox_prefix": options.inbox_prefix,
    }


def _secrets(options: NatsOptions, client: Client, tls: ssl.SSLContext | None) -> dict[str, Any]:
    """Reads the secrets from their files. Raises SinkUnavailable. A password or a token is sent as it is, so the client
    gets it from a function that raises while the connection is not encrypted but should be."""

    def guarded(secret: str) -> Callable[[], str]:
        def reveal() -> str:
            _check_secure(client, tls)
            return secret

        return reveal

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
    files = TlsFiles(options.ca_file, options.cert_file, options.key_file)
    if not (files.ca_file or files.cert_file) and not any(server.startswith("tls:") for server in options.servers):
        return None
    return await asyncio.to_thread(files.context)


def _check_secure(client: Client, tls: ssl.SSLContext | None) -> None:
    """Raises SecureConnWantedError when the options want TLS and the server does not ask for it: the client would go on
    without encryption."""
    if tls is not None and not client._server_info.get("tls_required"):  # The client has no public attribute for it.
        raise nats.errors.SecureConnWantedError


# ── The options ──────────────────────────────────────────────────────────────

_CREDENTIALS_PARTS = ("-----BEGIN NATS USER JWT-----", "-----BEGIN USER NKEY SEED-----")


def examine(options: NatsOptions) -> Sequence[WrongOption]:
    return wrong_options(_steps(options))


def _steps(options: NatsOptions) -> Iterator[Step]:
    yield from check_tls_files(options.ca_file, options.cert_file, options.key_file)
    if options.credentials_file is not None:
        yield partial(_credentials, options.credentials_file)
    if options.nkey_seed_file is not None:
        yield partial(_seed, options.nkey_seed_file)
    if options.password_file is not None:
        yield partial(read_secret, options.password_file, "password_file")
    if options.token_file is not None:
        yield partial(read_secret, options.token_file, "token_file")


def _credentials(path: Path) -> None:
    text = read_secret(path, "credentials_file")
    if not all(part in text for part in _CREDENTIALS_PARTS):
        raise WrongOption("credentials_file", f"{path} holds no user credentials: a JWT and the seed of its key")


def _seed(path: Path) -> None:
    seed = read_secret(path, "nkey_seed_file").strip()
    try:
        nkeys.from_seed(seed.encode()).wipe()
    except Exception:  # nkeys raises errors of its own, and errors of base64.
        raise WrongOption("nkey_seed_file", f"{path} holds no seed of an NKey") from None
