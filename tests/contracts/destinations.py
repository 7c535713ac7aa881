"""The places where sinks store records, each with a way to look into it that is not the sink's, and ways to hurt it."""

from __future__ import annotations

import asyncio
import hmac
import secrets
from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

import msgspec
import nats
import zstandard
from nats.aio.msg import Msg
from nats.js.api import StreamConfig

from sinks import registry
from sinks.base import Sink, SinkContext, SinkOptions, SinkType, SinkUnavailable
from tests.cluster.servers import KafkaBehindALine, Nats
from tests.cluster.servers.ports import reserve_port
from tests.contracts.schemas import RecordSchemas
from tests.kit.content import ContentSink
from tests.kit.deadlines import BUSY
from tests.kit.openssl import KeyPair
from tests.kit.sinks import ALONE
from tests.kit.tcp_line import Line
from tests.kit.token_server import TokenServer
from tests.kit.webhook_receiver import ACCEPTED, Answer, Posted, WebhookReceiver

CLUSTER = "prod-eu1"
SINK_TIMEOUT = 1.0
"""Seconds that a sink under examination waits for an answer."""
_LONG = {"ack_timeout": 60.0, "connect_timeout": 60.0}
PATIENCE = {"webhook": {"timeout": 60.0}, "kafka": _LONG, "nats": _LONG}
"""By a sink's type, options for tests in which no answer must be late, however busy the machine is."""


@dataclass(frozen=True, slots=True)
class Stored:
    """One record as it lies there."""

    id: str
    key: str
    """The key of a Kafka record; elsewhere the partition key."""
    body: bytes
    attributes: Mapping[str, str]
    """Of the CloudEvent, all of them as text."""
    where: str
    """The partition of the topic, the object's own subject in the stream; empty elsewhere."""


@cache
def _silent_port() -> int:
    """On which nobody listens. One for all: tests count the open sockets."""
    return reserve_port()


class Destination(ABC):
    """A clean destination of its own, on a server that tests share and may break one after another."""

    kind: ClassVar[str]
    stores_once: ClassVar[bool]
    """What one sink sends again, because it never heard that it had arrived, is stored once."""
    knows_ids: ClassVar[bool] = False
    """The same of what another sink sends again."""

    uncompressed: ClassVar[Mapping[str, Any]] = {}
    """Options with which a record is as large on the way as it is."""
    envelopes: Mapping[str, Any] = {"format": "envelope", "include": ["before", "patch", "managers"]}
    """Options for change data capture. A record whose earlier state is no JSON has no such form."""
    objects_alone: Mapping[str, Any] = {}
    """Options that a format without notices among its records needs."""

    def __init__(self) -> None:
        self.name = f"contract-{secrets.token_hex(4)}"
        self.way = self.kind
        """How the sink writes here, for the printed figures."""
        self.schemas = RecordSchemas(self._type, CLUSTER, self._chosen)
        self.line: Line | None = None
        """What the sink must go through to come here; None for the straight way."""

    @abstractmethod
    async def prepare(self, limit: int | None) -> None:
        """Make it. ``limit``: refuse larger records, in bytes as this destination counts them."""

    @abstractmethod
    async def remove(self) -> None: ...

    @abstractmethod
    def options(self) -> dict[str, Any]:
        """As an operator writes them, with short timeouts."""

    def nowhere(self) -> dict[str, Any]:
        """What to change in the options so that they lead to nothing."""
        return self.at(_silent_port())

    @abstractmethod
    def at(self, port: int) -> dict[str, Any]:
        """What to change in the options so that they lead to whatever listens there."""

    @abstractmethod
    async def stored(self) -> list[Stored]:
        """Everything that is there now; of each key, in its order."""

    async def stored_by_a_killed_writer(self) -> list[Stored]:
        """The same, right after a kill: what a reader may rely on before the writer starts again."""
        return await self.stored()

    @abstractmethod
    async def fall(self) -> None:
        """Ends at once, without closing its connections."""

    @abstractmethod
    async def rise(self) -> None:
        """Be back, with all that was stored. Nothing to do where it did not fall."""

    def new_line(self) -> Line:
        """One that leads here. Only for what is reached over a network."""
        raise NotImplementedError

    def sink(self, **options: Any) -> Sink:
        """One that is not open."""
        chosen = self._chosen(**options)
        self.schemas.learn(chosen)
        sink = registry.create("mine", self.kind, chosen, cluster=CLUSTER)
        return ContentSink(sink, chosen) if chosen.content().is_made else sink

    def _chosen(self, **options: Any) -> SinkOptions:
        return self._type.options.model_validate(self.options() | options)

    @asynccontextmanager
    async def opened(self, context: SinkContext = ALONE, /, **options: Any) -> AsyncIterator[Sink]:
        """Opened as the bridge does it: a new sink for each try, since none may connect in time on a busy machine.
        Raises TimeoutError."""
        async with asyncio.timeout(30 * BUSY):
            while True:
                sink = self.sink(**options)
                try:
                    await sink.open(context)
                except SinkUnavailable:
                    await sink.close()
                    await asyncio.sleep(0.05)  # The bridge's own wait is longer.
                else:
                    break
        try:
            yield sink
        finally:
            await sink.close()

    def opened_patiently(self, context: SinkContext = ALONE) -> AbstractAsyncContextManager[Sink]:
        """With timeouts that a busy machine does not reach: no record is sent twice."""
        return self.opened(context, **self.patience)

    @property
    def patience(self) -> Mapping[str, Any]:
        return PATIENCE.get(self.kind, {})

    @property
    def max_batch(self) -> int:
        return self._type.max_batch

    @property
    def _type(self) -> SinkType:
        return registry.types()[self.kind]


