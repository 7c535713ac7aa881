"""What a server or a proxy may send by mistake, through the whole bridge: reported once by name, and nothing else
lost."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from bridge.model.change import Op
from bridge.model.formats.content import ContentRequest, Include
from bridge.outbox import Retention
from bridge.plan.plan import Wanted
from bridge.playground import StatusError
from bridge.telemetry.facts.informer import InputUnreadable, ListWatchFailed
from tests.bridge.app.test_bridge import running
from tests.kit.bridges import a_config_map
from tests.kit.playground import Playground
from tests.kit.sinks import RecordingSink

HEAD = b'{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1",'

BAD_LINES = {
    "malformed JSON": b'{"type":"MODIFIED","object":{"kind":\n',
    "an object without metadata": b'{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1"}}\n',
    "an object without a uid": HEAD + b'"metadata":{"name":"x"}}}\n',
    "a version of 300 characters": HEAD
    + b'"metadata":{"name":"x","uid":"u","resourceVersion":"'
    + b"9" * 300
    + b'"}}}\n',
    "a uid of 300 characters": HEAD + b'"metadata":{"name":"x","uid":"' + b"u" * 300 + b'","resourceVersion":"9"}}}\n',
    "a Table": b'{"type":"ADDED","object":{"kind":"Table","apiVersion":"meta.k8s.io/v1","rows":[]}}\n',
    "a type that nobody knows": b'{"type":"MOVED","object":{"kind":"ConfigMap","metadata":{"name":"x"}}}\n',
    "a string that is not UTF-8": HEAD
    + b'"metadata":{"name":"x","uid":"u","resourceVersion":"9"},"data":{"a":"\xff"}}}\n',
    "an object nested without end": b'{"type":"ADDED","object":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"}\n",
    "an HTML page": b"<html><body>502 Bad Gateway</body></html>\n",
}


@pytest.mark.parametrize("line", BAD_LINES.values(), ids=BAD_LINES.keys())
async def test_an_unreadable_line_is_reported_once_and_loses_no_other(line: bytes) -> None:
    sink = RecordingSink()
    async with running(sink) as world:
        await world.until_ready()
        world.cluster.create("configmaps", a_config_map("before"))
        world.cluster.misbehave.inject(line, "configmaps")
        world.cluster.create("configmaps", a_config_map("after"))
        await sink.until(lambda sink: {"added default/before", "added default/after"} <= {*sink.delivered()})
        world.cluster.patch("configmaps", "before", {"data": {"value": "2"}})
        await sink.until(lambda sink: "updated default/before" in sink.delivered())

    assert sink.delivered() == ["added default/before", "added default/after", "updated default/before"]
    (unreadable,) = world.reported(InputUnreadable)
    assert unreadable.resource.name == "configmaps"
    assert len(unreadable.reason) < 500


async def test_a_line_of_three_megabytes_and_its_neighbours_arrive() -> None:
    sink = RecordingSink()
    async with running(sink) as world:
        await world.until_ready()
        world.cluster.create("configmaps", a_config_map("before"))
        world.cluster.create("configmaps", a_config_map("large", "x" * 3_000_000))
        world.cluster.create("configmaps", a_config_map("after"))
        await sink.until(lambda sink: len(sink.records) == 3)

    assert sink.delivered() == ["added default/before", "added default/large", "added default/after"]
    assert len(sink.deltas[1].body) > 3_000_000
    assert not world.reported(InputUnreadable)


async def test_the_deepest_object_has_its_differences_and_harms_nobody() -> None:
    sink, include = RecordingSink(), frozenset({Include.JSON_PATCH, Include.CHANGED, Include.PATCH})
    nested = b'{"a":' * 491 + b"%d" + b"}" * 491
    line = (
        b'{"type":"%s","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","namespace":"default",'
        b'"uid":"u","resourceVersion":"%d"},"data":' + nested + b"}}\n"
    )
    options = {"sink-0": {"content": ContentRequest((), include)}}
    async with running(sink, options=options, retention=Retention(before=True)) as world:
        await world.until_ready()
        world.cluster.misbehave.inject(line % (b"ADDED", 5000, 1), "configmaps")
        world.cluster.misbehave.inject(line % (b"MODIFIED", 5001, 2), "configmaps")
        await sink.until(lambda sink: "updated default/x" in sink.delivered())

    [changed] = [delta.content.changed for delta in sink.deltas if delta.op is Op.UPDATED and delta.content]
    assert changed == b'["%s"]' % b".".join([b"data", *[b"a"] * 31])


async def test_line_ends_of_other_languages_pass_through() -> None:
    sink = RecordingSink()
    value = "one\u0085two\u2028three\u2029four\r five"
    async with running(sink) as world:
        await world.until_ready()
        world.cluster.create("configmaps", a_config_map("a", value))
        await sink.until(lambda sink: sink.delivered() == ["added default/a"])

    assert b"one" in sink.deltas[0].body
    assert json.loads(sink.deltas[0].body)["data"]["value"] == value


BREAKS: dict[str, Callable[[Playground], object]] = {
    "a Status in the middle of a watch": lambda cluster: cluster.misbehave.break_watches(
        StatusError(500, "InternalError", "etcd is not well"), "configmaps"
    ),
    "410 in the middle of a watch": lambda cluster: cluster.misbehave.break_watches(
        StatusError(410, "Expired", "too old resource version"), "configmaps"
    ),
    "a line cut in the middle": lambda cluster: cluster.misbehave.cut_line("configmaps"),
    "an HTML error page of a proxy": lambda cluster: (
        cluster.misbehave.reply(b"<html>", "configmaps", status=502, content_type="text/html", times=1),
        cluster.misbehave.hang_up("configmaps"),
    ),
    "a wrong content type": lambda cluster: (
        cluster.misbehave.wrong_content_type("configmaps", times=1),
        cluster.misbehave.hang_up("configmaps"),
    ),
    "a connection that is reset": lambda cluster: cluster.misbehave.reset("configmaps"),
    "429": lambda cluster: (
        cluster.misbehave.fail(StatusError(429, "TooManyRequests", "later", retry_after=0), "configmaps", times=1),
        cluster.misbehave.hang_up("configmaps"),
    ),
}


@pytest.mark.parametrize("break_it", BREAKS.values(), ids=BREAKS.keys())
async def test_a_broken_watch_resumes_without_loss_or_repetition(
    break_it: Callable[[Playground], object],
) -> None:
    sink = RecordingSink()
    async with running(sink, wanted=(Wanted("configmaps"), Wanted("secrets"))) as world:
        world.cluster.create("configmaps", a_config_map("a"))
        await world.until_ready()
        break_it(world.cluster)
        world.cluster.create("configmaps", a_config_map("b"))
        world.cluster.delete("configmaps", "a")
        world.cluster.create("secrets", {"metadata": {"name": "s", "namespace": "default"}})
        await sink.until(
            lambda sink: {"added default/b", "deleted default/a", "added default/s"} <= set(sink.delivered())
        )
        await world.until_ready()

    assert sorted(sink.delivered()) == ["added default/a", "added default/b", "added default/s", "deleted default/a"]
    assert {fact.resource.name for fact in world.reported(ListWatchFailed)} <= {"configmaps"}
