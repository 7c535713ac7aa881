"""``kubedelta verify``: reads back a destination, and compares it with the live objects. Changes neither."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from bridge.facts import discard
from bridge.kube import ApiError, ClusterAccess, KubeClient, connect
from bridge.model.answers import Busy, Expired, ListRequest, Page, Refused
from bridge.model.formats.object_paths import partition_key
from bridge.model.object import ApiObject
from bridge.model.resource import Resource, Scope
from bridge.model.versions.stored_version import SinkReader
from bridge.plan.plan import Wanted
from bridge.resources.resolve import Desired, resolve_wanted
from bridge.verify.compare import Candidate, Coverage, Difference, Holdings, Name, Version, differences
from bridge.verify.ignored import Digests, IgnoredStates, IgnoringBy
from bridge.verify.selected import Expected, Matches, SelectedBy

PAGE = 500
"""Objects."""
_TRIES = 5
"""Attempts at a list whose pages expire, or at a busy server."""
_LONGEST_WAIT = 10.0
"""Most seconds to wait for a busy server, each time."""
_FIRST_PAUSE = 0.5
"""Seconds between the first two comparisons; each later pause is twice as long."""


class ClusterUnavailable(Exception):
    """The live objects could not be listed completely. A later attempt may succeed."""


class ClusterRefuses(Exception):
    """The live objects cannot be listed: a permission, or the configuration, must change."""


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of a comparison."""

    source: str
    """A short description of the destination."""
    live: int
    """Objects in the cluster."""
    stored: int
    """Objects at the destination."""
    records: int
    """Records read at the destination."""
    differences: Sequence[Difference]
    """By ascending key."""
    gaps: int
    """Gap records at the destination. Later records may have repaired their effect."""
    foreign: int
    """Records at the destination of other programs or clusters, and unreadable records."""
    uncovered: Mapping[str, int]
    """Resource → records about objects that the configuration does not cover."""
    notes: Sequence[str]
    """Further findings for the operator."""


async def verify(
    cluster: str,
    access: ClusterAccess,
    wanted: Sequence[Wanted],
    reader: SinkReader,
    *,
    settle: float,
    select: SelectedBy | None = None,
    ignoring: IgnoringBy | None = None,
) -> Verification:
    """Compares both sides, and repeats the comparison of differing objects for ``settle`` seconds, since recent changes
    may be on their way.

    ``select``: chooses the live objects that the destination has to have; None for all. ``ignoring``: knows the changes
    that are ignored; None if none are.
    ``reader`` is passed unopened, and is closed on return. Raises CannotReadBack, ClusterUnavailable, ClusterRefuses,
    CredentialsError and SinkUnavailable.
    """
    try:
        source = await reader.open()
        async with connect(access, report=discard) as client:
            catalogue = await client.discover()
            meant = resolve_wanted(wanted, catalogue)
            expected = None if select is None else select(catalogue, meant)
            digests, states = (None, None) if ignoring is None else ignoring(catalogue)
            matching = None if expected is None else expected.matching
            view = ClusterView(cluster, client, meant.desired, matching=matching, digests=digests)
            coverage = Coverage(wanted, view.listed, catalogue.resources, meant.unresolved)
            comparison = _Comparison(reader, view, coverage, Holdings(cluster, coverage), expected, states)
            return await comparison.run(source, tuple(meant.unresolved.values()), settle)
    except ApiError as error:
        raise ClusterUnavailable(str(error)) from error
    finally:
        await reader.close()


