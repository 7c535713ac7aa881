"""Exit codes: 0 and 1 in the meaning of ``grep`` and ``diff``, 128 + signal as in shells, others from BSD's
sysexits."""

from enum import IntEnum


class Exit(IntEnum):
    OK = 0
    NO = 1
    """The command worked, and its result is negative: the state has problems, a sink differs from the cluster, or the
    sink, dead letter or record does not exist."""
    USAGE = 64
    """The command line is wrong."""
    UNAVAILABLE = 69
    """A needed service cannot be reached, or a running bridge does not answer."""
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
