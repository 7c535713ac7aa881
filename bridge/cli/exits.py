"""Exit codes, from BSD's sysexits."""

from enum import IntEnum


class Exit(IntEnum):
    OK = 0
    USAGE = 64
    """The command line is wrong."""
    UNAVAILABLE = 69
    """A service that is needed cannot be reached."""
    SOFTWARE = 70
    """A bug."""
    CONFIG = 78
    """The configuration, or what it points at, is wrong."""
