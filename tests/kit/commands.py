"""The command line in a process of its own, which is forked from one that has imported the bridge."""

from __future__ import annotations

from collections.abc import Mapping
from tempfile import TemporaryFile
from typing import NamedTuple

from tests.kit.deadlines import BUSY
from tests.kit.fork_server import fork_server


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