class ATopic(Destination):
    kind = "kafka"
    stores_once = True
    uncompressed: ClassVar[Mapping[str, Any]] = {"compression": "none"}

    def __init__(self, server: KafkaBehindALine) -> None:
        super().__init__()
        self._server = server
        self.objects_alone = {"notice_topic": f"{self.name}-notices"}
        self.envelopes = {**Destination.envelopes, "notice_topic": self.name}

    async def prepare(self, limit: int | None) -> None:
        settings = {} if limit is None else {"max_message_bytes": str(limit)}
        await asyncio.to_thread(self._server.create_topic, self.name, 3, **settings)
        await asyncio.to_thread(self._server.create_topic, f"{self.name}-notices", 1)

    async def remove(self) -> None:
        for topic in (self.name, f"{self.name}-notices"):
            await asyncio.to_thread(self._server.delete_topic, topic)

    def options(self) -> dict[str, Any]:
        port = self._server.line_port if self.line else self._server.bootstrap.rpartition(":")[2]
        server = {"bootstrap_servers": f"127.0.0.1:{port}", "topic": self.name}
        # A broker that comes back is found at once, where by default it would be after up to ten seconds.
        soon = {"reconnect.backoff.max.ms": 200}
        return {**server, "ack_timeout": SINK_TIMEOUT, "connect_timeout": SINK_TIMEOUT, "properties": soon}

    def at(self, port: int) -> dict[str, Any]:
        return {"bootstrap_servers": f"127.0.0.1:{port}"}

    async def stored(self) -> list[Stored]:
        found = []
        for record in await asyncio.to_thread(self._server.read_all, self.name):
            headers = {name: (value or b"").decode() for name, value in record.headers}
            self.schemas.check(record.value, headers)
            attributes = _attributes(headers, "ce_")
            key, where = (record.key or b"").decode(), str(record.partition)
            found.append(Stored(attributes["id"], key, record.value or b"", attributes, where))
        return found

    async def fall(self) -> None:
        await asyncio.to_thread(self._server.kill9)

    async def rise(self) -> None:
        if not self._server.running:
            await asyncio.to_thread(self._server.start)

    def new_line(self) -> Line:
        return Line(self._server.behind_the_line, port=self._server.line_port)


class ATopicWithState(ATopic):
    """Beside it is a compacted topic with the newest record of each object."""

    def __init__(self, server: KafkaBehindALine) -> None:
        super().__init__(server)
        self.way = "kafka-state"

    async def prepare(self, limit: int | None) -> None:
        await super().prepare(limit)
        compact = {"cleanup_policy": "compact"}
        await asyncio.to_thread(self._server.create_topic, f"{self.name}-state", 1, **compact)

    async def remove(self) -> None:
        await super().remove()
        await asyncio.to_thread(self._server.delete_topic, f"{self.name}-state")

    def options(self) -> dict[str, Any]:
        return {**super().options(), "state_topic": f"{self.name}-state"}


