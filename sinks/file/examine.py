"""Checks options for a file: whether it can be written. Also the claims on the file."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from functools import partial

from sinks.base import Claim
from sinks.errors import SinkUnavailable, WrongOption, wrong_options
from sinks.file.connection import describe
from sinks.file.options import STANDARD_OUTPUT, FileOptions


def examine(options: FileOptions) -> Sequence[WrongOption]:
    return wrong_options([partial(_expect_writable, options)])


def _expect_writable(options: FileOptions) -> None:
    try:
        describe(options)
    except WrongOption:
        raise
    except SinkUnavailable as error:
        raise WrongOption("path", str(error)) from error


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
