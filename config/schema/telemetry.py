"""The sections ``telemetry`` and ``tracing``: the HTTP server for machines, the logs, and traces of batches."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeAlias

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from bridge.model.primitives.addresses import host_and_port
from config.values import HOST, PORT, Matching, Names, Section


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
        description="host:port of /metrics, /healthz and /readyz. This machine alone by default, because there is no "
        "login; in a pod it must be 0.0.0.0:8080 (or [::]:8080) for the kubelet to probe it. Port 0 takes a free one.",
        examples=["0.0.0.0:8080"],
    )
    details_token_file: Path | None = Field(
        default=None,
        description="A file with a token. Whoever sends it (Authorization: Bearer …) gets the details of"
        " /readyz?verbose. Without it, requests from the bridge's own machine (in a pod: kubectl"
        " port-forward) get them. The file is read at each such request.",
        examples=["/run/secrets/telemetry-token"],
    )
    log_level: LogLevel = Field(
        default=LogLevel.INFO,
        description="The least important log line that is written. info: changes of state and failures. debug adds a "
        "line for each batch and each watch, and no line for a single event.",
    )
    log_format: LogFormat = Field(
        default=LogFormat.AUTO,
        description="json: one object a line. console: for people. auto: console on a terminal, json elsewhere. Logs "
        "go to standard error.",
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
        description="The URL to which spans are sent, by OTLP over HTTP (protobuf). Without it, there are no traces,"
        " and tracing costs nothing. It needs the extra kubedelta[otel].",
        examples=["https://collector.observability:4318/v1/traces"],
    )
    sample: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.01,
        description="The share of batches that are traced. Each has a span for the wait of its bytes, the"
        " comparison, the commit and the distribution, and three for each delivery, without anything of"
        " an object.",
    )
    ca_file: Path | None = Field(
        default=None,
        description="Certificates (PEM) of the authorities to trust, in place of the system's.",
        examples=["/run/secrets/ca.crt"],
    )
    cert_file: Path | None = Field(
        default=None, description="The certificate (PEM) to show to the collector.", examples=["/run/secrets/tls.crt"]
    )
    key_file: Path | None = Field(
        default=None, description="The private key (PEM) of cert_file.", examples=["/run/secrets/tls.key"]
    )
    header_files: Annotated[dict[str, Path], Names(_HEADER)] = Field(
        default={},
        description="Headers of each request, such as credentials: name to the file that holds the value. The files are"
        " read again when they change.",
        examples=[{"authorization": "/run/secrets/collector"}],
    )
