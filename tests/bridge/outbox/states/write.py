"""Writes the state of a bridge: ``python -m tests.bridge.outbox.states.write FILE``, at a revision of that format.

The last revisions of the formats 1 and 2 (39c4f4f, f234ef6), with this file copied into them, and revisions of the
formats 3 to 8 (b6abf6b, 12de864, 4249b15, 454652a, cb002d7, e04a05d) wrote format-1.db.zst and so on. They are never
written anew: a file of later code would show nothing.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import zstandard

from bridge.model.dead_letter import NewDeadLetter
from bridge.model.policies import StartPolicy
from bridge.model.record import Delta
from bridge.model.status import PauseCause
from bridge.outbox import Outbox, Retention
from bridge.outbox.storage.schema import FORMAT
from tests.bridge.outbox.opened import feeds_of, opened
from tests.kit.informed import DEPLOYMENTS, Informed

CLUSTER = "uid-of-kube-system"
PLAIN = dict.fromkeys(("audit", "slow", "paused"), StartPolicy.NOW)
CHAT = {"chat": StartPolicy.NOW} if FORMAT > 1 else {}
"""From format 2 on: a sink with a selection, of the pods that are called a."""


async def write(directory: Path) -> None:
    """Pods and a deployment; a pod is deleted. The sink audit has a dead letter, slow a compacted backlog, chat took no
    record, and paused is paused behind its first record."""
    options: dict[str, Any] = {"selecting": ["chat"]} if CHAT else {}
    async with opened(directory, PLAIN | CHAT, retention=Retention(retain_bytes=1 << 20), **options) as outbox:
        await outbox.ledger.identify(CLUSTER, restart=False)
        if CHAT:
            await select(outbox)
        feeds = {sink: feeds_of(outbox).feed(sink) for sink in PLAIN}
        pods, deployments = await Informed().begin(outbox), await Informed(DEPLOYMENTS).begin(outbox)
        [rejected, *_] = await pods.exports(outbox, "added shop/a", "added shop/b", position="200")
        await deployments.exports(outbox, "added shop/web", position="201")
        await pods.exports(outbox, "updated shop/a", "deleted shop/b", position="202")

        dead_letters = outbox.sinks.dead_letters["audit"]
        await dead_letters.add_dead_letters([NewDeadLetter(rejected, "too large", parked=False)])
        feeds["audit"].settle(await feeds["audit"].take(100))
        await feeds["slow"].compact()
        feeds["paused"].settle(await feeds["paused"].take(1))
        await outbox.sinks.pause("paused", PauseCause.OPERATOR)
        await outbox.maintain()


async def select(outbox: Outbox) -> None:
    from bridge.model.record import Selected

    selections = outbox.selections
    mask = selections.stored["chat"].mask

    def decide(delta: Delta, was: int | None, before: Callable[[], bytes | None] | None) -> Selected:
        bits = mask if delta.key == "shop/a" else 0
        return Selected(bits, 0, 0, bits if delta.op != "deleted" else 0)

    entries = '[{"resource":"pods","where":"object.key == \'shop/a\'"}]'
    await selections.define("chat", entries, "{}", changed=True)
    selections.decide_by(decide)
    await outbox.sinks.begin_selection("chat", "now")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        if FORMAT > 4:  # Else its numbers begin at the clock.
            from tests.kit.numbering import count_from_one

            count_from_one()
        asyncio.run(write(Path(folder)))
        content = (Path(folder) / "outbox.db").read_bytes()
    Path(sys.argv[1]).write_bytes(zstandard.ZstdCompressor(level=19).compress(content))


if __name__ == "__main__":
    main()