class ATopicExactlyOnce(ATopic):
    """In transactions, with a topic for progress beside it."""

    def __init__(self, server: KafkaBehindALine) -> None:
        super().__init__(server)
        self.way = "kafka-exactly-once"

    async def prepare(self, limit: int | None) -> None:
        await super().prepare(limit)
        compact = {"cleanup_policy": "compact"}
        await asyncio.to_thread(self._server.create_topic, f"{self.name}-progress", 1, **compact)

    async def remove(self) -> None:
        await super().remove()
        await asyncio.to_thread(self._server.delete_topic, f"{self.name}-progress")

    async def stored(self) -> list[Stored]:
        await asyncio.to_thread(self._server.settle_transactions, self.name)
        return await super().stored()

    def options(self) -> dict[str, Any]:
        # To end the transactions of an earlier producer takes the broker longer than to answer.
        progress = {"progress_topic": f"{self.name}-progress", "connect_timeout": 3 * SINK_TIMEOUT}
        return {**super().options(), "exactly_once": True, **progress}


class AStream(Destination):
    kind = "nats"
    stores_once = True
    knows_ids = True

    def __init__(self, server: Nats, *, shared: bool = False) -> None:
        """``shared``: the sink is not the only writer, and keeps the order in another way."""
        super().__init__()
        self._server = server
        self._sole_writer = not shared
        self.way = "nats-shared" if shared else "nats"

    async def prepare(self, limit: int | None) -> None:
        async with await nats.connect(self._server.url) as connection:
            config = StreamConfig(name=self.name, subjects=[f"{self.name}.>"], max_msg_size=limit or -1)
            await connection.jetstream().add_stream(config)

    async def remove(self) -> None:
        async with await nats.connect(self._server.url) as connection:
            await connection.jetstream().delete_stream(self.name)

    def options(self) -> dict[str, Any]:
        url = f"nats://127.0.0.1:{self.line.port}" if self.line else self._server.url
        subject = f"{self.name}.{{group}}.{{resource}}.{{namespace}}.{{name}}"
        stream = {"servers": [url], "stream": self.name, "subject": subject, "sole_writer": self._sole_writer}
        return {**stream, "ack_timeout": SINK_TIMEOUT, "connect_timeout": SINK_TIMEOUT}

    def at(self, port: int) -> dict[str, Any]:
        return {"servers": [f"nats://127.0.0.1:{port}"]}

    async def stored(self) -> list[Stored]:
        records = await self._server.read_all(self.name)
        return [self._stored(each.subject, each.data, each.headers) for each in records]

    def _stored(self, subject: str, data: bytes, headers: Mapping[str, str]) -> Stored:
        self.schemas.check(data, headers)
        attributes = _attributes({name: unquote(value) for name, value in headers.items()}, "ce-")
        where = subject.removeprefix(self.name)
        return Stored(attributes["id"], attributes["partitionkey"], data, attributes, where)

    async def fall(self) -> None:
        await asyncio.to_thread(self._server.kill9)

    async def rise(self) -> None:
        if not self._server.running:
            await asyncio.to_thread(self._server.start)

    def new_line(self) -> Line:
        return Line(self._server.port)


class AStreamWithState(AStream):
    """Beside it is a bucket with the newest message of each object."""

    def __init__(self, server: Nats) -> None:
        super().__init__(server)
        self.way = "nats-state"

    async def prepare(self, limit: int | None) -> None:
        await super().prepare(limit)
        async with await nats.connect(self._server.url) as connection:
            await connection.jetstream().create_key_value(bucket=self.name)

    async def remove(self) -> None:
        await super().remove()
        async with await nats.connect(self._server.url) as connection:
            await connection.jetstream().delete_key_value(self.name)

    def options(self) -> dict[str, Any]:
        return {**super().options(), "state": self.name}


