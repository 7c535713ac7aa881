"""Forbids core dumps, which would put objects, keys and credentials on a disk, or into a crash reporter.

A limit on cores and not PR_SET_DUMPABLE, which would also take py-spy and gdb from the bridge's own user, who can read
the state anyway.
"""

from __future__ import annotations

import resource

_NOT_EVEN_INTO_A_PIPE = 1
"""Byte. With a limit of 0, Linux writes no file, but still feeds a core_pattern that is a pipe (core(5)). With 1, Linux
does neither."""


def forbid_core_dumps() -> None:
    """For this process and its children. A debugger or profiler of the same user may still attach: that user can read
    the state anyway, and PR_SET_DUMPABLE would lock out py-spy and gdb."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    if hard != 0:
        resource.setrlimit(resource.RLIMIT_CORE, (_NOT_EVEN_INTO_A_PIPE, _NOT_EVEN_INTO_A_PIPE))
