"""An operator who has ``kubedelta status`` alone: a broker is down, a record is rejected, the disk is full, a file is
wrong. Each is named with the command to type, which is typed. At the end nothing is wrong, and nothing is lost."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from bridge.cli.exits import Exit
from tests.cluster.kube_client import KubeClient
from tests.kit.bridge_process import BridgeProcess
from tests.kit.churn import Churn, an_object, churning
from tests.kit.commands import Ended
from tests.kit.deadlines import BUSY
from tests.kit.received import from_file, rebuilt, received_lists
from tests.kit.scene import Scene
from tests.kit.small_disk import MEBIBYTE, SIZE, SmallDisk
from tests.kit.webhook_receiver import ACCEPTED, Answer, Posted

ROOMY = 4096 * MEBIBYTE
"""More than what ``status`` calls a small disk."""
ODD = "odd"
"""The object that the endpoint rejects."""
WHY = "no such column"
"""The endpoint's words."""


class Trouble(NamedTuple):
    """An entry of ``kubedelta status``."""

    what: str
    advice: str
    command: tuple[str, ...]
    """The words behind ``kubedelta``."""


@dataclass(frozen=True, slots=True)
class Operator:
    bridge: BridgeProcess

    async def types(self, *words: str) -> Ended:
        """A command as ``status`` has it, or without ``-c``."""
        file = words.index("-c") if "-c" in words else len(words)
        assert words[file:] in ((), ("-c", str(self.bridge.config)))
        return await self.bridge.kubedelta(*words[:file])

    async def status(self) -> tuple[Ended, dict[str, Trouble]]:
        """What it prints, and its entries by subject."""
        ended = await self.types("status")
        assert ended.err == ""
        summary, *entries = ended.out.strip().split("\n\n")
        troubles = dict(map(_trouble, entries))
        assert ended.code == (Exit.NO if troubles else Exit.OK)
        assert ("all is well" in summary) == (not troubles)
        return ended, troubles

    async def until(
        self, what: str, is_so: Callable[[Mapping[str, Trouble]], bool]
    ) -> tuple[Ended, dict[str, Trouble]]:
        """Types ``status`` until it says so."""
        ended, troubles = await self.status()
        try:
            async with asyncio.timeout(60 * BUSY):
                while not is_so(troubles):
                    ended, troubles = await self.status()
        except TimeoutError:
            raise TimeoutError(f"status never said that {what}; at last\n{ended.out}") from None
        return ended, troubles

    async def sees(self, subject: str, *words: str) -> Trouble:
        """The subject's entry, when it has all of these words."""
        _, troubles = await self.until(
            f"{subject}: {' … '.join(words)}",
            lambda found: subject in found and all(word in found[subject].what for word in words),
        )
        return troubles[subject]

    async def sees_no_more(self, subject: str) -> Mapping[str, Trouble]:
        _, troubles = await self.until(f"{subject} is well", lambda found: subject not in found)
        return troubles


def _trouble(entry: str) -> tuple[str, Trouble]:
    """``subject: what``, and in the next line ``  advice kubedelta words``."""
    said, _, step = entry.partition("\n  ")
    subject, _, what = said.partition(": ")
    advice, _, command = step.partition("kubedelta ")
    return subject, Trouble(what, advice.strip(), tuple(shlex.split(command)))


@pytest.fixture
async def operator(scene: Scene, small_disk: SmallDisk) -> AsyncIterator[Operator]:
    """Of a running bridge whose state has a disk of its own."""
    small_disk.enlarge(ROOMY)
    bridge = scene.bridge(state={"min_free_bytes": 0, "retain": {"age": "1h"}})
    bridge.state = small_disk.folder
    async with bridge.started():
        yield Operator(bridge)


