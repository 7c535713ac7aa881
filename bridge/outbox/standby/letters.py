"""Dead letters go from the replicas that have led to the one that leads: one replica has each of them.

The leader fetches them, and publishes how far it has stored them; then the other replica lets go of these, as it does
of records in the log: what the Lease does not prove to be elsewhere stays. A leader takes its own name out of
``Frontier.kept``, so that no replica lets go of dead letters that it has added in a later term.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from bridge.facts import Report
from bridge.facts.election import LettersOvertaken
from bridge.model.admin import UnknownTarget
from bridge.model.dead_letter import MOST_LETTERS, LetterPage, NewDeadLetter, SentLetter
from bridge.model.primitives.election import replica_of
from bridge.model.primitives.shard import Shard
from bridge.model.record import Delta, Gap, Record
from bridge.model.versions.frontier import Frontier, Point
from bridge.model.versions.held import MOST_HELD, KeptLetters, digest_of, digests_in
from bridge.model.versions.leading import in_term
from bridge.outbox.appender import Appender
from bridge.outbox.dead_letters import MOST, DeadLetters
from bridge.outbox.errors import Damaged
from bridge.outbox.letters import fetched
from bridge.outbox.letters.dead_letters_sql import SavedDeadLetters, heads_of
from bridge.outbox.log import record_codec
from bridge.outbox.progress.delivered import delivered, doubtful, numbering
from bridge.outbox.sink_cursors import SinkCursors
from bridge.outbox.standby.destinations import informers_of
from bridge.outbox.standby.kept import names_all
from bridge.outbox.standby.standby import Standby
from bridge.outbox.store import Store

_MOST_SINKS = 1000
_LARGEST = 1 << 62


class SharedLetters:
    """The dead letters of a replica in an election."""

    def __init__(
        self,
        store: Store,
        appender: Appender,
        sinks: SinkCursors,
        standby: Standby,
        identity: str,
        report: Report,
    ) -> None:
        self._store = store
        self._appender = appender
        self._report = report
        self._sinks = sinks
        self._standby = standby
        self._mine = replica_of(identity)
        self._begun: set[str] = set()
        """Replicas of which some dead letters are here, and others are to come as soon as they answer."""
        self._ended = False
        """Of some replica all are here, and the Lease may not say so yet."""

    # ── A replica that has led ───────────────────────────────────────────────

    async def page(self, after: int) -> LetterPage:
        """The next dead letters with larger numbers than ``after``, for the leader. Raises Damaged and KeyMissing."""
        ask = partial(
            fetched.page,
            replica=self._mine,
            after=after,
            most=MOST_LETTERS,
            ahead=self._standby.ahead,
            cipher=self._store.cipher,
        )
        page = await self._store.ask(ask)
        return replace(page, numbering=numbering(page.letters, self._sinks.progress.starts, self._sinks.all))

    def observe(self, found: Frontier) -> None:
        """Lets go of what the leader has stored. ``found``: of another replica, read from the Lease."""
        kept = found.kept.get(self._mine)
        if kept is not None and not kept.former and found.term > self._standby.led:
            for each in self._sinks.dead_letters.values():
                each.let_go(kept.through)

    # ── The leader ───────────────────────────────────────────────────────────

    async def begin(self, known: Frontier) -> None:
        """Drops the own dead letters of an earlier term that were overtaken since. ``known``: behind which this replica
        leads again."""
        if self._mine not in known.followed:
            return
        dropped = 0
        for sink, each in self._sinks.dead_letters.items():
            there = known.sinks.get(sink)
            if there is None or not names_all(there) or each.keys.count > MOST_HELD:
                continue
            held = digests_in(there.parked)
            free = [key for key in each.keys if digest_of(key) not in held]
            heads = await self._store.ask(partial(heads_of, sink=sink, keys=free, cipher=self._store.cipher))
            numbers = [number for number, record in heads if self._is_overtaken(sink, record, known)]
            if numbers:
                await each.delivered(numbers)  # Unlike a drop by an operator, it releases no others.
                dropped += len(numbers)
        if dropped:
            self._report(LettersOvertaken(self._mine, dropped))

    @property
    def wanted(self) -> Mapping[str, KeptLetters]:
        """Replicas with dead letters that the leader has not, as far as their addresses are known. None for a follower,
        and before the Lease has the leader's frontier: the next leader has to know that this one may have stored
        some."""
        standby, found = self._standby, self._standby.found
        if not standby.leading or found is None or standby.others.newest_term < standby.led:
            return {}
        return {name: kept for name, kept in found.kept.items() if kept.address}

    async def require_whole(self) -> None:
        """Call before dead letters are retried or dropped. Returns once the Lease says which are here: else the next
        leader would get some of a former shard again. Raises UnknownTarget while those of another replica are here in
        part: a delivery would overtake earlier records of the same objects."""
        if names := sorted(self._begun & self.wanted.keys()):
            raise UnknownTarget(
                f"some dead letters of {', '.join(names)} are here, and others are on their way, which these would"
                " overtake: ask again once /readyz?verbose names no such replica; if they are lost with its volume, let"
                " it begin with an empty one"
            )
        if self._ended and self._standby.confirm is not None:
            self._ended = False
            try:
                await self._standby.confirm()
            except BaseException:
                self._ended = True
                raise
            await self.require_whole()  # More may have come meanwhile.

    async def take(self, page: LetterPage) -> str:
        """Adds the dead letters of a page that has some, ascending by number, without those of other shards, those that
        the destination has (``delivered``), and those that were overtaken (``_is_overtaken``); durable on return, and
        published with the next renewal. Returns why nothing was added, for the operator; empty otherwise. Raises
        ValueError for records that cannot be read."""
        replica, kept = page.replica, self.wanted.get(page.replica, KeptLetters())
        own = partial(_is_own, shard=self._sinks.shard, notices=kept.notices)
        had = {sink: await self._had(page, sink, kept) for sink in self._doubtful(page)}
        if unread := [sink for sink, numbers in had.items() if numbers is None]:
            return (
                f"the destination of {', '.join(unread)} may have some of them, as it says when the sink opens: they"
                " come then; `kubedelta sinks resume` if it is paused"
            )
        letters = [each for each in page.letters if each.number not in (had.get(each.sink) or ())]
        by_sink = await asyncio.to_thread(_by_sink, letters, self._standby.ahead, own)
        if not all(self._has_room(sink, len(new)) for sink, new in by_sink.items()):
            self._begun.discard(replica)
            return "a sink has no room for them: retry or drop its dead letters"
        overtaken = 0
        for sink, all_new in by_sink.items():
            new = self._without_overtaken(replica, sink, all_new)
            overtaken += len(all_new) - len(new)
            if sink not in self._sinks.dead_letters:
                self._sinks.dead_letters[sink] = DeadLetters(self._store, sink, SavedDeadLetters({}, False))
            await self._sinks.dead_letters[sink].take(new)
        self._begun.add(replica)
        if overtaken:
            self._report(LettersOvertaken(replica, overtaken))
        self._publish(replica, page.letters[-1].number)
        return ""

    async def _had(self, page: LetterPage, sink: str, kept: KeptLetters) -> Collection[int] | None:
        """The numbers of those that the destination has: their replica was killed before it deleted them. None until
        the sink is open, and has read it."""
        progress = self._sinks.progress
        before = await progress.letters_of_former_shard(sink) if kept.former else progress.letters_before(sink)
        return None if before is None else delivered(page, sink, before)

    def _doubtful(self, page: LetterPage) -> Sequence[str]:
        return doubtful(page, self._standby.configured.transactional)

    def _without_overtaken(self, replica: str, sink: str, new: Sequence[NewDeadLetter]) -> Sequence[NewDeadLetter]:
        found, there = self._standby.found, self._sinks.dead_letters.get(sink)
        if found is None or there is None or replica not in found.followed:
            return new
        held = there.keys
        return [
            each for each in new if each.record.ordering_key in held or not self._is_overtaken(sink, each.record, found)
        ]

    def _is_overtaken(self, sink: str, record: Record, found: Frontier) -> bool:
        """Whether this frontier covers a dead letter whose object nobody holds back: another replica added it after its
        last publication, so that it was delivered again; or an operator let later records pass. A delivery would bring
        an older state. Where the destination has the progress, a record may be covered that is a dead letter there
        alone."""
        if sink in self._standby.configured.passing or sink in self._standby.configured.transactional:
            return False
        if not isinstance(record, Delta) or record.snapshot is not None or record.replay:
            return False
        point = Point(record.epoch, record.resource_version)
        informers = informers_of(self._appender, record.resource.name, record.key.rpartition("/")[0])
        points = [found.of(sink, each) for each in informers]
        return bool(points) and all(each is not None and each.covers(point) for each in points)

    def _has_room(self, sink: str, number: int) -> bool:
        there = self._sinks.dead_letters.get(sink)
        if there is None:
            return len(self._sinks.dead_letters) < _MOST_SINKS
        return len(there) + number <= MOST

    def end(self, replica: str) -> None:
        """The leader has all dead letters of the replica."""
        self._begun.discard(replica)
        self._ended = True
        self._publish(replica, None)

    def _publish(self, replica: str, through: int | None) -> None:
        standby = self._standby
        if standby.found is None or not standby.leading or replica not in standby.found.kept:
            return
        kept = dict(standby.found.kept)
        before = kept.pop(replica)
        if through is not None:
            kept[replica] = replace(before, through=max(before.through, through))
        elif not kept:
            for each in self._sinks.dead_letters.values():
                each.keys.forget_elsewhere()
        standby.found = replace(standby.found, kept=kept)


def _is_own(record: Record, shard: Shard | None, *, notices: bool) -> bool:
    if not isinstance(record, Delta):
        return notices
    return shard is None or shard.contains(record.uid, record.key)


def _by_sink(
    letters: Sequence[SentLetter], ahead: int, own: Callable[[Record], bool]
) -> Mapping[str, Sequence[NewDeadLetter]]:
    """With the numbers that the records would have in the log of a replica that is so far ``ahead``."""
    found: dict[str, list[NewDeadLetter]] = {}
    for each in letters:
        try:
            record = in_term(record_codec.decode_record(each.record), 0, -ahead)
        except (ValueError, IndexError, Damaged) as error:  # The first two: the name of a snapshot.
            raise ValueError(f"dead letter {each.number} cannot be read: {error}") from error
        if max(abs(record.sequence), abs(record.first) if isinstance(record, Gap) else 0) > _LARGEST:
            raise ValueError(f"dead letter {each.number} has the sequence number {record.sequence}")
        if own(record):
            found.setdefault(each.sink, []).append(NewDeadLetter(record, each.reason, each.parked, each.answer))
    return found
