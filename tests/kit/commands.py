"""The command line, or code, in a process of its own, which is forked from one that has imported the bridge."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import BinaryIO, NamedTuple

from tests.kit.deadlines import BUSY
from tests.kit.fork_server import Forked, fork_server


class Ended(NamedTuple):
    code: int
    out: str
    err: str


def in_a_process(*words: str, environ: Mapping[str, str] | None = None) -> Ended:
    """Runs ``kubedelta WORDS…`` to its end. ``environ`` is added to the environment."""
    with TemporaryFile() as out, TemporaryFile() as err:
        code = fork_server().start(words, out.fileno(), err.fileno(), environ=environ).wait(60 * BUSY)
        out.seek(0)
        err.seek(0)
        return Ended(code, out.read().decode(), err.read().decode())


@dataclass(frozen=True, slots=True)
class Child:
    process: Forked
    output: BinaryIO
    """Its standard output."""


@contextmanager
def child(code: str, *words: str, modules: Sequence[str] = ()) -> Iterator[Child]:
    """As ``python -c CODE WORDS…``, with the standard error of the tests. ``modules`` are imported before the fork. It
    is killed at the end of the block."""
    reading, writing = os.pipe()
    try:
        process = fork_server().start(words, writing, 2, code=code, modules=modules)
    finally:
        os.close(writing)
    with os.fdopen(reading, "rb") as output:
        try:
            yield Child(process, output)
        finally:
            process.kill()
            process.wait()
