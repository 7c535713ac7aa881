"""A sink's own redaction meets an object that it cannot redact."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from bridge.delivery.sink_pipeline import RunningSinks
from bridge.kube import ClusterAccess
from bridge.model.change import Change, ChangeBatch, Evidence, Op
from bridge.model.object import ApiObject
from bridge.model.policies import RedactionRule, StartPolicy
from bridge.model.primitives.field_path import FieldPath
from bridge.model.record import Delta, unfit
from bridge.model.resource import Scope
from bridge.plan.plan import CurrentResources, Plan, SinkPlan
from bridge.telemetry.facts import Fact
from bridge.telemetry.facts.delivery import RecordRejected
from bridge.transform.redaction import Effort, PathRules, Redaction
from bridge.transform.redaction_key import RedactionKey
from tests.kit.pipelines import opened_feeds
from tests.kit.records import PODS
from tests.kit.sinks import RecordingSink

REDACTION = Redaction((RedactionKey(b"k" * 32),))
BAD = b'{"data":{"password":"hunter2-hunter2","bad":true}}'
GOOD = b'{"data":{"password":"hunter2-hunter2"}}'


def added(name: str, body: bytes) -> Change:
    return Change(Op.ADDED, Evidence.WATCHED, ApiObject(f"shop/{name}", f"uid-{name}", "1", body))


@pytest.mark.parametrize("error", [KeyError, RecursionError, MemoryError, TypeError])
async def test_it_is_a_dead_letter_and_its_neighbours_arrive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    real = PathRules.redacted

    def fails(self: PathRules, body: bytes, effort: Effort) -> bytes:
        if body == BAD:
            raise error("hunter2-hunter2")
        return real(self, body, effort)

    monkeypatch.setattr(PathRules, "redacted", fails)
    sink, facts = RecordingSink(), list[Fact]()
    rule = RedactionRule((FieldPath.parsed("data.password"),))
    chat = SinkPlan(name="chat", type="fake", make=lambda: sink, max_batch=10, redact=(rule,))
    feeds = await opened_feeds(tmp_path, {"chat": StartPolicy.NOW}, report=facts.append)
    async with feeds.outbox as outbox:
        await outbox.ledger.adopt(PODS, [Scope()])
        plan = Plan(cluster="test", access=ClusterAccess(), wanted=(), sinks=(chat,), state=tmp_path)
        pipeline = RunningSinks(plan, feeds, CurrentResources(), REDACTION, facts.append).pipelines["chat"]
        changes = [added("a", GOOD), added("b", BAD), added("c", GOOD)]
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(pipeline.worker.run())
            await outbox.append(ChangeBatch(PODS, Scope(), changes, "1"))
            await pipeline.worker.wait_idle()
            assert sink.delivered() == ["added shop/a", "added shop/c"]
            await pipeline.dead_letters.retry(None)
            running.cancel()
        [letter] = await pipeline.dead_letters.next_retries(10)

    [rejected] = [each for each in facts if isinstance(each, RecordRejected)]
    assert (rejected.sink, rejected.resource, rejected.key, rejected.number) == ("chat", "pods", "shop/b", 1)
    assert rejected.reason.startswith("redact: ")
    assert "hunter2" not in rejected.reason
    left = letter.record
    assert isinstance(left, Delta)
    assert (left.key, unfit(left)) == ("shop/b", ""), "a retry delivers it"
    assert msgspec.json.decode(left.body)["metadata"]["name"] == "b", "its identity, without a value"
    assert b"hunter2" not in left.body + b"".join(each.body for each in sink.deltas)
