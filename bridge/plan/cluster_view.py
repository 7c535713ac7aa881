"""Lists the live objects of a cluster. It changes none.

``ClusterView.look`` lists each resource whole. A list that is not complete raises ClusterUnavailable or ClusterRefuses,
so a comparison never takes it for the cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from bridge.kube import Catalogue, KubeClient
from bridge.model.answers import Busy, Expired, ListAnswer, ListerWatcher, ListRequest, Page, Refused
from bridge.model.formats.object_paths import partition_key
from bridge.model.object import ApiObject
from bridge.model.primitives.shard import Shard
from bridge.model.resource import Resource, Scope
from bridge.plan.entries import Desired, ignored_by
from bridge.plan.keys import likely_transform
from bridge.plan.plan import Plan
from bridge.transform.digest import IgnoredPaths

Progress: TypeAlias = Callable[[str, int, int | None], None]
"""Gets a description, how many are done, and of how many (None if unknown)."""
PAGE = 500
"""Objects."""
_TRIES = 5
"""Attempts at a list whose pages expire, or at a busy server."""
_LONGEST_WAIT = 10.0
"""Most seconds to wait for a busy server, each time."""

Matches: TypeAlias = Callable[[ApiObject], bool]
Digest: TypeAlias = Callable[[ApiObject], bytes]


class Version(msgspec.Struct, frozen=True, gc=False):
    """The version of an object: uid and resourceVersion."""

    uid: str
    resource_version: str


class ClusterUnavailable(Exception):
    """The live objects could not be listed completely. A later attempt may succeed."""


class ClusterRefuses(Exception):
    """The live objects cannot be listed: a permission, or the configuration, must change."""


@dataclass(slots=True)
class ClusterView:
    """The live objects of the configured resources, by partition key."""

    cluster: str
    client: KubeClient
    desired: Desired
    most: int | None = None
    """With more objects in a list, ``look`` raises ClusterUnavailable."""
    matching: Callable[[Resource], Matches] | None = None
    """Conditions on whole objects. Objects that do not meet them are left out."""
    digest_in: Callable[[Resource, Scope], Digest | None] | None = None
    """Makes the digests of live objects in a scope; None where no changes are ignored."""
    shard: Shard | None = None
    """Objects of other shards are left out."""
    progress: Progress | None = None
    digests: dict[str, bytes] = field(default_factory=dict, init=False)
    """Partition key → digest of the live object, where changes are ignored, of the last ``look``."""

    @property
    def listed(self) -> tuple[tuple[Resource, Scope], ...]:
        return tuple((resource, scope) for (_, scope), resource in self.desired.items())

    async def look(self, resources: Collection[str] | None = None) -> dict[str, Version]:
        """Partition key → live version, from a consistent list of each resource, not older than the call.
        ``resources``: only resources of these names. Raises ClusterUnavailable, ClusterRefuses."""
        found: dict[str, Version] = {}
        for resource, scope in self.listed:
            if resources is None or resource.name in resources:
                found |= await self._list(resource, scope)
        return found

    async def _list(self, resource: Resource, scope: Scope) -> dict[str, Version]:
        matches = None if self.matching is None else self.matching(resource)
        digest = None if self.digest_in is None else self.digest_in(resource, scope)
        if matches is None and digest is None:
            lister = self.client.lister_watcher(resource, scope, metadata_only=True, shard=self.shard)
        else:
            lister = self.client.lister_watcher(resource, scope, managed_fields=False, shard=self.shard)
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
                    if self.progress is not None:
                        self.progress(f"{resource} listed", len(found), None)
                    if digest is not None:
                        self.digests |= {key: digest(each) for key, each in here}
                    if self.most is not None and len(found) > self.most:
                        raise ClusterUnavailable(f"there are more than {self.most} {resource}")
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
        return partition_key(self.cluster, resource.group, resource.plural, each.namespace, each.name)


async def pages(lister: ListerWatcher) -> AsyncIterator[ListAnswer]:
    """A consistent list, page by page. A failure is the last answer."""
    request = ListRequest(version="", limit=PAGE)
    while True:
        answer = await lister.list(request)
        yield answer
        if not isinstance(answer, Page) or answer.next_page is None:
            return
        request = ListRequest(version="", limit=PAGE, next_page=answer.next_page)


def partition_of(cluster: str, resource: Resource, key: str) -> str:
    """The partition key of an object with this key in the ledger."""
    namespace, _, name = key.rpartition("/")
    return partition_key(cluster, resource.group, resource.plural, namespace, name)


def digest_in(plan: Plan, catalogue: Catalogue, resource: Resource, scope: Scope) -> Digest | None:
    """Makes the digest of an object as the bridge makes it, without the paths whose changes it ignores; None where it
    ignores none."""
    paths = ignored_by(plan.wanted, resource, scope, catalogue)
    if not paths:
        return None
    ignored = IgnoredPaths(paths)
    transform = likely_transform(plan, catalogue, resource)
    return lambda live: ignored.digest(transform(live).body)