class ClusterView:
    """The live objects of the configured resources, by partition key."""

    def __init__(
        self,
        cluster: str,
        client: KubeClient,
        desired: Desired,
        *,
        most: int | None = None,
        matching: Callable[[Resource], Matches] | None = None,
        digests: Digests | None = None,
    ) -> None:
        """``most``: with more objects in a list, ``look`` raises ClusterUnavailable. ``matching``: conditions on whole
        objects; objects that do not meet them are left out."""
        self.digests: dict[str, bytes] = {}
        """Partition key → digest of the live object, where changes are ignored, of the last ``look``."""
        self._digests = digests
        self._cluster = cluster
        self._matching = matching
        self._most = most
        self._client = client
        self.listed = tuple((resource, scope) for (_, scope), resource in desired.items())

    async def look(self, resources: Collection[str] | None = None) -> dict[str, Version]:
        """Partition key → live version, from a consistent list of each resource, not older than the call.
        ``resources``: only resources of these names. Raises ClusterUnavailable, ClusterRefuses."""
        found: dict[str, Version] = {}
        for resource, scope in self.listed:
            if resources is None or resource.name in resources:
                found |= await self._list(resource, scope)
        return found

    async def _list(self, resource: Resource, scope: Scope) -> dict[str, Version]:
        matches = None if self._matching is None else self._matching(resource)
        digest = None if self._digests is None else self._digests(resource, scope)
        if matches is None and digest is None:
            lister = self._client.lister_watcher(resource, scope, metadata_only=True)
        else:
            lister = self._client.lister_watcher(resource, scope, managed_fields=False)
        found: dict[str, Version] = {}
        request = ListRequest(version="", limit=PAGE)
        tries = 1
        while True:
            match await lister.list(request):
                case Page(unreadable=()) as page:
                    here = [
                        (self._key(resource, each), each) for each in page.objects if matches is None or matches(each)
                    ]
                    found |= {key: Version(each.uid, each.resource_version) for key, each in here}
                    if digest is not None:
                        self.digests |= {key: digest(each) for key, each in here}
                    if self._most is not None and len(found) > self._most:
                        raise ClusterUnavailable(f"there are more than {self._most} {resource}")
                    if page.next_page is None:
                        return found
                    request = ListRequest(version="", limit=PAGE, next_page=page.next_page)
                # The token of the next page is too old: pages of two lists would not be one state, so the list begins
                # again.
                case Expired() if tries < _TRIES:
                    tries += 1
                    found = {}
                    request = ListRequest(version="", limit=PAGE)
                case Busy(after=after) if tries < _TRIES and after is not None:
                    tries += 1
                    await asyncio.sleep(min(after, _LONGEST_WAIT))
                case Page(unreadable=unreadable):
                    raise ClusterUnavailable(f"{resource} has objects that cannot be read: {unreadable[0]}")
                case Refused(reason=reason):
                    raise ClusterRefuses(f"cannot list {resource} ({scope}): {reason}")
                case failure:
                    raise ClusterUnavailable(f"cannot list {resource} ({scope}): {failure.reason}")

    def _key(self, resource: Resource, each: ApiObject) -> str:
        return partition_key(self._cluster, resource.group, resource.plural, each.namespace, each.name)


@dataclass(frozen=True, slots=True)
class _Comparison:
    reader: SinkReader
    view: ClusterView
    coverage: Coverage
    holdings: Holdings
    expected: Expected | None
    """None for a sink that has to have every object."""
    states: IgnoredStates | None
    """None if no changes are ignored."""

    async def run(self, source: str, notes: tuple[str, ...], settle: float) -> Verification:
        await self._read_on()
        self.holdings.watch()
        live = await self.view.look()
        # The first reading may have taken long. Records that arrived since often explain every difference.
        await self._read_on()
        found = differences(live, self.holdings.objects)
        left = await self._settled(
            self._unexplained({key: Candidate(each) for key, each in found.items()}, live), settle
        )
        return Verification(
            source=source,
            live=len(live),
            stored=len(self.holdings.objects),
            records=self.holdings.records,
            differences=[left[key].difference for key in sorted(left)],
            gaps=self.holdings.gaps,
            foreign=self.holdings.foreign,
            uncovered=dict(self.holdings.uncovered),
            notes=(*notes, *self._notes(), *self.reader.notes),
        )

    async def _settled(self, candidates: dict[str, Candidate], settle: float) -> dict[str, Candidate]:
        """The candidates that still differ after ``settle`` seconds and at least one more comparison."""
        now = asyncio.get_running_loop().time
        deadline = now() + settle
        pause = _FIRST_PAUSE
        while candidates:
            await asyncio.sleep(min(pause, max(0.0, deadline - now())))
            live = await self.view.look({name.resource for key in candidates if (name := Name.parsed(key))})
            await self._read_on()
            candidates = self._unexplained(candidates, live)
            if now() >= deadline:
                break
            pause *= 2
        return candidates

    def _unexplained(self, candidates: dict[str, Candidate], live: Mapping[str, Version]) -> dict[str, Candidate]:
        stored, arrived = self.holdings.objects, self.holdings.arrived
        left = {
            key: each
            for key, each in candidates.items()
            if not each.compare_again(live.get(key), stored.get(key), arrived.get(key, {}))
            and (self.expected is None or self.expected.counts(each.difference))
        }
        if self.states is None:
            return left
        unexplained = self.states.unexplained([each.difference for each in left.values()], self.view.digests)
        return {each.key: left[each.key] for each in unexplained}

    def _notes(self) -> Iterator[str]:
        if self.expected is not None:
            yield from self.expected.notes(resource.name for resource, _ in self.view.listed)
        if self.states is not None:
            yield from self.states.notes()

    async def _read_on(self) -> None:
        async with aclosing(self.reader.read(self.coverage.filters)) as batches:
            async for batch in batches:
                self.holdings.take(batch)
