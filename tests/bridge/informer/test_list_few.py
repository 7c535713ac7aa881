"""Lists of a few objects, from servers that answer with more."""

from __future__ import annotations

from bridge.informer.history.member import list_few
from bridge.model.answers import ListAnswer, ListRequest, Page, Part, TakePart
from bridge.model.object import ApiObject
from tests.kit.objects import a_pod
from tests.kit.scripted_source import ScriptedSource

WEB, DB, AUX = a_pod("web").at(3), a_pod("db").at(4), a_pod("aux").at(5)


class Floods(ScriptedSource):
    """A server that ignores the limit and the name, and sends these objects again and again."""

    def __init__(self, *objects: ApiObject) -> None:
        super().__init__()
        self._objects = objects

    async def list(self, request: ListRequest, take: TakePart | None = None) -> ListAnswer:
        assert take is not None
        for _ in range(100):
            await take(Part([*self._objects], "9"))
        return Page([*self._objects], "9", None)


async def few(source: Floods, only: str | None, most: int) -> list[ApiObject]:
    answer = await list_few(source, ListRequest(version="", limit=most, only=only), most)
    assert isinstance(answer, Page)
    return answer.objects


async def test_the_first_objects_are_kept() -> None:
    assert await few(Floods(WEB, DB, AUX), None, 2) == [WEB, DB]


async def test_the_object_that_was_asked_for_is_kept_wherever_it_stands() -> None:
    assert await few(Floods(WEB, DB, AUX), AUX.key, 1) == [WEB, AUX]


async def test_an_object_that_is_sent_again_and_again_is_kept_a_few_times_alone() -> None:
    assert await few(Floods(WEB), WEB.key, 1) == [WEB, WEB]
