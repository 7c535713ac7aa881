"""Why the state on disk cannot be used. Each message tells an operator what to do."""

from __future__ import annotations


class StateError(Exception):
    """Only somebody who changes the configuration or the directory can help."""


class StateUnusable(StateError):
    """``state.directory`` is missing, no directory, read-only, or held by another process."""


class UnknownFormat(StateError):
    """The file was written by another version of kubedelta, or by something else."""


class OtherCluster(StateError):
    """The state belongs to another cluster."""


class Damaged(Exception):
    """The database is not what was written to it. The next start moves it aside."""