@pytest.mark.parametrize(
    "outage",
    [
        pytest.param(0, id="a broker is down until status says so"),
        pytest.param(180, id="a broker is down for 3 minutes", marks=[pytest.mark.long, pytest.mark.timeout(1800)]),
    ],
)
async def test_status_names_each_incident_and_the_next_command(
    scene: Scene, small_disk: SmallDisk, operator: Operator, outage: float
) -> None:
    """A record waits to be retried while the disk is full."""
    async with churning(scene.servers.api, scene.namespace, pause=0.3, writers=3) as churn:
        await churn.until_made(10)
        await operator.until("all is well", lambda found: not found)
        await _a_broker_is_down(scene, operator, churn, outage)
        await _a_record_is_rejected(scene, operator)
        await _the_disk_is_full(scene, operator, churn, small_disk)
        await _the_rejected_record_is_retried(scene, operator)
        await _the_file_is_wrong(scene, operator, churn)
    await scene.until_received(operator.bridge)

    well, _ = await operator.until("all is well", lambda found: not found)
    for verdict in (await scene.judged()).values():
        assert verdict.relisted == verdict.skipped == 0
    copy, late = (rebuilt(received_lists(from_file(file))) for file in (scene.sinks.file, _late(scene)))
    assert late == copy
    print(well.out)


async def _a_broker_is_down(scene: Scene, operator: Operator, churn: Churn, outage: float) -> None:
    await asyncio.to_thread(scene.servers.kafka.kill9)
    await asyncio.sleep(outage)
    await operator.sees("sinks.log", "deliveries fail", "Connection refused", "records wait")
    assert await operator.bridge.ready(), "the other sinks go on"
    await churn.until_made(10)
    await operator.bridge.until_delivered("live", "hook", "copy")
    trouble = await operator.sees("sinks.log")
    assert trouble.advice == "repair the destination, then"
    await asyncio.to_thread(scene.servers.kafka.start)
    done = await operator.types(*trouble.command)
    assert (done.code, done.err) == (Exit.OK, "")
    await operator.sees_no_more("sinks.log")


async def _a_record_is_rejected(scene: Scene, operator: Operator) -> None:
    scene.sinks.receiver.answer = _reject_the_odd_one
    async with KubeClient(scene.servers.api) as kube:
        await kube.create(f"{scene.root}/configmaps", an_object("configmaps", ODD))
        await kube.patch(f"{scene.root}/configmaps/{ODD}", {"data": {"text": "c"}})
    trouble = await operator.sees("sinks.hook", "1 record rejected, 1 parked behind")
    *retry, number, _, _ = trouble.command
    assert retry == ["dead-letters", "retry", "hook"]
    assert f"dead letter {number}, configmaps {scene.namespace}/{ODD}: answers 400" in trouble.what
    shown = await operator.types("dead-letters", "show", number)
    assert WHY in shown.out
    await operator.bridge.until_delivered()  # The other objects arrive.


async def _the_disk_is_full(scene: Scene, operator: Operator, churn: Churn, disk: SmallDisk) -> None:
    """What is typed meanwhile is refused soon, and not done later."""
    bridge = operator.bridge
    disk.enlarge(SIZE)
    disk.fill()
    trouble = await operator.sees("intake", "the disk is full", str(disk.folder))
    assert trouble.advice.startswith("make room on that disk, or enlarge it")
    cursors = await operator.types(*trouble.command)
    assert cursors.code == Exit.OK
    assert all(name in cursors.out for name in scene.sinks.section)

    paused = await _until_nothing_fits(operator, disk)
    snapshots = await operator.types("snapshot", "--status")
    asked = _asked_for_the_odd_one(scene)
    retry = (await operator.sees("sinks.hook", ODD)).command
    bridge.reconfigure(sinks=_with_late(scene, path=str(_late(scene))))
    for words in (retry, ("snapshot", "copy"), ("replay", "copy", "--from", "beginning"), ("reload",)):
        _assert_refused(await operator.types(*words))
    trouble = await operator.sees("configuration", "is tried again", "the disk of the state is full, nothing changed")
    assert trouble.command[0] == "reload"
    bridge.reconfigure(sinks=scene.sinks.section)
    assert (await operator.types("reload")).code == Exit.OK

    disk.make_room()
    disk.enlarge(ROOMY)
    await operator.sees_no_more("intake")
    await churn.until_made(10)
    await bridge.until_delivered("log", "live", "hook")
    left = {"sinks.hook", *["sinks.copy"] * paused}
    await operator.until(f"these alone are wrong: {left}", lambda found: found.keys() == left)
    assert await operator.types("snapshot", "--status") == snapshots
    assert _asked_for_the_odd_one(scene) == asked
    assert not _late(scene).exists()
    assert (await operator.types("sinks", "resume", "copy")).code == Exit.OK


