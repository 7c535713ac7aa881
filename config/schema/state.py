"""The section ``state``: the state directory, and how long its records stay."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from pydantic import Field

from config.values import Duration, Flag, Section, Size


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
        description="Records are kept while they and all newer records take at most this much in the outbox; 0 sets no "
        "bound.",
        examples=["10GiB"],
    )


class EncryptionSettings(Section):
    """Encryption of objects' content in the state directory."""

    key_files: tuple[Path, ...] = Field(
        default=(),
        description="Files with keys of 32 to 4096 bytes, such as the output of `openssl rand -hex 32`. The content"
        " of objects is encrypted with AES-256-GCM: new content with the key of the first file; the"
        " others are for content from before. Names, namespaces, uids and versions stay readable. It"
        " needs kubedelta[encryption]; the image has it.",
        examples=[["/etc/kubedelta/state-2026-11.key", "/etc/kubedelta/state-2026-05.key"]],
    )
    encrypt_new: Flag = Field(
        default=True,
        description="False: new content is not encrypted, and the keys are for the content from before. Meant for "
        "leaving encryption.",
    )


class StateSettings(Section):
    """The state directory, and how long its records stay."""

    directory: Path = Field(
        default=Path("state"),
        description="Directory of the database with everything that survives a restart. It must exist, since a"
        " missing mount would go unnoticed, be writable, and belong to a single bridge; else the bridge"
        " does not start (exit code 78). It must be on a local disk or a block volume: NFS does not keep"
        " SQLite's locks.",
        examples=["/var/lib/kubedelta"],
    )
    on_cluster_change: OnClusterChange = Field(
        default=OnClusterChange.REFUSE,
        description="The reaction to a state of another cluster (by the uid of the namespace kube-system). refuse:"
        " the bridge does not start (exit code 78), since with a wrong kubeconfig it would export every"
        " object as deleted. restart: it compares the state with this cluster, and begins a new epoch"
        " (source: /clusters/<name>/epochs/<n>).",
    )
    retain: RetainSettings = Field(
        default=RetainSettings(),
        description="Retention of records that every sink has settled, for `kubedelta replay` and for sinks that "
        "start at earliest. Of two bounds, the first that is reached counts; without bounds, settled records leave at "
        "once.",
    )
    forget_sinks_after: Duration = Field(
        default=Duration(7 * 86_400),
        description="How long the backlog of a removed sink is kept, counted while the bridge runs. A week, so that a "
        "sink removed by mistake can go on at its cursor; until then its backlog takes disk space.",
    )
    encryption: EncryptionSettings = Field(
        default=EncryptionSettings(),
        description="Encryption of objects' content in the state directory. Without key files there is none.",
    )
    min_free_bytes: Size = Field(
        default=Size(64 * 1024**2),
        description="While the disk has less free space than this, the bridge does not read from the API server; "
        "sinks go on, and reading resumes once there is space. The reserve keeps room for cursors and dead letters.",
    )
