"""This replica in an election: it follows the leader's progress, and delivers while it holds the Lease itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeAlias

from msgspec.structs import replace

from bridge.app.catching_up import bound_former_leaders
from bridge.app.followed_leader import FollowedLeader
from bridge.app.predecessor import read_predecessor, write_identity
from bridge.app.selection_changes import SelectionChanges, first_of
from bridge.election import DivisionRefused, Elector, Inheritor, LeaseApi, Rules, Tenure
from bridge.facts import FrontierTooLarge, Report
from bridge.informer import SharedInformerFactory
from bridge.model.policies import OnRejected
from bridge.model.primitives.election import ElectionStatus
from bridge.model.primitives.shard import Division
from bridge.model.versions import frontier as frontiers
from bridge.model.versions.frontier import Point
from bridge.model.versions.joining import Joined
from bridge.outbox import Standby
from bridge.pipelines.running_sinks import RunningSinks
from bridge.pipelines.selecting import Selecting
from bridge.plan.equal_settings import digests, digests_of_entries
from bridge.plan.plan import ElectionPlan, Plan, PlanRefused
from bridge.transform.redaction_key import RedactionKey

MakeLeadership: TypeAlias = "Callable[[RunningSinks, Selecting, asyncio.Event, Callable[[], float]], Leadership]"
"""With the last four parameters of Leadership."""


class Leadership:
    """The duties of bridge.election."""

    def __init__(
        self,
        election: ElectionPlan,
        mine: Division,
        identity: str,
        state: Path,
        lease_api: Callable[[str], LeaseApi],
        standby: Standby,
        fetch_letters: Callable[[], Coroutine[None, None, None]] | None,
        report: Report,
        sinks: RunningSinks,
        selecting: Selecting,
        started: asyncio.Event,
        grace_ends: Callable[[], float],
    ) -> None:
        """``identity``: of this process. ``state``: the state directory, locked. ``lease_api``: the Lease of this name.
        ``fetch_letters``: see ``letter_fetcher``. ``started``: set once the informers of the first discovery run.
        ``grace_ends``: the end (on the loop's clock) of a grace period that begins now, or began with ``stop``."""
        self._state = state
        self._standby = standby
        self._fetch_letters = fetch_letters
        self._sinks = sinks
        self.changes = SelectionChanges(selecting, standby, report)
        self._started = started
        standby.resign, standby.confirm = self._resign, self.changes.confirm
        self._grace_ends = grace_ends
        self._report = report
        self._follows = asyncio.Event()
        self._follows.set()
        self._followed = FollowedLeader(standby, report)
        self._last = ""
        """The last text that was published."""
        self._apart: Mapping[str, Sequence[Point]] = {}
        """See ``Joined``."""
        self._inherits = bool(election.former)  # The former shards may not have ended yet.
        self._inheritor = self._made_inheritor(election, mine, lease_api) if election.former else None
        self._elector = Elector(
            lease_api(election.lease),
            self,
            Rules(identity, election.timing, read_predecessor(state, election.name), mine),
            namespace=election.namespace,
            name=election.lease,
            highest_term=standby.term,
            report=report,
        )

    def _made_inheritor(
        self, election: ElectionPlan, mine: Division, lease_api: Callable[[str], LeaseApi]
    ) -> Inheritor:
        return Inheritor(
            mine,
            election.name,
            (election.namespace, election.lease),
            lease_api(election.lease),
            [(each, lease_api(each.lease)) for each in election.former],
            self,
            pause=election.timing.retry_period,
            timeout=election.timing.renew_deadline / 2,
            report=self._report,
        )

    async def run(self, factory: SharedInformerFactory) -> None:
        """Until ``stop``: then the deliveries under way end within the grace period, and the Lease is released. Raises
        PlanRefused where the Leases exclude the configured change of the division."""
        if self._inheritor is not None:
            try:
                await self._inheritor.run()
            except DivisionRefused as error:
                raise PlanRefused(f"shard: {error}") from error
            self._apart, self._inherits = {}, False
        async with asyncio.TaskGroup() as tasks:
            others, waypoints = self._standby.others, self._standby.selected.waypoints
            learning = bound_former_leaders(lambda: factory.informers, others, waypoints)
            bounding = tasks.create_task(learning, name="bounds")
            await self._elector.run()
            bounding.cancel()

    def stop(self) -> None:
        if self._inheritor is not None:
            self._inheritor.stop()
        self._elector.stop()

    def status(self) -> ElectionStatus:
        status = self._elector.status()
        exact = self.exact() if self._inherits else status.exact
        found = self._standby.found if self._standby.leading else None
        letters_at = () if found is None else tuple(found.kept)
        differs = self._followed.differs if self._follows.is_set() else ()
        return replace(status, exact=exact, differs=differs, letters_at=letters_at)

    def use(self, plan: Plan, election: ElectionPlan, keys: Sequence[RedactionKey]) -> None:
        """The plan in effect. ``keys``: of the digests of its settings, see plan.equal_settings."""
        self._standby.configured.starts = {sink.name: sink.start for sink in plan.sinks if sink.select is None}
        self._standby.configured.passing = {sink.name for sink in plan.sinks if sink.on_rejected is OnRejected.PASS}
        self._standby.configured.transactional = {sink.name for sink in plan.sinks if sink.transactions is not None}
        self._standby.configured.settings = digests(election.settings, keys)
        self._standby.selected.digests = partial(digests_of_entries, keys=keys)
        self._followed.compare()

    # ── Duties ───────────────────────────────────────────────────────────────

    async def lead(self, tenure: Tenure, took_over: Callable[[], None]) -> None:
        """See Duties. Raises PlanRefused if the Lease belongs to a bridge of another cluster."""
        await first_of(self._started.wait(), tenure.ending.wait())
        if tenure.ending.is_set():
            return
        self._follows.clear()
        try:
            await self._take_over(tenure)
            took_over()
            await self.changes.lead(tenure)
            # A change of the configuration has the sinks' lock, and may wait for an informer that waits for ``resign``.
            await first_of(self._sinks.lead(tenure), tenure.ending.wait())
            await self._hold(tenure)
            await self._sinks.end(tuple(self._sinks.pipelines), by=self._grace_ends())
        finally:
            self.changes.follow()
            await self._end()

    async def _resign(self) -> None:
        self._elector.resign()
        await self._follows.wait()

    async def _hold(self, tenure: Tenure) -> None:
        async with asyncio.TaskGroup() as tasks:
            fetching = None if self._fetch_letters is None else tasks.create_task(self._fetch_letters(), name="letters")
            await tenure.ending.wait()
            if fetching is not None:
                fetching.cancel()

    async def _take_over(self, tenure: Tenure) -> None:
        try:
            found = self._followed.read(tenure.frontier, tenure.term - 1)
            await self._standby.take_over(tenure.term, found, released=tenure.released)
        except ValueError as error:
            raise PlanRefused(f"election.lease: {error}") from error

    async def _end(self) -> None:
        try:
            await self._sinks.stop()
        finally:
            self._publish(last=True)
            self._standby.step_down()
            self._follows.set()
        await self._sinks.follow()

    def published(self) -> str:
        """See Duties. After the work, its last progress."""
        self._publish()
        return self._last

    def _publish(self, *, last: bool = False) -> None:
        if self._standby.leading:
            self._last, characters = frontiers.fitted(self._standby.published(last=last))
            if characters > frontiers.MOST_CHARACTERS:
                self._report(FrontierTooLarge(characters, frontiers.MOST_CHARACTERS))

    def renewed(self, frontier: str) -> None:
        """See Duties. Meanwhile another one may have been made: the next renewal confirms that."""
        if frontier == self._last:
            self._standby.renewed()

    def reread(self, frontier: str, newest: int) -> None:
        """See Duties. Resigns where a restore of the API server's store may have undone what no replica knows."""
        found = self._followed.read(frontier, newest)
        if found is not None and self._standby.others.lost(found):
            if self._last:  # The work may have ended: this is its last publication.
                last = frontiers.without_points(frontiers.decode(self._last))
                self._last = frontiers.encode_found(replace(last, restored=True))
            self._elector.resign()

    def observed(self, frontier: str, newest: int) -> None:
        """See Duties."""
        if self._followed.observe(frontier, newest):
            self.changes.observed()

    def exact(self) -> bool:
        """See Duties. Nobody has led before the first frontier, unless it cannot be read."""
        if not self._started.is_set():
            return False
        if self._followed.frontier is None and self._inheritor is None:
            return not self._followed.is_unreadable
        return all(map(self._standby.exact, self._sinks.pipelines)) and self._standby.passed(self._apart)

    # ── The heir of former shards ────────────────────────────────────────────

    @property
    def term(self) -> int:
        """See Heir."""
        return self._standby.term

    def follow(self, former: Joined) -> None:
        """See Heir."""
        self._apart = former.apart
        self._followed.follow(former.frontier)

    async def remember(self, identity: str) -> None:
        """See Duties. Without the file, the next process only waits for longer."""
        with suppress(OSError):
            await asyncio.to_thread(write_identity, self._state, identity)
