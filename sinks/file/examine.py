"""What cannot work in options for a file, and which file it is."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from functools import partial

from sinks.base import Claim, SinkUnavailable, WrongOption, mistakes_of
from sinks.file.destination import describe
from sinks.file.options import STANDARD_OUTPUT, FileOptions


def examine(options: FileOptions) -> Sequence[WrongOption]:
    return mistakes_of([partial(_expect_writable, options)])


def _expect_writable(options: FileOptions) -> None:
    try:
        describe(options)
    except SinkUnavailable as error:
        raise WrongOption("path", str(error)) from error


def claims(options: FileOptions) -> Sequence[Claim]:
    """The file however it is written: by its real path, and by its number on its disk, which hard links share. Nobody
    minds who else writes to /dev/null."""
    path = options.path
    try:
        found = os.fstat(1) if path == STANDARD_OUTPUT else path.stat()
    except OSError:
        found = None
    if found is not None and stat.S_ISCHR(found.st_mode) and path != STANDARD_OUTPUT:
        return ()
    words = "standard output" if path == STANDARD_OUTPUT else str(path)
    things = [] if path == STANDARD_OUTPUT else [f"path {os.path.realpath(path)}"]
    if found is not None:
        things.append(f"file {found.st_dev}:{found.st_ino}")
    return [Claim(thing, words, True) for thing in things or ["standard output"]]