class ASubject(AStream):
    """Where a subscriber listens, and nobody keeps the messages."""

    stores_once = False
    knows_ids = False

    def __init__(self, server: Nats) -> None:
        super().__init__(server)
        self.way = "nats-core"
        self._connection: Any = None
        self._subscription: Any = None
        self._received: list[Msg] = []

    async def prepare(self, limit: int | None) -> None:
        async def take(message: Msg) -> None:
            self._received.append(message)

        self._connection = await nats.connect(self._server.url)
        self._subscription = await self._connection.subscribe(f"{self.name}.>", cb=take)
        await self._connection.flush()

    async def remove(self) -> None:
        await self._connection.close()

    def options(self) -> dict[str, Any]:
        return {**super().options(), "mode": "core", "stream": None, "sole_writer": True}

    async def stored(self) -> list[Stored]:
        await self._connection.flush()
        async with asyncio.timeout(30 * BUSY):
            while self._subscription.pending_msgs:  # noqa: ASYNC110 (no event for it)
                await asyncio.sleep(0)
        return [self._stored(each.subject, each.data, each.headers or {}) for each in self._received]


class AnEndpoint(Destination):
    kind = "webhook"
    stores_once = False
    envelopes: Mapping[str, Any] = {**Destination.envelopes, "batch": 1}

    def __init__(self, *, batch: int = 1) -> None:
        """``batch``: most events in one request."""
        super().__init__()
        self.receiver = WebhookReceiver()
        self._batch = batch
        self.way = f"webhook, {batch} in a request"
        self._fell = False

    async def prepare(self, limit: int | None) -> None:
        def answer(posted: Posted) -> Answer:
            return ACCEPTED if limit is None or len(posted.content) <= limit else Answer(413)

        self.receiver.answer = answer
        await self.receiver.start()

    async def remove(self) -> None:
        await self.receiver.stop()

    def options(self) -> dict[str, Any]:
        url = f"http://127.0.0.1:{self.line.port}/hook" if self.line else self.receiver.url
        return {"url": url, "timeout": SINK_TIMEOUT, "batch": self._batch}

    def at(self, port: int) -> dict[str, Any]:
        return {"url": f"http://127.0.0.1:{port}/hook"}

    async def stored(self) -> list[Stored]:
        for posted in self.receiver.accepted:
            self.schemas.check(posted.content, posted.headers if "ce-id" in posted.headers else None)
        return [event for posted in self.receiver.accepted for event in _posted(posted)]

    async def fall(self) -> None:
        self._fell = True
        await self.receiver.stop()

    async def rise(self) -> None:
        if self._fell:
            self._fell = False
            await self.receiver.start()

    def new_line(self) -> Line:
        port = urlsplit(self.receiver.url).port
        assert port is not None
        return Line(port)


class AGuardedEndpoint(AnEndpoint):
    """Takes only requests with its newest token, a right signature, and the origin that it has agreed to; a sink to it
    has every option of a webhook."""

    _ORIGIN = "kubedelta.example.com"

    def __init__(self, folder: Path) -> None:
        super().__init__(batch=10)
        self.way = "webhook, guarded"
        self._tokens = TokenServer()
        self._key = secrets.token_bytes(32)
        self._folder = folder

    async def prepare(self, limit: int | None) -> None:
        (self._folder / "client").write_text("hush")
        (self._folder / "keys").write_text(f"whsec_{b64encode(self._key).decode()}\n{KeyPair.make().private()}\n")
        await self._tokens.start()
        await super().prepare(limit)
        inner = self.receiver.answer
        self.receiver.answer = lambda posted: inner(posted) if self._is_right(posted) else Answer(401)
        self.receiver.permission = lambda posted: Answer(200, {"WebHook-Allowed-Origin": "*"})

    async def remove(self) -> None:
        await super().remove()
        await self._tokens.stop()

    def options(self) -> dict[str, Any]:
        return {
            **super().options(),
            "oauth2": self._tokens.options(client_secret_file=str(self._folder / "client")),
            "secret_file": str(self._folder / "keys"),
            "compression": "gzip",
            "compress_above": 0,
            "rate": {"requests": 10_000, "burst": 100},
            "request_origin": self._ORIGIN,
            "allow_networks": ["127.0.0.0/8"],
        }

    def _is_right(self, posted: Posted) -> bool:
        headers = posted.headers
        content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + posted.body
        mine = b64encode(hmac.digest(self._key, content, "sha256")).decode()
        signed = f"v1,{mine}" in headers["webhook-signature"].split(" ")
        asked = headers.get("webhook-request-origin") == self._ORIGIN and headers["content-encoding"] == "gzip"
        return signed and asked and self._tokens.accepts(headers["authorization"])


