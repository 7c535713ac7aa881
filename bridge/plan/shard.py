"""The shard of this bridge: by the configuration, and by the name of the pod."""

from __future__ import annotations

import os
import re
import socket

from bridge.model.primitives.shard import Shard
from config.schema import ShardSettings


class UnknownShard(ValueError):
    """The configuration does not say which shard is meant. The message has what to do, for ``shard.index``."""


def shard_of(settings: ShardSettings) -> Shard | None:
    """None for all objects. Raises UnknownShard."""
    index = settings.index
    if index is not None and index >= settings.of:
        raise UnknownShard(f"found {index}; allowed with shard.of {settings.of}: 0 to {settings.of - 1}")
    if settings.of == 1:
        return None
    return Shard(settings.of, _ordinal() % settings.of if index is None else index, settings.by)


def _ordinal() -> int:
    pod = os.environ.get("POD_NAME") or socket.gethostname()
    if (ordinal := re.search(r"-([0-9]{1,9})$", pod)) is None:
        raise UnknownShard(
            f"it is not set, and {pod!r} is no pod's name with an ordinal, such as kubedelta-2: set it (in the "
            "environment: KUBEDELTA__SHARD__INDEX=2), or run the bridge as a pod of a StatefulSet"
        )
    return int(ordinal[1])
