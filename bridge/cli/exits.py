"""Exit codes: 0 and 1 as ``grep`` and ``diff`` have them, 130 as shells have it, the others from BSD's sysexits."""

from enum import IntEnum


class Exit(IntEnum):
    OK = 0
    NO = 1
    """The question was understood, and the answer is no: the state has problems, a sink differs from the cluster, or
    there is no such sink, dead letter or record."""
    USAGE = 64
    """The command line is wrong."""
    UNAVAILABLE = 69
    """A service that is needed cannot be reached, or a running bridge does not answer."""
    SOFTWARE = 70
    """A bug."""
    DAMAGED = 74
    """The database is damaged, or was removed while it was in use. The next start begins behind it, with a Gap."""
    CONFIG = 78
    """The configuration, or what it points at, is wrong."""
    INTERRUPTED = 130
    """Ctrl-C, where it is not the way to end (as it is for ``run`` and ``demo``, the first time). What was asked may be
    done or not."""
    TERMINATED = 143
    """SIGTERM, where it is not the way to end, and the second time where it is."""
