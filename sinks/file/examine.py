"""Checks the options of a file sink before the bridge runs: whether the path can name a file. It also names the claims
on that file.

A folder that is missing or not writable is no mistake in the options: a volume may be mounted later, and the other
sinks do not wait for it. ``check`` names it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from sinks.base import Claim
from sinks.file.connection import expect_rotatable
from sinks.file.options import STANDARD_OUTPUT, FileOptions
from sinks.file.seals import seal_key
from sinks.receipt import WrongOption, wrong_options


def examine(options: FileOptions) -> Sequence[WrongOption]:
    return wrong_options([partial(_expect_file, options), partial(_expect_key, options)])


def _expect_file(options: FileOptions) -> None:
    with suppress(OSError):
        if options.rotation is not None:
            expect_rotatable(options.path)
        if options.path != STANDARD_OUTPUT and options.path.is_dir():
            raise WrongOption("path", f"cannot write to {options.path}: it is a folder")


def _expect_key(options: FileOptions) -> None:
    if options.rotation is not None:
        seal_key(options.rotation)


def claims(options: FileOptions) -> Sequence[Claim]:
    """Claims on the file by its real path, and by its inode, which hard links share. Character devices, such as
    /dev/null, may have any number of writers."""
    path = options.path
    try:
        found = os.fstat(1) if path == STANDARD_OUTPUT else path.stat()
    except OSError:
        found = None
    if found is not None and stat.S_ISCHR(found.st_mode) and path != STANDARD_OUTPUT:
        return ()
    description = "standard output" if path == STANDARD_OUTPUT else str(path)
    names = [] if path == STANDARD_OUTPUT else [f"path {os.path.realpath(path)}"]
    if found is not None:
        names.append(f"file {found.st_dev}:{found.st_ino}")
    return [Claim(name, description, True) for name in names or ["standard output"]]
