"""What the bridge remembers, where, and for how long."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from pydantic import Field

from config.values import Duration, Section, Size


class OnClusterChange(StrEnum):
    REFUSE = "refuse"
    RESTART = "restart"


class RetainSettings(Section):
    """How long records stay that every sink has settled."""

    age: Duration = Field(
        default=Duration(0),
        description="Kept while they are younger than this; 0 sets no bound.",
        examples=["7d"],
    )
    bytes: Size = Field(
        default=Size(0),
        description="Kept while they and all newer ones take at most this much in the outbox; 0 sets no bound.",
        examples=["10GiB"],
    )


class StateSettings(Section):
    """What the bridge remembers."""

    directory: Path = Field(
        default=Path("state"),
        description="Folder of the database that survives a restart: records that are not settled, every known object, "
        "how far each watch and each sink has come. It must exist, be writable, and belong to one bridge; else the "
        "bridge does not start (exit code 78). It is not made, because a volume that is not mounted would go "
        "unnoticed. On a disk of this machine or a block volume: NFS does not keep SQLite's locks.",
        examples=["/var/lib/kubedelta"],
    )
    on_cluster_change: OnClusterChange = Field(
        default=OnClusterChange.REFUSE,
        description="What happens where the state belongs to another cluster, told by the uid of the namespace "
        "kube-system. refuse: the bridge does not start (exit code 78), since a wrong kubeconfig would tell every "
        "object as deleted. restart: what is remembered is compared with this cluster, and a new epoch begins "
        "(source: /clusters/<name>/epochs/<n>).",
    )
    retain: RetainSettings = Field(
        default=RetainSettings(),
        description="How long records stay that every sink has settled, for `kubedelta replay` and for sinks that "
        "start at earliest. With both bounds set, whichever is met first counts; with none, they leave at once.",
    )
    forget_sinks_after: Duration = Field(
        default=Duration(7 * 86_400),
        description="How long the backlog of a sink that the configuration no longer names is kept. A week, so that a "
        "sink taken out by mistake goes on where it was; until then its backlog takes disk.",
    )
    min_free_bytes: Size = Field(
        default=Size(64 * 1024**2),
        description="While the disk has less room than this, nothing is read from the API server; sinks go on, and so "
        "does the intake once there is room. 64MiB are left so that cursors and dead letters can always be written.",
    )
