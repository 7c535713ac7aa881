"""Declares the options about the process: the state directory and how long its records stay (``state``), the HTTP
server for machines and the logs (``telemetry``), traces of batches (``tracing``), and the web page for people
(``page``).
"""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeAlias

import msgspec
from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from bridge.model.primitives.network import host_and_port
from config.rules import Given, Rule, Ruled, needs
from config.values import HOST, PORT, CaFile, Duration, Flag, Matching, Names, Section, Size

# ── State ────────────────────────────────────────────────────────────────────


class OnClusterChange(StrEnum):
    REFUSE = "refuse"
    RESTART = "restart"


class RetainSettings(Section):
    """Retention of records that every sink has settled."""

    age: Duration = Field(
        default=Duration(0),
        description="Records are kept while they are younger than this; 0 sets no bound.",
        examples=["7d"],
    )
    bytes: Size = Field(
        default=Size(0),
        description="Records are kept while they and all newer ones take at most this much; 0 sets no bound.",
        examples=["10GiB"],
    )


class EncryptionSettings(Section):
    """Encryption of objects' content in the state directory."""

    key_files: tuple[Path, ...] = Field(
        default=(),
        description="Files with keys of 32 to 4096 bytes, such as the output of `openssl rand -hex 32`. The first is "
        "for new content, the others for older content. It needs kubedelta[encryption].",
        examples=[["/etc/kubedelta/state-2026-11.key", "/etc/kubedelta/state-2026-05.key"]],
    )
    encrypt_new: Flag = Field(
        default=True,
        description="False: new content is not encrypted. Meant for leaving encryption.",
    )


class StateSettings(Section):
    """The state directory, and how long its records stay."""

    directory: Path = Field(
        default=Path("state"),
        description="Directory of the database with everything that survives a restart. It must exist, be writable, "
        "and belong to one bridge, on a local disk or a block volume: NFS does not keep SQLite's locks.",
        examples=["/var/lib/kubedelta"],
    )
    on_cluster_change: OnClusterChange = Field(
        default=OnClusterChange.REFUSE,
        description="For a state of another cluster (by the uid of the namespace kube-system), as with a wrong "
        "kubeconfig. refuse: the bridge does not start. restart: it compares the state with this cluster, in a new "
        "epoch.",
    )
    retain: RetainSettings = Field(
        default=RetainSettings(),
        description="How long records that every sink has settled are kept, for `kubedelta replay` and sinks that "
        "start at earliest: to the first bound. Without bounds they leave at once.",
    )
    forget_sinks_after: Duration = Field(
        default=Duration(7 * 86_400),
        description="How long the backlog of a removed sink is kept, counted while the bridge runs: if it comes back, "
        "it goes on there.",
    )
    encryption: EncryptionSettings = Field(
        default=EncryptionSettings(),
        description="Encryption of objects' content in the state directory. Without key files there is none.",
    )
    min_free_bytes: Size = Field(
        default=Size(64 * 1024**2),
        description="While the disk has less free space, the bridge does not read from the API server; sinks go on.",
    )


# ── Telemetry ────────────────────────────────────────────────────────────────


class Address(NamedTuple):
    """An address to listen on. ``host`` is empty for every interface."""

    host: str
    port: int

    def __str__(self) -> str:
        return host_and_port(*self)


_LABEL = "[A-Za-z0-9_-]{1,63}"  # A name lookup raises for an empty label, and for a longer one.
_LISTEN = Matching(
    rf"(?:\[[0-9a-fA-F:.]+\]|{_LABEL}(?:\.{_LABEL})*\.?)?:(?:0|{PORT})",
    "host:port is expected, such as 127.0.0.1:8080, [::1]:8080, or :8080 for every interface",
)


