"""Whatever happens to the files of a state: at the second start at the latest the outbox runs."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.model.policies import StartPolicy
from bridge.model.record import Delta, NewDeadLetter
from bridge.model.resource import Scope
from bridge.outbox import Outbox
from bridge.outbox.errors import Damaged, UnknownFormat
from bridge.outbox.storage import database
from bridge.outbox.storage.directory_lock import FILE
from bridge.telemetry.facts import Fact
from bridge.telemetry.facts.outbox import OutboxRebuilt
from tests.bridge.outbox.opened import crashed, everything, opened
from tests.kit import memory
from tests.kit.damage import harm
from tests.kit.examples import examples
from tests.kit.informed import Informed
from tests.kit.records import DEPLOYMENTS

SINKS = {"audit": StartPolicy.SNAPSHOT, "live": StartPolicy.NOW}


async def _fill(directory: Path) -> None:
    async with opened(directory, {"audit": StartPolicy.SNAPSHOT}) as outbox:
        pods, deployments = await Informed(padding=300).begin(outbox), await Informed(DEPLOYMENTS).begin(outbox)
        for start in range(0, 40, 10):
            await pods.exports(outbox, *(f"added shop/web-{number}" for number in range(start, start + 10)))
        received = await deployments.exports(outbox, *(f"added shop/{number}" for number in range(10)))
        await pods.exports(outbox, "updated shop/web-0", "deleted shop/web-1")
        await outbox.sinks.dead_letters["audit"].add_dead_letters(
            [NewDeadLetter(received[0], "too large", parked=False)]
        )
        outbox.sinks["audit"].settle(30)
        await outbox.maintain()


async def _with_log(directory: Path) -> None:
    """As a killed process leaves it: a sink receives a snapshot, and the newest records are in the log alone."""
    async with opened(directory, SINKS) as outbox:
        await (await Informed(padding=300).begin(outbox)).exports(outbox, *(f"added shop/late-{n}" for n in range(10)))
        crashed(directory, directory.with_name(f"{directory.name}-killed"))


@pytest.fixture(scope="module")
def states() -> Iterator[dict[str, Path]]:
    """States of a bridge that ended, and of one that was killed; with checksums in the pages, and without."""
    with tempfile.TemporaryDirectory(dir=memory.folder()) as folder:
        found = {}
        for name, layer in (("plain", None), ("checked", database._VFS)):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(database, "_VFS", layer)
                made = Path(folder) / name
                made.mkdir()
                asyncio.run(_fill(made))
                asyncio.run(_with_log(made))
            found[name], found[f"{name} and killed"] = made, made.with_name(f"{name}-killed")
        yield found


async def _use(outbox: Outbox) -> list[Delta]:
    """Read what there is in every way, and write."""
    received = [record for record in await everything(outbox) if isinstance(record, Delta)]
    for _ in range(2):
        pods = await Informed(scope=Scope("shop"), padding=300).begin(outbox)
    for known in pods.known.values():
        outbox.body(known.state)  # type: ignore[arg-type]
    await outbox.ledger.adopt(DEPLOYMENTS, [])
    for sink in SINKS:
        await outbox.sinks.read_backfill(sink, 100)
    await outbox.dead_letters(None, 0, 100)
    with suppress(LookupError):
        await outbox.dead_letter(1)
    await pods.exports(outbox, "added shop/new", "updated shop/new")
    await outbox.maintain()
    return received


async def _lives(directory: Path) -> tuple[int, bool]:
    """How often it was started until it ran, and whether it began anew."""
    for starts in range(1, 4):
        facts: list[Fact] = []
        try:
            async with opened(directory, SINKS, facts=facts) as outbox:
                await _use(outbox)
        except Damaged:
            continue
        return starts, any(isinstance(fact, OutboxRebuilt) for fact in facts)
    raise AssertionError("it does not run")


def _identity(directory: Path) -> tuple[bytes, bytes]:
    """user_version and application_id in a database's header, https://sqlite.org/fileformat.html section 1.3."""
    header = (directory / FILE).read_bytes()[:100]
    return header[60:64], header[68:72]


@pytest.mark.parametrize("kind", ["plain", "plain and killed", "checked", "checked and killed"])
@examples(10)
@given(seed=st.integers(0, 1 << 32))
def test_after_any_damage_it_runs_at_the_second_start(states: dict[str, Path], kind: str, seed: int) -> None:
    with tempfile.TemporaryDirectory(dir=states[kind].parent) as folder:
        directory = Path(folder) / "state"
        shutil.copytree(states[kind], directory)
        what = harm(directory, seed)

        try:
            starts, _ = asyncio.run(_lives(directory))
        except UnknownFormat:  # The start refuses a file that neither header nor tables name as kubedelta's.
            assert _identity(directory) != _identity(states[kind]), what
            return

        assert starts <= 2, what
        assert asyncio.run(_lives(directory)) == (1, False), f"{what}: once"
