"""The next version of kubedelta, whose state has another format. No format was changed since the first release, so that
the next change is made up here: another column."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bridge.cli import main as kubedelta
from bridge.outbox.storage import schema
from bridge.outbox.storage.schema import FORMAT, SQL
from tests.cluster.servers.process import Process
from tests.kit.bridge_process import BridgeProcess
from tests.kit.fork_server import fork_server

ANOTHER_COLUMN = "ALTER TABLE kinds ADD COLUMN colour TEXT NOT NULL DEFAULT 'blue';"
_MAIN = f"from {__name__} import main; raise SystemExit(main())"


@contextmanager
def next_version(step: str = ANOTHER_COLUMN) -> Iterator[None]:
    """Inside, the version has the next format, with one more column."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schema, "FORMAT", FORMAT + 1)
        patch.setattr(schema, "SQL", SQL + ANOTHER_COLUMN)
        patch.setattr(schema, "STEPS", {FORMAT: step})
        schema.expected.cache_clear()
        try:
            yield
        finally:
            schema.expected.cache_clear()


class RolledOut(BridgeProcess):
    """A bridge of this version, or of the next one."""

    next_version = False
    """Counts from the next start on."""

    def spawn(self, log: int) -> Process:
        if not self.next_version:
            return super().spawn(log)
        return fork_server().start(
            self.words(), log, log, folder=self.folder, environ=self.environ(), code=_MAIN, modules=[__name__]
        )


def main() -> int:
    """In the process: kubedelta, in the next version."""
    with next_version():
        return kubedelta()
