"""Errors of the state on disk. Each message names the operator's next step."""

from __future__ import annotations


class StateError(Exception):
    """Only a change of the configuration or the directory helps."""


class StateUnusable(StateError):
    """``state.directory`` is missing, no directory, read-only, or locked by another process."""


class UnknownFormat(StateError):
    """Another version of kubedelta, or another program, wrote the file."""


class OtherCluster(StateError):
    """The state belongs to another cluster."""


class OtherShard(StateError):
    """The state has objects of another shard, or of all."""


class Damaged(Exception):
    """The database differs from the data written to it. The next start moves it aside."""
