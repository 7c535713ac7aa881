"""Declares the options about the cluster: the API server and the bridge's credentials for it (``cluster``), the
election by a Lease on it (``election``), how resources are listed and watched (``watch``), and which part of all
objects this bridge has (``shard``).
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field

from bridge.model.primitives.shard import MOST_SHARDS, ShardBy
from config.values import HOST, PORT, Between, Count, Duration, Flag, Matching, Section

# ── Cluster and election ─────────────────────────────────────────────────────


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

_LABEL = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"

Namespace: TypeAlias = Annotated[
    str, Matching(_LABEL, "a namespace's name is expected: lower case letters, digits and '-'", longest=63)
]
LeaseName: TypeAlias = Annotated[
    str,
    Matching(rf"{_LABEL}(?:\.{_LABEL})*", "a name like kubedelta or kubedelta.prod is expected", longest=253),
]
Identity: TypeAlias = Annotated[
    str,
    Matching(
        "[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?", "letters, digits, '-', '_' and '.' are expected", longest=253
    ),
]


class ClusterSettings(Section):
    """The API server, and the bridge's credentials for it."""

    name: ClusterName = Field(
        description="The cluster's name in every event (source: /clusters/<name>). Under another name, every object "
        "is new to consumers.",
        examples=["prod-eu1"],
    )
    kubeconfig: Path | None = Field(
        default=None,
        description="A kubeconfig file, which is read again when it changes; another server in it needs a restart. "
        "Without it, and without context and server: the pod's service account, else the files of KUBECONFIG, else "
        "~/.kube/config.",
        examples=["~/.kube/config"],
    )
    context: str | None = Field(
        default=None,
        min_length=1,
        description="The context of the kubeconfig. Without it: its current-context.",
        examples=["prod-admin"],
    )
    server: Server | None = Field(
        default=None,
        description="The API server's address, in place of that of kubeconfig or context. Without these, the bridge "
        "sends no credentials beside token_file: right for `kubectl proxy`.",
        examples=["http://127.0.0.1:8001"],
    )
    token_file: Path | None = Field(
        default=None,
        description="A file with the bearer token, in place of any other credentials. It is read again when it "
        "changes, and after a 401.",
        examples=["/run/secrets/token"],
    )
    ca_file: Path | None = Field(
        default=None,
        description="Certificates (PEM) of the authorities to trust for the API server, in place of the "
        "kubeconfig's; without either, the system's. It is read again when it changes.",
        examples=["/run/secrets/ca.crt"],
    )


class ElectionSettings(Section):
    """Several replicas, of which one delivers: the holder of a Lease."""

    enabled: Flag = Field(
        default=False,
        description="The holder of the Lease delivers; the others follow it, and one of them takes over when it ends. "
        "Each needs a state.directory of its own, and a redaction key in common.",
    )
    lease: LeaseName = Field(
        default="kubedelta",
        description="The name of the Lease in the watched cluster, for the replicas of this bridge alone. The first "
        "replica creates it.",
    )
    namespace: Namespace | None = Field(
        default=None,
        description="The namespace of the Lease. Without it: that of the pod.",
        examples=["monitoring"],
    )
    identity: Identity | None = Field(
        default=None,
        description="The name of this replica, which no other has. By default the host name, in a pod the pod's name.",
        examples=["kubedelta-0"],
    )
    lease_duration: Annotated[Duration, Between(1, 600)] = Field(
        default=Duration(15),
        description="A follower takes the Lease when it was not renewed for so long, rounded up to whole seconds.",
    )
    renew_deadline: Annotated[Duration, Between(0.5, 400)] = Field(
        default=Duration(10),
        description="A leader that cannot renew the Lease for so long delivers no more. At most two thirds of "
        "lease_duration, since clocks may run at different rates.",
    )
    retry_period: Annotated[Duration, Between(0.1, 60)] = Field(
        default=Duration(2),
        description="Time between two renewals. At most renew_deadline divided by 1.2.",
    )
    port: Annotated[int, Field(ge=0, le=65_535)] = Field(
        default=8083,
        description="The port at which a leader sends its state to its followers, on the address with which it "
        "reaches the API server; 0 for any free one.",
    )
    ack_timeout: Annotated[Duration, Between(0.1, 60)] = Field(
        default=Duration(1),
        description="A change is delivered when every follower in sync has it. One that does not answer for so long "
        "is not in sync any more.",
    )


# ── Watching ─────────────────────────────────────────────────────────────────


class WatchList(StrEnum):
    AUTO = "auto"
    NEVER = "never"


class RecoverStepsSettings(Section):
    """The bounds of the recovery of steps."""

    most_requests: Count = Field(
        default=2000,
        ge=2,
        le=1_000_000,
        description="Most requests after a list: one for each lost step and each changed object, some ten for each "
        "deleted one.",
    )
    concurrency: Count = Field(
        default=4, ge=1, le=64, description="Requests at the same time, for all resources together."
    )


def _section_of(value: Any) -> Any:
    """``false`` turns the recovery off; ``true``, and a section without a line, leave its defaults."""
    if value is False:
        return None
    return {} if value is None or value is True else value


class WatchSettings(Section):
    """How resources are listed and watched. The defaults are right for most clusters."""

    silence_seconds: Annotated[Duration, Between(1)] = Field(
        default=Duration(90),
        description="After this time without a byte, a watch is opened again at its position; after a second such "
        "time in a row, the resource is listed. The API server sends a bookmark every minute.",
    )
    discovery_seconds: Annotated[Duration, Between(0.1)] = Field(
        default=Duration(10),
        description="Time between two discoveries of the served resources, by which custom resources that appear or "
        "go are noticed.",
    )
    page_size: Count = Field(
        default=500,
        ge=0,
        le=100_000,
        description="Objects in a page of a list; 0 for all in a single page.",
    )
    watch_list: WatchList = Field(
        default=WatchList.AUTO,
        description="auto: stream the first objects in a watch (sendInitialEvents), which costs the API server "
        "less memory, and list where it does not support that. never: always list.",
    )
    recover_steps: Annotated[
        RecoverStepsSettings | None,
        BeforeValidator(_section_of, json_schema_input_type=RecoverStepsSettings | bool | None),
    ] = Field(
        default=RecoverStepsSettings(),
        description="After a watch that could not be resumed, lost steps are looked for in etcd's history, and "
        "exported with evidence recovered. false: they are not looked for.",
    )


# ── Shards ───────────────────────────────────────────────────────────────────

_NUMBERS = [1 << bits for bits in range(MOST_SHARDS.bit_length())]


def _power_of_two(of: int) -> int:
    if of not in _NUMBERS:
        raise ValueError(f"allowed: {', '.join(map(str, _NUMBERS))}")
    return of


class ShardSettings(Section):
    """The part of all objects that this bridge has."""

    of: Annotated[Count, AfterValidator(_power_of_two)] = Field(
        description="Number of shards, a power of two: as many bridges, each with a state directory of its own.",
        examples=[4],
        json_schema_extra={"enum": [*_NUMBERS]},
    )
    index: Count | None = Field(
        default=None,
        ge=0,
        lt=MOST_SHARDS,
        description="The shard of this bridge, from 0. By default the number at the end of the pod's name (POD_NAME, "
        "else the host name), modulo the number of shards: right for a StatefulSet.",
        examples=[2],
    )
    by: ShardBy = Field(
        default=ShardBy.UID,
        description="The field whose hash decides. uid: even shards, but no order between an object and its successor "
        "of the same name. namespace: the records of a name are in order, and all cluster-scoped objects in one "
        "shard.",
    )
