"""How commands end. Exit codes: 0 and 1 in the meaning of ``grep`` and ``diff``, 128 + signal as in shells, others from
BSD's sysexits.

``end_of`` has the code and the words for each error of the rooms that an operator can mend, so a command catches
only errors to which it adds something. ``run`` logs its end instead.
"""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    OK = 0
    NO = 1
    """The command worked, and its result is negative: the state has problems, a sink differs from the cluster, or the
    sink, dead letter or record does not exist."""
    UNCERTAIN = 2
    """``restore``: the manifest is printed, and the object may have had other states."""
    USAGE = 64
    """The command line is wrong."""
    UNAVAILABLE = 69
    """A needed service cannot be reached, a running bridge does not answer, or the output cannot be written."""
    SOFTWARE = 70
    """A bug."""
    DAMAGED = 74
    """The database is damaged, or was removed while in use. The next start rebuilds it, and sinks get a Gap record."""
    CONFIG = 78
    """The configuration is wrong, or a file or service that it names."""
    INTERRUPTED = 130
    """Ctrl-C, except the first in ``run`` and ``demo``, where it ends the command regularly. The command may be done or
    not."""
    TERMINATED = 143
    """SIGTERM, except the first in ``run`` and ``demo``."""


class CommandEnds(Exception):
    """The command ends with ``code``. The message is for the operator."""

    def __init__(self, code: Exit, reason: object) -> None:
        super().__init__(str(reason))
        self.code = code


def end_of(error: Exception) -> CommandEnds | None:
    """None for a bug. Imports the rooms only here, since most commands do not fail."""
    from bridge.app.admin.client import CommandFailed, NoAnswer, NotRunning
    from bridge.checks.rights import ClusterWide
    from bridge.cli.terminal import plain
    from bridge.history import NotInHistory
    from bridge.kube import ApiError, CredentialsError, UnknownResource
    from bridge.model.admin import UnknownTarget
    from bridge.outbox import Damaged, StateError
    from bridge.plan.cluster_view import ClusterRefuses, ClusterUnavailable
    from config.errors import ConfigError

    match error:
        case CommandEnds():
            return error
        case ConfigError() | StateError() | ClusterWide():
            return CommandEnds(Exit.CONFIG, error)
        case CredentialsError():
            return CommandEnds(Exit.CONFIG, of_cluster(error))
        case ClusterRefuses():
            return CommandEnds(Exit.CONFIG, f"cluster: {error}")
        case UnknownResource():
            return CommandEnds(Exit.CONFIG, f"resources: {error}")
        case ClusterUnavailable() | ApiError():
            return CommandEnds(Exit.UNAVAILABLE, f"cluster: {error}")
        case NoAnswer() | NotRunning():
            return CommandEnds(Exit.UNAVAILABLE, error)
        case NotInHistory() | UnknownTarget():
            return CommandEnds(Exit.NO, plain(str(error)))
        case CommandFailed():
            return CommandEnds(Exit.SOFTWARE, f"the running bridge failed: {plain(str(error))}")
        case Damaged():
            return CommandEnds(Exit.NO, f"the state is damaged; the next start moves it aside: {error}")
        case _:
            return None


def of_cluster(error: Exception) -> str:
    """An error of credentials behind its option; behind ``cluster`` if no option is to blame."""
    return str(error) if str(error).startswith("cluster.") else f"cluster: {error}"
