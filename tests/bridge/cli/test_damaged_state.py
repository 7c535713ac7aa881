"""What the commands say of a state that is damaged or gone, where no bridge runs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from bridge.cli import main
from bridge.cli.exits import Exit
from bridge.model.policies import StartPolicy
from bridge.model.record import NewDeadLetter
from bridge.outbox import Outbox
from bridge.outbox.errors import Damaged
from bridge.outbox.storage.directory_lock import FILE
from bridge.telemetry.facts import discard
from tests.kit.configurations import a_config
from tests.kit.damage import loosely
from tests.kit.informed import Informed
from tests.kit.records import a_delta


@pytest.fixture
def state(tmp_path: Path) -> Path:
    directory = a_config(tmp_path, sink="hook").parent / "state"
    asyncio.run(_fill(directory))
    return directory


async def _fill(directory: Path) -> None:
    async with await Outbox.open(directory, {"hook": StartPolicy.NOW}, report=discard) as outbox:
        await (await Informed().begin(outbox)).exports(outbox, "added shop/web")
        await outbox.sinks.dead_letters["hook"].add_dead_letters([NewDeadLetter(a_delta(1), "too large", parked=False)])


def run(state: Path, words: str) -> int:
    return main([*words.split(), "-c", str(state.parent / "kubedelta.yaml")])


COMMANDS = [
    "cursors",
    "dead-letters list",
    "dead-letters show 1",
    "dead-letters retry hook --all",
    "replay hook --from 1",
]


@pytest.mark.parametrize(
    ("table", "statement"),
    [
        ("dead_letters", "UPDATE dead_letters SET reason = CAST(x'77ff' AS TEXT), key = CAST(x'77ff' AS TEXT)"),
        ("cursors", "UPDATE cursors SET settled = 'all'"),
        ("cursors", "UPDATE cursors SET backfill = x'01'"),
    ],
)
@pytest.mark.parametrize("command", [*COMMANDS, "state check"])
def test_no_command_is_a_bug_on_a_damaged_state(
    state: Path, capsys: pytest.CaptureFixture[str], command: str, table: str, statement: str
) -> None:
    loosely(state, table, statement)

    assert run(state, command) == Exit.NO
    assert "the state is damaged; the next start moves it aside" in capsys.readouterr().err


HARMS: dict[str, tuple[Callable[[Path], object], int, str]] = {
    "emptied": (lambda state: os.truncate(state / FILE, 0), Exit.NO, "the file has no tables"),
    "removed": (lambda state: (state / FILE).unlink(), Exit.CONFIG, "there is no outbox.db"),
    "marked": (lambda state: (state / f"{FILE}.damaged").write_text("page 7"), Exit.NO, "page 7"),
    "removed while it was in use": (lambda state: asyncio.run(_remove(state)), Exit.NO, "was removed while it was in"),
}


async def _remove(state: Path) -> None:
    with pytest.raises(Damaged):  # noqa: PT012  # two ends of one thing
        async with await Outbox.open(state, {"hook": StartPolicy.NOW}, report=discard) as outbox:
            (state / FILE).unlink()
            await outbox.run()


@pytest.mark.parametrize(("harm", "code", "said"), HARMS.values(), ids=HARMS.keys())
@pytest.mark.parametrize("command", ["state check", "cursors"])
def test_the_integrity_of_a_database_that_is_not_there_is_not_ok(
    state: Path, capsys: pytest.CaptureFixture[str], command: str, harm: Callable[[Path], object], code: int, said: str
) -> None:
    harm(state)

    assert run(state, command) == code
    printed = capsys.readouterr()
    assert said in printed.err
    assert not printed.out
