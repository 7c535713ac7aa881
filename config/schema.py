"""The whole file as frozen types. Each option is documented where it is declared: `config/reference.yaml` and
``kubedelta schema`` are made from what stands here and in each sink's ``options.py``."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    PlainSerializer,
    SerializeAsAny,
    WithJsonSchema,
)
from pydantic_settings import BaseSettings, SettingsConfigDict

from config.delivery import DeliverySettings, MaxBacklogSettings
from config.redaction import RedactionSettings
from config.resources import ResourceEntry, ResourceSettings
from config.state import OnClusterChange, RetainSettings, StateSettings
from config.values import HOST, PORT, Between, Count, Duration, Matching, Section

__all__ = [
    "Address",
    "ClusterSettings",
    "DeliverySettings",
    "Duration",
    "LogFormat",
    "LogLevel",
    "MaxBacklogSettings",
    "OnClusterChange",
    "RedactionSettings",
    "ResourceSettings",
    "RetainSettings",
    "Settings",
    "SinkSettings",
    "StateSettings",
    "TelemetrySettings",
    "WatchList",
    "WatchSettings",
]

# ── cluster ──────────────────────────────────────────────────────────────────


def _why_no_server(url: str) -> str:
    if "@" in url:
        return "credentials do not belong into the address; use token_file"
    return "an address like https://10.0.0.1:6443 or http://127.0.0.1:8001 is expected"


Server: TypeAlias = Annotated[
    str,
    Matching(rf"https?://{HOST}(?::{PORT})?(?:/[^\x00-\x20\x7f?#@]*)?", _why_no_server),
    AfterValidator(lambda url: url.rstrip("/")),
]
ClusterName: TypeAlias = Annotated[
    str,
    Matching(
        "[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?",
        "letters, digits, '-', '_' and '.' are expected, with a letter or a digit at both ends",
        longest=128,
    ),
]


class ClusterSettings(Section):
    """Which API server, and who the bridge is to it."""

    name: ClusterName = Field(
        description="What this cluster is called in every event (source: /clusters/<name>). Letters, digits, '-', '_' "
        "and '.'. Consumers and their order keys rely on it: changing it makes every object a new one to them.",
        examples=["prod-eu1"],
    )
    kubeconfig: Path | None = Field(
        default=None,
        description="A kubeconfig file. Without it, and without context and server: the pod's own service account, "
        "else the files of KUBECONFIG, else ~/.kube/config.",
        examples=["~/.kube/config"],
    )
    context: str | None = Field(
        default=None,
        min_length=1,
        description="The context of the kubeconfig to use. Without it: its current-context.",
        examples=["prod-admin"],
    )
    server: Server | None = Field(
        default=None,
        description="The API server's address. Alone it means access without credentials, which is what "
        "`kubectl proxy` offers on http://127.0.0.1:8001. Beside kubeconfig or context it counts before theirs.",
        examples=["http://127.0.0.1:8001"],
    )
    token_file: Path | None = Field(
        default=None,
        description="A file with the bearer token, in place of any other credentials. It is read again when it "
        "changes and when the API server answers 401.",
        examples=["/run/secrets/token"],
    )
    ca_file: Path | None = Field(
        default=None,
        description="A file with the certificate authorities (PEM) that may vouch for the API server, in place of any "
        "other. Without one anywhere: the system's.",
        examples=["/run/secrets/ca.crt"],
    )


# ── telemetry ────────────────────────────────────────────────────────────────


class Address(NamedTuple):
    """Where to listen."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


_LABEL = "[A-Za-z0-9_-]{1,63}"  # Of more, or of none, no lookup of a name can be made.
_LISTEN = Matching(
    rf"(?:\[[0-9a-fA-F:.]+\]|{_LABEL}(?:\.{_LABEL})*\.?)?:(?:0|{PORT})",
    "host:port is expected, such as 127.0.0.1:8080, [::1]:8080, or :8080 for every interface",
)


