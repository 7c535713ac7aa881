"""All faults, in the order of the report."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from benchmarks.faults import between, brokers, ends, outages, selections
from benchmarks.faults.destinations import WEBHOOK
from benchmarks.faults.stage import Stage
from tests.kit.churn import KINDS

Work: TypeAlias = Callable[[Stage, int, random.Random], Awaitable[None]]
"""One round, with its number from 0 on."""


@dataclass(frozen=True, slots=True)
class Fault:
    name: str
    title: str
    rounds: int
    """Unless the command line says otherwise."""
    work: Work
    lines: bool = False
    """The replicas reach all servers, and each other, through lines that can be cut."""
    judged: Sequence[str] = KINDS
    """The kinds that every sink gets from the first round to the last."""
    disks: bool = False
    """The state of each replica is on a small disk of its own."""
    reduced: Sequence[str] = ()
    """The destinations that may lack steps in front of the newest one of a name: their backlog is compacted."""
    three_brokers: bool = False
    """Kafka has three brokers, of its own, in place of one."""


FAULTS = (
    Fault("kill", "the leader is killed (SIGKILL) at a random moment", 100, ends.kill),
    Fault("terminate", "the leader gets SIGTERM", 10, ends.terminate),
    Fault("freeze", f"the leader is stopped (SIGSTOP) for {ends.FROZEN_SECONDS} s, then goes on", 4, ends.freeze),
    Fault(
        "cut-api",
        f"the leader is cut off from the API server for {outages.CUT_SECONDS} s",
        4,
        outages.cut_from_api,
        lines=True,
    ),
    Fault(
        "cut-sink",
        f"the leader is cut off from Kafka, NATS or the webhook, in turns, for {outages.SHORT_CUT_SECONDS} s",
        6,
        outages.cut_from_sink,
        lines=True,
    ),
    Fault(
        "cut-all",
        f"the leader is cut off from the API server and all sinks for {outages.CUT_SECONDS} s",
        4,
        outages.cut_from_all,
        lines=True,
    ),
    Fault(
        "api",
        f"the API server is killed, and started {' or '.join(map(str, outages.DOWN_SECONDS))} s later",
        4,
        outages.kill_api,
    ),
    Fault("roll-out", "both replicas are restarted with one more resource, the leader last", 5, outages.roll_out),
    Fault(
        "select",
        "both replicas are restarted with another `select`, the leader last (counted: what stays selected)",
        4,
        selections.roll_out,
        judged=selections.STAY,
    ),
    Fault(
        "empty-disk",
        "a follower begins with an empty disk; when it is in sync, the leader is killed",
        4,
        outages.empty_disk,
    ),
    Fault(
        "cut-replicas",
        "the connection between the replicas is cut (both ways, one way, slow), and then the leader is killed",
        6,
        between.cut_from_each_other,
        lines=True,
    ),
    Fault(
        "base-copy",
        "the leader is killed while a follower gets a copy of the whole state, and starts again",
        4,
        between.within_a_base_copy,
        lines=True,
    ),
    Fault(
        "full-disk",
        "the disk of the follower is full until it is in sync no more; when it is again, the leader is killed",
        4,
        between.full_disk,
        disks=True,
    ),
    Fault(
        "compaction",
        "the leader is killed while the backlog of a webhook that is down is compacted (counted there: newest states)",
        4,
        between.within_a_compaction,
        reduced=(WEBHOOK,),
    ),
    Fault(
        "dead-sink",
        "Kafka, NATS or the webhook, in turns, is down while two leaders are killed one after the other",
        6,
        outages.dead_sink,
    ),
    Fault(
        "brokers",
        "a broker of three is killed, the leader, or both at the same moment, in turns",
        9,
        brokers.kill,
        three_brokers=True,
    ),
)


def choose(names: list[str]) -> list[Fault]:
    """An empty choice is all. Raises LookupError with the names that there are."""
    known = {each.name: each for each in FAULTS}
    for name in names:
        if name not in known:
            raise LookupError(f"no fault is called {name!r}; there are: {', '.join(known)}")
    return [each for each in FAULTS if not names or each.name in names]