def _address(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError(_LISTEN.wanted)  # pydantic turns only a ValueError into a problem of this option
    host, _, port = _LISTEN.checked(value).rpartition(":")
    return Address(host.strip("[]"), int(port))


ListenAddress: TypeAlias = Annotated[
    Address,
    BeforeValidator(_address),
    PlainSerializer(str, return_type=str),
    WithJsonSchema(_LISTEN.as_json_schema()),
]


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    AUTO = "auto"
    """Console on a terminal, JSON elsewhere."""
    JSON = "json"
    CONSOLE = "console"


class TelemetrySettings(Section):
    """The HTTP server for machines, and the logs."""

    listen: ListenAddress = Field(
        default=Address("127.0.0.1", 8080),
        description="host:port of /metrics, /healthz and /readyz, which need no login. In a pod 0.0.0.0:8080 (or "
        "[::]:8080), for the kubelet. Port 0 takes a free one.",
        examples=["0.0.0.0:8080"],
    )
    details_token_file: Path | None = Field(
        default=None,
        description="A file with a token, read at each request. Whoever sends it (Authorization: Bearer …) gets the "
        "details of /readyz?verbose; without the option, requests from the bridge's own machine do.",
        examples=["/run/secrets/telemetry-token"],
    )
    log_level: LogLevel = Field(
        default=LogLevel.INFO,
        description="The lowest level that is written. debug adds a line for each batch and each watch.",
    )
    log_format: LogFormat = Field(
        default=LogFormat.AUTO,
        description="Of the log, on standard error. json: an object a line. console: for people. auto: console on a "
        "terminal, else json.",
    )


# ── Traces ───────────────────────────────────────────────────────────────────

_ENDPOINT = Matching(
    rf"https?://{HOST}(?::{PORT})?(?:[/?][^\x00-\x20\x7f#]*)?",
    "a URL that begins with https:// or http:// and names a host is needed, without user and password",
)
_HEADER = Matching(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", lambda name: f"{name!r} is no name of a header", longest=256)


class TracingSettings(Section):
    """Traces of batches, for a collector."""

    endpoint: Annotated[str, _ENDPOINT] | None = Field(
        default=None,
        description="The URL to which spans are sent, by OTLP over HTTP (protobuf). It needs the extra "
        "kubedelta[otel].",
        examples=["https://collector.observability:4318/v1/traces"],
    )
    sample: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.01,
        description="The share of batches that are traced.",
    )
    ca_file: CaFile = None
    cert_file: Path | None = Field(
        default=None, description="The certificate (PEM) to show to the collector.", examples=["/run/secrets/tls.crt"]
    )
    key_file: Path | None = Field(
        default=None, description="The private key (PEM) of cert_file.", examples=["/run/secrets/tls.key"]
    )
    header_files: Annotated[dict[str, Path], Names(_HEADER)] = Field(
        default={},
        description="Headers of each request: name to the file that holds the value. A changed file is read again.",
        examples=[{"authorization": "/run/secrets/collector"}],
    )


# ── The page ─────────────────────────────────────────────────────────────────

_LOCAL = r"(127(\.[0-9]{1,3}){3}|localhost|\[::1\]):[0-9]+"
"""Addresses that only this machine reaches, for the loader and the schema alike. The server judges by itself."""


class ReachesBeyond(msgspec.Struct, frozen=True):
    """The address in the option ``name`` accepts connections from other machines."""

    name: str

    def holds(self, section: Any) -> bool:
        address = getattr(section, self.name)
        return address is not None and re.fullmatch(_LOCAL, str(address)) is None

    def as_json_schema(self) -> dict[str, Any]:
        beyond = {"type": "string", "not": {"pattern": f"^(?:{_LOCAL})$"}}
        return {"properties": {self.name: beyond}, "required": [self.name]}


class PageSettings(Ruled):
    """The web page for people."""

    rules = (
        needs("token_file", "listen"),
        Rule(
            ReachesBeyond("listen"),
            Given("token_file"),
            "listen on an address that other machines reach needs token_file",
        ),
    )

    listen: ListenAddress | None = Field(
        default=None,
        description="host:port of the page. Without it, there is none. An address that other machines reach, or a "
        "proxy on this one, needs token_file. Port 0 takes a free one, which the log names.",
        examples=["127.0.0.1:8081"],
    )
    token_file: Path | None = Field(
        default=None,
        description="A file with a token of at least 16 characters, for looking and changing. Without it, nothing can "
        "be changed, and whoever reaches the address may look.",
        examples=["/run/secrets/page-token"],
    )
