"""What must be true of every receipt, and of everything that is stored. The examination asks this after each step."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bridge.model.change import Evidence
from bridge.model.record import Delta, Gap, Record, Snapshot
from sinks.base import Receipt, Sink
from tests.contracts.destinations import CLUSTER, Stored
from tests.kit.deadlines import BUSY
from tests.kit.open_files import open_files

_BEAT = 0.01
"""Seconds between two turns of the loop, and between two looks at it."""


class LoopWatch:
    """Measures from a thread of its own. A standstill is the CPU time of the loop's thread since the loop's last turn,
    and the beats at which that thread slept. A thread that waits for a CPU is runnable: on a busy machine that may take
    seconds, and is no fault of the loop."""

    def __init__(self) -> None:
        self.longest = 0.0
        """Seconds of the longest standstill."""
        thread = threading.current_thread()
        assert thread.ident is not None
        self._stat = Path(f"/proc/self/task/{thread.native_id}/stat")
        self._cpu_clock = time.pthread_getcpuclockid(thread.ident)
        self._cpu = self._slept = 0.0
        self._over = threading.Event()
        self.turned()

    def turned(self) -> None:
        """The loop has come round."""
        self._note()
        self._cpu, self._slept = time.clock_gettime(self._cpu_clock), 0.0

    def look(self) -> None:
        """Looks at the loop until ``stop``."""
        while not self._over.wait(_BEAT):
            if self._is_asleep():
                self._slept += _BEAT
            self._note()

    def stop(self) -> None:
        self._over.set()
        self._note()

    def _note(self) -> None:
        computed = time.clock_gettime(self._cpu_clock) - self._cpu if self._cpu else 0.0
        self.longest = max(self.longest, self._slept + computed)

    def _is_asleep(self) -> bool:
        # proc_pid_stat(5): the state follows the name in brackets, which may hold anything.
        return self._stat.read_text().rpartition(")")[2].split()[0] != "R"


@asynccontextmanager
async def watched_loop() -> AsyncIterator[LoopWatch]:
    """Watches the running loop until the end of the block."""
    watch = LoopWatch()

    async def turn() -> None:
        while True:
            await asyncio.sleep(_BEAT)
            watch.turned()

    turning = asyncio.get_running_loop().create_task(turn())
    looking = threading.Thread(target=watch.look, name="asyncio_beside")
    looking.start()
    try:
        yield watch
    finally:
        watch.stop()
        turning.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await turning
        looking.join()


TIMELY = 8.0 * BUSY
"""Seconds that no call of a sink may exceed, whatever its destination does. Its own timeouts are far shorter."""

CLOSES_IN = 5.0 * BUSY
"""Seconds: "within a few", on a quiet machine."""

STUCK = 0.8
"""Seconds. Less than the timeouts of the sinks."""


@dataclass
class Results:
    """What a sink said of the records that it was given."""

    stored: set[str] = field(default_factory=set)
    rejected: dict[str, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    deliveries: int = 0


def checked(batch: Sequence[Record], receipt: Receipt) -> Receipt:
    """The receipt, if it keeps the promise of ``sinks.base.Receipt``."""
    pending, rejected = list(receipt.pending), receipt.rejected
    assert pending == sorted(set(pending)), "indexes ascend"
    assert set(pending) | rejected.keys() <= set(range(len(batch))), "indexes are those of the batch"
    assert not set(pending) & rejected.keys(), "a record is pending or rejected"
    for text in [*rejected.values(), *([receipt.failure.reason] if receipt.failure else [])]:
        assert text.strip(), "a reason says something"
        assert len(text) < 500, f"a reason is not a record: {len(text)} letters"
    blocked: dict[object, str] = {}
    has_failure, nothing = False, len(pending) + len(rejected) == len(batch)
    for index, record in enumerate(batch):
        front = blocked.get(record.ordering_key)
        if index in pending:
            has_failure = has_failure or front != "rejected"
            blocked.setdefault(record.ordering_key, "pending")
        elif index in rejected:
            # A transaction that stored nothing may reject what stands behind pending ones.
            assert front is None or nothing, f"record {index} is rejected behind a {front} one of its key"
            blocked[record.ordering_key] = "rejected"
        else:
            assert front is None, f"record {index} overtook a {front} one of its key"
    assert (receipt.failure is not None) == has_failure, (
        f"a failure comes exactly with the records that it made pending: {receipt}"
    )
    return receipt


async def deliver(sink: Sink, batch: Sequence[Record], results: Results | None = None) -> list[Record]:
    """One timely delivery. Returns what is pending."""
    async with asyncio.timeout(TIMELY):
        receipt = checked(batch, await sink.deliver(batch))
    if results is not None:
        pending = set(receipt.pending)
        results.deliveries += 1
        results.rejected |= {batch[index].id: reason for index, reason in receipt.rejected.items()}
        results.stored |= {
            record.id for index, record in enumerate(batch) if index not in pending and index not in receipt.rejected
        }
        if receipt.failure is not None:
            results.failures.append(receipt.failure.reason)
    return [batch[index] for index in receipt.pending]


async def deliver_all(sink: Sink, records: Sequence[Record], size: int, results: Results | None = None) -> Results:
    """As the bridge does it: batches of ``size``, and what is pending again until nothing is. Raises TimeoutError."""
    results = results or Results()
    async with asyncio.timeout(150 * BUSY):
        for start in range(0, len(records), size):
            left: Sequence[Record] = records[start : start + size]
            while left := await deliver(sink, left, results):
                await a_moment()
    return results


@asynccontextmanager
async def the_loop_is_free() -> AsyncIterator[None]:
    """Fails if the event loop stood still meanwhile, for as long as a wait that belongs into a thread would take."""
    async with watched_loop() as watch:
        yield
    assert watch.longest < STUCK, f"the event loop stood still for {watch.longest:.2f} s"


def what_is_left() -> tuple[Counter[str], list[str], int]:
    """Open files by what they are, threads and tasks. Threads of ``asyncio.to_thread`` are the loop's. A closed sink's
    thread may be about to end: it counts if it stays."""
    gc.collect()
    threads = [thread for thread in threading.enumerate() if not thread.name.startswith("asyncio_")]
    for thread in threads:
        if thread.name.startswith(("sink-", "read-")):
            thread.join(10 * BUSY)
    names = sorted(thread.name for thread in threads if thread.is_alive())
    return open_files(), names, len(asyncio.all_tasks())


async def a_moment() -> None:
    """Between two tries. The bridge waits longer."""
    await asyncio.sleep(0.02)


async def until(holds: Callable[[], bool]) -> None:
    """Raises TimeoutError."""
    async with asyncio.timeout(30 * BUSY):
        while not holds():  # noqa: ASYNC110 (no event for the state of a server)
            await asyncio.sleep(0.001)


def say(way: str, what: str, found: Sequence[Stored], results: Results) -> None:
    failures = f"{len(results.failures)} failures in {results.deliveries} deliveries"
    print(f"\n{way}: {what}: {repeats(found)} of {len(found)} stored again, {failures}", end="")


def repeats(found: Iterable[Stored]) -> int:
    """How many are there again."""
    return sum(count - 1 for count in Counter(each.id for each in found).values())


def assert_holds(found: Sequence[Stored], sent: Sequence[Record], acknowledged: Iterable[str]) -> None:
    """Everything acknowledged is there; nothing but what was sent is; all of it as it was sent; of each key in the
    order in which it was sent, with the newest as the last."""
    records = {record.id: record for record in sent}
    there = {each.id for each in found}
    lost = [id_ for id_ in acknowledged if id_ not in there]
    assert not lost, f"{len(lost)} were acknowledged and are not there, such as {lost[:3]}"
    assert there <= records.keys(), f"nobody sent {sorted(there - records.keys())[:3]}"
    for each in found:
        assert_same(each, records[each.id])
    assert_in_order(found, sent)


def assert_in_order(found: Sequence[Stored], sent: Sequence[Record]) -> None:
    indexes = {record.id: index for index, record in enumerate(sent)}
    by_key: dict[str, list[Stored]] = defaultdict(list)
    for each in found:
        by_key[each.key].append(each)
    for key, stream in by_key.items():
        assert len({each.where for each in stream}) == 1, f"{key} is in several indexes, which have no common order"
        order = [indexes[id_] for id_ in dict.fromkeys(each.id for each in stream)]
        assert order == sorted(order), f"{key} came out of order: {order[:50]}"
        assert indexes[stream[-1].id] == order[-1], f"{key} ends with a repetition of an older record"


def assert_same(found: Stored, record: Record) -> None:
    """Byte for byte, and with every attribute of the event."""
    wanted = attributes_of(record)
    assert dict(found.attributes) == wanted
    assert found.key == wanted["partitionkey"]
    if isinstance(record, Delta):
        assert found.body == record.body


def attributes_of(record: Record) -> dict[str, str]:
    """The CloudEvent's attributes as README and design have them, made without the code that makes them."""
    common = {
        "specversion": "1.0",
        "source": f"/clusters/{CLUSTER}",
        "time": record.time,
        "datacontenttype": "application/json",
        "sequence": str(record.sequence).zfill(20),
    }
    if isinstance(record, Snapshot):
        number = f"/{record.number}" if record.number else ""
        common["snapshot"] = f"snapshot/{record.sink}/{record.sequence}{number}"
    elif isinstance(record, Delta) and record.snapshot is not None:
        common["snapshot"] = record.snapshot
    if isinstance(record, Gap):
        name = f"gap/{record.first}/{record.sequence}"
        return {**common, "id": name, "type": "kubedelta.gap.v1", "partitionkey": CLUSTER}
    if isinstance(record, Snapshot):
        name = f"{common['snapshot']}/{record.edge.value}"
        return {**common, "id": name, "type": f"kubedelta.snapshot.{record.edge.value}.v1", "partitionkey": CLUSTER}
    if record.epoch > 1:
        common["source"] += f"/epochs/{record.epoch}"
    resource = record.resource
    namespace, _, name = record.key.rpartition("/")
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    inside = f"/namespaces/{namespace}" if resource.namespaced else ""
    left = record.evidence is Evidence.UNSELECTED  # A leave, while a delete of the same version may follow.
    step = record.evidence if left else record.op
    once_more = f"/snapshot/{record.replay}" if record.snapshot is not None and record.replay else ""
    return {
        **common,
        "id": f"{record.uid}/{record.resource_version}/{step.value}{once_more}",
        "type": f"kubedelta.object.{record.op.value}.v1",
        "subject": f"{root}{inside}/{resource.plural}/{name}",
        "partitionkey": f"{CLUSTER}/{resource.group or 'core'}/{resource.plural}/{namespace or '_'}/{name}",
        "uid": record.uid,
        "resourceversion": record.resource_version,
        "op": record.op.value,
        "evidence": record.evidence.value,
        "epoch": str(record.epoch),
    }