async def _until_nothing_fits(operator: Operator, disk: SmallDisk) -> bool:
    """Takes what the write-ahead log has and gives back, until the writer has found no room twice. Returns whether the
    sink ``copy`` is paused."""
    verbs, rounds = cycle(("pause", "resume")), 0
    verb = next(verbs)
    while rounds < 2:
        done = await operator.types("sinks", verb, "copy")
        given_back = disk.fill()
        if done.code == Exit.OK:
            verb, rounds = next(verbs), 0
        else:
            _assert_refused(done)
            rounds = 0 if given_back else rounds + 1
    return verb == "resume"


def _assert_refused(done: Ended) -> None:
    assert done.code == Exit.NO
    assert done.out == ""
    assert "the disk of the state is full, nothing changed" in done.err


async def _the_rejected_record_is_retried(scene: Scene, operator: Operator) -> None:
    scene.sinks.receiver.answer = lambda _: ACCEPTED
    trouble = await operator.sees("sinks.hook", ODD)
    done = await operator.types(*trouble.command)
    assert (done.code, done.err) == (Exit.OK, "")
    assert "1 dead letter of hook will be delivered again, and 1 more of the same object" in done.out
    await operator.sees_no_more("sinks.hook")
    assert [event["op"] for event in scene.sinks.receiver.events if _is_odd(event)] == ["added", "updated"]


async def _the_file_is_wrong(scene: Scene, operator: Operator, churn: Churn) -> None:
    bridge = operator.bridge
    bridge.reconfigure(sinks=_with_late(scene, pth=str(_late(scene))))
    await operator.sees("configuration", "sinks.late.pth: unknown option")
    checked = await operator.types("check", "--offline")
    assert checked.code == Exit.CONFIG
    assert "sinks.late.pth: unknown option" in checked.err
    trouble = await operator.sees("configuration", "is refused, and the former configuration stays")
    assert trouble.advice == "correct the file, then"
    refused = await operator.types(*trouble.command)
    assert (refused.code, refused.out) == (Exit.NO, "")
    assert "refused; the former configuration stays in effect" in refused.err
    await churn.until_made(10)
    await bridge.until_delivered()

    bridge.reconfigure(sinks=_with_late(scene, path=str(_late(scene))))
    accepted = await operator.types(*trouble.command)
    assert accepted.code == Exit.OK, accepted.err
    assert "sinks.late: added" in accepted.out
    await operator.sees_no_more("configuration")


def _late(scene: Scene) -> Path:
    """The file of a sink that is added at last."""
    return scene.folder / "late.ndjson"


def _with_late(scene: Scene, **options: str) -> dict[str, Any]:
    return {**scene.sinks.section, "late": {"type": "file", **options}}


def _is_odd(event: Mapping[str, Any]) -> bool:
    return bool(event["subject"].endswith(f"/configmaps/{ODD}"))


def _reject_the_odd_one(posted: Posted) -> Answer:
    return Answer(400, body=f'{{"error": "{WHY}"}}'.encode()) if any(map(_is_odd, posted.events)) else ACCEPTED


def _asked_for_the_odd_one(scene: Scene) -> int:
    return sum(any(map(_is_odd, posted.events)) for posted in scene.sinks.receiver.asked)