def _address(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError(_LISTEN.wanted)  # pydantic reports ValueErrors alone
    host, _, port = _LISTEN.checked(value).rpartition(":")
    return Address(host.strip("[]"), int(port))


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
    """What the bridge says about itself."""

    listen: Annotated[
        Address,
        BeforeValidator(_address),
        PlainSerializer(str, return_type=str),
        WithJsonSchema(_LISTEN.as_json_schema()),
    ] = Field(
        default=Address("127.0.0.1", 8080),
        description="host:port of /metrics, /healthz and /readyz. This machine alone by default, because there is no "
        "login; in a pod it must be 0.0.0.0:8080 (or [::]:8080) for the kubelet to probe it. Port 0 takes a free one.",
        examples=["0.0.0.0:8080"],
    )
    details_token_file: Path | None = Field(
        default=None,
        description="A file with a token. Whoever sends it (Authorization: Bearer …) gets the details of "
        "/readyz?verbose from any machine; without it they are for requests from the bridge's own machine (in a pod: "
        "kubectl port-forward), and others get the short answer. It is read at each such request.",
        examples=["/run/secrets/telemetry-token"],
    )
    log_level: LogLevel = Field(
        default=LogLevel.INFO,
        description="The least important log line that is written. info tells states and troubles; debug adds a line "
        "for each batch and each watch, never one for each event.",
    )
    log_format: LogFormat = Field(
        default=LogFormat.AUTO,
        description="json: one object a line. console: for people. auto: console on a terminal, json elsewhere. Logs "
        "go to standard error.",
    )


# ── watch ────────────────────────────────────────────────────────────────────


class WatchList(StrEnum):
    AUTO = "auto"
    NEVER = "never"


class WatchSettings(Section):
    """How resources are listed and watched. The defaults are right for most clusters."""

    silence_seconds: Annotated[Duration, Between(1)] = Field(
        default=Duration(90),
        description="Time without a byte on a watch before it is taken for dead and opened again from where it "
        "was, without a list. The API server says something every minute (a bookmark), so 90 leaves it half a minute; "
        "much less makes lists on a quiet cluster, because a second silence in a row is answered with one.",
    )
    discovery_seconds: Annotated[Duration, Between(0.1)] = Field(
        default=Duration(10),
        description="Time between two looks at what the API server serves, so that custom resources which appear or "
        "go are noticed. Where nothing changed a look costs it two answers without a body (304).",
    )
    page_size: Count = Field(
        default=500,
        ge=0,
        le=100_000,
        description="Objects asked for in one answer to a list (client-go's own number); 0 for all in one answer.",
    )
    watch_list: WatchList = Field(
        default=WatchList.AUTO,
        description="auto: stream the first objects in a watch where the API server can (sendInitialEvents), "
        "which costs it far less memory, and list them elsewhere. never: always list.",
    )


# ── sinks ────────────────────────────────────────────────────────────────────


class SinkSettings(DeliverySettings):
    """One sink: what the bridge does with it, and what it does by itself."""

    type: str
    options: SerializeAsAny[BaseModel]
    """An instance of the options type that was given for ``type``."""


# ── the file ─────────────────────────────────────────────────────────────────


class Settings(BaseSettings):
    """A whole configuration, valid and complete. ``config.load`` makes it."""

    model_config = SettingsConfigDict(extra="forbid", frozen=True)

    cluster: ClusterSettings = Field(description="Which API server, and who the bridge is to it.")
    resources: tuple[ResourceEntry, ...] = Field(
        min_length=1,
        max_length=1000,
        description="What to watch: names of resources, or mappings that narrow them. Two entries may not mean the "
        "same object: it would be exported twice, without an order.",
    )
    sinks: Mapping[str, SinkSettings] = Field(
        min_length=1,
        description="Where deltas go: any number of destinations, each under a name of your own, each with a type. "
        "The name stands in logs and metrics, and is what a sink's position is remembered by.",
    )
    state: StateSettings = Field(
        default=StateSettings(), description="What the bridge remembers, where, and for how long."
    )
    redaction: RedactionSettings = Field(
        default=RedactionSettings(), description="How the values of Secrets are replaced."
    )
    watch: WatchSettings = Field(
        default=WatchSettings(),
        description="How resources are listed and watched. The defaults are right for most clusters.",
    )
    telemetry: TelemetrySettings = Field(default=TelemetrySettings(), description="What the bridge says about itself.")
    shutdown_grace_seconds: Duration = Field(
        default=Duration(20),
        description="Time that sinks may take to finish after SIGTERM. Keep it below the pod's "
        "terminationGracePeriodSeconds (30 by default), or the kubelet ends the bridge first.",
    )
