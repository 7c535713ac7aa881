"""Lists and watches the objects of a shard alone, whether the API server selects them (KEP-5866) or sends all.

KEP-5866 lets API servers select objects by a range of the FNV-1a hash of the uid. It is alpha, a watch does not say
whether its server selects, and servers behind an address may differ, so a bridge that relied on the server alone would
export objects twice, or never. Therefore every bridge drops the objects of other shards itself, as early as it can
(``wire.frames.ShardFrames``). The server is asked to select where a list of a single object, before each watch and each
list, echoes the selector: a small request every five to ten minutes. ``python -m benchmarks.shards`` prints the cost of
a dropped object.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager

from msgspec.structs import replace

from bridge.kube.lister_watcher import alone
from bridge.model.answers import (
    Announced,
    Bookmark,
    Busy,
    Failed,
    ListAnswer,
    ListerWatcher,
    ListRequest,
    Match,
    Page,
    Part,
    Refused,
    TakePart,
    Unsupported,
    WatchAnswer,
    WatchRequest,
)
from bridge.model.object import ApiObject
from bridge.model.primitives.shard import Shard, ShardBy


def shard_selector(shard: Shard) -> str:
    """The API's shardSelector for a shard, as API servers write it into the lists that they have selected by it. Empty
    for a shard that they cannot select."""
    if shard.by is not ShardBy.UID:
        return ""
    return f"shardRange(object.metadata.uid, '{shard.start:#018x}', '{shard.end:#018x}')"


class ShardListerWatcher:
    """The ListerWatcher of a shard, over that of all objects.

    Objects of other shards are dropped here, even where the server selects. A watch gets a bookmark in place of the
    last changes that were dropped, so that its position moves on. Lists of a single object and of an earlier state have
    no selector, since they are few: there, an object of another shard under a name is as absent."""

    def __init__(
        self, source: ListerWatcher, shard: Shard, notice: Callable[[bool], None] = lambda _selects: None
    ) -> None:
        """``notice`` is called when it turns out whether the server selects, and when that changes."""
        self._source = source
        self._shard = shard
        self._selector = shard_selector(shard)
        self._notice = notice
        self._selects: bool | None = None
        """The server selected when it was asked last; None before the first time."""
        self._pages_selected = False
        """The list whose next page is requested was selected by the server."""
        self._rejected = False
        """The last request with the selector failed, perhaps because of the selector."""

    async def list(self, request: ListRequest, take: TakePart | None = None) -> ListAnswer:
        is_historical = request.only is not None or request.match is Match.EXACT
        if request.next_page is None and not is_historical:
            selected = await self._ask()
            if not isinstance(selected, bool):
                return selected
            self._pages_selected = selected
        if self._pages_selected and not is_historical:
            request = replace(request, shard_selector=self._selector)
        answer = await self._source.list(request, None if take is None else self._taking(take))
        if request.shard_selector:
            self._rejected = isinstance(answer, Failed | Unsupported)
        return replace(answer, objects=[*self._own(answer.objects)]) if isinstance(answer, Page) else answer

    def _taking(self, take: TakePart) -> TakePart:
        async def take_own(part: Part) -> None:
            if own := [*self._own(part.objects)]:
                await take(replace(part, objects=own))

        return take_own

    @asynccontextmanager
    async def watch(self, request: WatchRequest) -> AsyncIterator[AsyncIterator[WatchAnswer]]:
        selected = await self._ask()
        if not isinstance(selected, bool):
            yield alone(selected)
            return
        if selected:
            request = replace(request, shard_selector=self._selector)
        async with (
            self._source.watch(request) as answers,
            aclosing(self._answers(answers, selected, initial=request.initial_events)) as own,
        ):
            yield own

    async def _answers(
        self, answers: AsyncIterator[WatchAnswer], selected: bool, *, initial: bool
    ) -> AsyncGenerator[WatchAnswer]:
        """``initial``: the events before the bookmark that ends them have no order, and so no position."""
        contains = self._shard.contains
        async for answer in answers:
            if not isinstance(answer, Announced):
                if isinstance(answer, Bookmark):
                    initial = initial and not answer.initial_events_end
                elif isinstance(answer, Failed | Unsupported):
                    self._rejected = selected
                yield answer
                continue
            own = [event for event in answer.events if contains(event[1].uid, event[1].key)]
            if own:
                yield answer if len(own) == len(answer.events) else Announced(own)
            _, last = answer.events[-1]
            if not initial and not (own and own[-1][1] is last):
                yield Bookmark(last.resource_version)

    def _own(self, objects: Sequence[ApiObject]) -> Iterator[ApiObject]:
        contains = self._shard.contains
        return (each for each in objects if contains(each.uid, each.key))

    async def _ask(self) -> bool | Busy | Refused:
        """Whether the next request has the selector: the server says in a list whether it selects. After a failure of a
        request with the selector, the next request has none. Answers that do not depend on the selector stand for those
        to the next request, which is not sent."""
        if self._rejected or not self._selector:
            self._rejected = False
            return False
        answer = await self._source.list(ListRequest(version="", limit=1, shard_selector=self._selector), _drop)
        if isinstance(answer, Busy | Refused):
            return answer
        if not isinstance(answer, Page):
            return False
        selects = answer.shard_selector == self._selector
        if selects is not self._selects:
            self._selects = selects
            self._notice(selects)
        return selects


async def _drop(part: Part) -> None:
    """Servers without limits send all of their objects."""
