"""A definition that goes and comes back while its informers are let go one by one."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge.app.watched_resources import WatchedResources
from bridge.informer import SharedInformer
from bridge.model.resource import Scope
from bridge.plan.plan import Wanted
from tests.bridge.app.test_bridge import DEFINITIONS, a_definition
from tests.bridge.app.test_restart import life
from tests.kit.deadlines import until
from tests.kit.playground import Playground

WIDGETS = (Wanted("widgets.example.test", (Scope("default"), Scope("kube-public"))),)


async def test_the_part_that_was_let_go_already_is_followed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[Scope] = []

    async with Playground(bookmark_interval=0.2) as cluster:
        cluster.create(DEFINITIONS, a_definition())
        is_gone = WatchedResources._is_gone

        async def comes_back_meanwhile(self: WatchedResources, informer: SharedInformer) -> bool:
            if looked_at == [Scope("default")]:
                cluster.create(DEFINITIONS, a_definition())
            looked_at.append(informer.scope)
            return await is_gone(self, informer)

        monkeypatch.setattr(WatchedResources, "_is_gone", comes_back_meanwhile)
        async with life(tmp_path, cluster, WIDGETS) as run:
            cluster.delete(DEFINITIONS, "widgets.example.test")
            await until(lambda: len(looked_at) >= 2)
            widget = {"metadata": {"name": "new", "namespace": "default"}, "spec": {}}
            cluster.create("widgets.example.test", widget)
            await run.sink.until(lambda sink: sink.delivered() == ["added default/new"])