class AFile(Destination):
    """Its folder is a mount that goes and comes back."""

    kind = "file"
    stores_once = True

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._mount = folder / "mount"
        self._away = folder / "away"
        self.path = self._mount / "deltas.ndjson"

    async def prepare(self, limit: int | None) -> None:
        self._mount.mkdir()

    async def remove(self) -> None:
        """The folder is the test's."""

    def options(self) -> dict[str, Any]:
        return {"path": str(self.path)}

    def nowhere(self) -> dict[str, Any]:
        return {"path": str(self._mount / "missing" / "deltas.ndjson")}

    def at(self, port: int) -> dict[str, Any]:
        raise NotImplementedError

    async def stored(self) -> list[Stored]:
        lines, rest = self._lines()
        assert not rest, f"the file ends in the middle of a line of {len(rest)} bytes"
        return lines

    async def stored_by_a_killed_writer(self) -> list[Stored]:
        """A line without its newline is not there: the next start cuts it off."""
        lines, _ = self._lines()
        return lines

    def _lines(self) -> tuple[list[Stored], bytes]:
        *lines, rest = (self.path.read_bytes() if self.path.exists() else b"").split(b"\n")
        for line in lines:
            self.schemas.check(line)
        return [_structured(line) for line in lines], rest

    async def fall(self) -> None:
        self._mount.rename(self._away)

    async def rise(self) -> None:
        with suppress(FileNotFoundError):
            self._away.rename(self._mount)


class ARotatedFile(AFile):
    """Begun anew every few records, with closed parts that are compressed meanwhile."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.way = "file, rotated"

    def options(self) -> dict[str, Any]:
        return {**super().options(), "rotation": {"bytes": "16KiB"}}

    def _lines(self) -> tuple[list[Stored], bytes]:
        """A name that ends in .zst, and any other name of a part, stands for a whole part at every moment."""
        parts = self._parts()
        while parts.keys() != (again := self._parts()).keys():  # A listing may miss a name that changes meanwhile.
            parts = again
        closed = b"".join(_part(parts[name]) for name in sorted(parts))
        assert closed.endswith(b"\n") or not closed
        lines, rest = super()._lines()
        return [_structured(line) for line in closed.splitlines()] + lines, rest

    def _parts(self) -> dict[str, Path]:
        return {each.name.removesuffix(".zst"): each for each in self._mount.glob(f"{self.path.name}.*[0-9t]")}


def _attributes(headers: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Those of the binary form."""
    attributes = {name.removeprefix(prefix): value for name, value in headers.items() if name.startswith(prefix)}
    attributes.setdefault("datacontenttype", headers["content-type"])
    return attributes


def _posted(request: Posted) -> list[Stored]:
    match request.headers["content-type"]:
        case "application/cloudevents+json":
            return [_structured(request.content)]
        case "application/cloudevents-batch+json":
            return [_structured(bytes(event)) for event in msgspec.json.decode(request.content, type=list[msgspec.Raw])]
    attributes = _attributes({name: unquote(value) for name, value in request.headers.items()}, "ce-")
    return [Stored(attributes["id"], attributes["partitionkey"], request.content, attributes, "")]


def _part(file: Path) -> bytes:
    try:
        content = file.read_bytes()
    except FileNotFoundError:  # Its compression ended meanwhile.
        return _part(file.with_name(f"{file.name}.zst"))
    return zstandard.decompress(content) if file.suffix == ".zst" else content


def _structured(text: bytes) -> Stored:
    members = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    body = bytes(members.pop("data"))
    attributes = {name: str(msgspec.json.decode(value)) for name, value in members.items()}
    return Stored(attributes["id"], attributes["partitionkey"], body, attributes, "")
