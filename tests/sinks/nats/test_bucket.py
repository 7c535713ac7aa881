"""The key-value bucket of a NATS sink, against a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import nats
import pytest
from nats.js.api import StreamConfig
from nats.js.errors import KeyNotFoundError
from nats.js.kv import KeyValue

from bridge.model.change import Op
from bridge.model.record import Delta
from sinks import registry
from sinks.base import ALL_STORED, Sink, SinkContext, SinkUnavailable
from sinks.nats.options import NatsOptions
from tests.cluster.fixtures import MakeStream, fresh_name
from tests.cluster.servers import Nats
from tests.kit.records import CLUSTER_ROLES, a_delta, a_gap, changes
from tests.kit.sinks import failure_of, opened_sink, remembered

CREATE = {"create_stream": {"duplicate_window": 60}}


def the_sink(server: Nats, stream: Any, bucket: str, **options: Any) -> Any:
    subject = f"{stream.prefix}.{{resource}}.{{namespace}}.{{name}}"
    settings = {"servers": [server.url], "stream": stream.name, "subject": subject, "state": bucket, **options}
    return registry.create("live", "nats", NatsOptions.model_validate(settings), "prod")


@asynccontextmanager
async def opened(server: Nats, stream: Any, bucket: str, *, memory: bytes = b"", **options: Any) -> AsyncIterator[Sink]:
    sink = the_sink(server, stream, bucket, **(CREATE | options))
    async with opened_sink(sink, SinkContext(memory=memory)):
        yield sink


@pytest.fixture
def bucket() -> str:
    return fresh_name("bucket")


async def state_in(server: Nats, bucket: str) -> dict[str, bytes | None]:
    """Each key with its value, as a client reads the bucket; None for a deleted key.

    Not by ``watchall``: that ends before the first key if the server has sent all keys before they were processed."""
    async with await nats.connect(server.url) as connection:
        jetstream = connection.jetstream()
        reader, prefix = await jetstream.key_value(bucket), f"$KV.{bucket}."
        subjects = (await jetstream.stream_info(f"KV_{bucket}", subjects_filter=f"{prefix}>")).state.subjects or {}
        return {key: await value_of(reader, key) for key in (each.removeprefix(prefix) for each in subjects)}


async def value_of(reader: KeyValue, key: str) -> bytes | None:
    try:
        return (await reader.get(key)).value
    except KeyNotFoundError:
        return None


async def make_bucket(server: Nats, bucket: str, **config: Any) -> None:
    """As its owner makes it: a stream that permits purges."""
    settings = {"subjects": [f"$KV.{bucket}.>"], "allow_rollup_hdrs": True, **config}
    async with await nats.connect(server.url) as connection:
        await connection.jetstream().add_stream(StreamConfig(name=f"KV_{bucket}", **settings))


def key_of(delta: Delta) -> str:
    return f"prod.core.pods.{delta.key.replace('/', '.')}"


async def test_the_bucket_has_the_newest_form(nats_server: Nats, nats_stream: MakeStream, bucket: str) -> None:
    stream = await nats_stream()
    batch = [*changes(20, keys=4), a_delta(21, key="shop/web-1", op=Op.DELETED)]
    async with opened(nats_server, stream, bucket) as sink:
        assert (await sink.deliver(batch[:10])).created == f"bucket {bucket}"
        assert await sink.deliver([a_gap(1, 2)]) == ALL_STORED
        assert await sink.deliver(batch[10:]) == ALL_STORED

    assert len(await nats_server.read_all(stream.name)) == 22
    wanted = {key_of(each): None if each.op is Op.DELETED else each.body for each in batch}
    assert await state_in(nats_server, bucket) == wanted
    [marker] = [each for each in await nats_server.read_all(f"KV_{bucket}") if not each.data]
    assert (marker.headers["Nats-TTL"], marker.headers["ce-op"]) == ("24h", "deleted"), "markers do not add up"


async def test_a_value_that_is_purged_leaves_no_past(nats_server: Nats, nats_stream: MakeStream, bucket: str) -> None:
    """Even in a bucket of its owner's, which keeps ten values of each key and lets no marker expire."""
    stream = await nats_stream()
    await make_bucket(nats_server, bucket, max_msgs_per_subject=10)
    async with opened(nats_server, stream, bucket) as sink:
        for number in range(1, 4):
            assert await sink.deliver([a_delta(number)]) == ALL_STORED
        assert len(await nats_server.read_all(f"KV_{bucket}")) == 3
        assert await sink.deliver([a_delta(4, op=Op.DELETED)]) == ALL_STORED

    [marker] = await nats_server.read_all(f"KV_{bucket}")
    assert (marker.data, "Nats-TTL" in marker.headers) == (b"", False)


async def test_names_that_keys_may_not_have_are_written(
    nats_server: Nats, nats_stream: MakeStream, bucket: str
) -> None:
    names = ["system:node", "system=3Anode", "a.b", "a_b", "ä b", "."]
    stream = await nats_stream()
    async with opened(nats_server, stream, bucket) as sink:
        batch = [a_delta(n, resource=CLUSTER_ROLES, key=name, body=b'"%d"' % n) for n, name in enumerate(names)]
        assert not (await sink.deliver(batch)).pending

    found = await state_in(nats_server, bucket)
    group = "prod.rbac_authorization_k8s_io.clusterroles._"
    assert set(found.values()) == {record.body for record in batch}, "each name has a key of its own"
    assert found[f"{group}.system=3Anode"] == b'"0"'
    assert found[f"{group}.a_b"] == b'"2"'


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"max_age": 60}, "it forgets states after 60 s (max_age, or TTL): make it keep them for ever"),
        ({"allow_rollup_hdrs": False}, "it refuses purges (allow_rollup_hdrs): deleted objects would stay"),
        ({"max_bytes": 10000}, "when it is full, it forgets the oldest states: make it discard new ones"),
    ],
)
async def test_a_bucket_that_would_lose_states_is_refused(
    nats_server: Nats, nats_stream: MakeStream, bucket: str, config: dict[str, Any], reason: str
) -> None:
    stream = await nats_stream()
    await make_bucket(nats_server, bucket, **config)
    sink = the_sink(nats_server, stream, bucket)

    with pytest.raises(SinkUnavailable, match="bucket") as refused:
        await sink.check()
    assert str(refused.value).endswith(f"bucket {bucket}: {reason}")


async def test_a_missing_bucket_is_named(nats_server: Nats, nats_stream: MakeStream, bucket: str) -> None:
    stream = await nats_stream()
    with pytest.raises(SinkUnavailable, match=f"has no stream KV_{bucket}"):
        await the_sink(nats_server, stream, bucket).check()
    assert "to be created" in await the_sink(nats_server, stream, bucket, **CREATE).check()


async def test_a_bucket_deleted_under_a_sink_is_a_loss(nats_server: Nats, nats_stream: MakeStream, bucket: str) -> None:
    stream = await nats_stream()
    async with opened(nats_server, stream, bucket) as sink:
        await sink.deliver([a_delta(1)])
        async with await nats.connect(nats_server.url) as connection:
            await connection.jetstream().delete_key_value(bucket)
        receipt = await sink.deliver([a_delta(2, key="shop/b")])
        again = await sink.deliver([a_delta(2, key="shop/b")])

    assert (list(receipt.pending), receipt.created) == ([0], f"bucket {bucket}")
    assert "missing" in str(failure_of(receipt))
    assert not again.pending
    assert f"bucket {bucket} was created again" in again.lost
    assert list(await state_in(nats_server, bucket)) == ["prod.core.pods.shop.b"]
    assert len(await nats_server.read_all(stream.name)) == 2
    async with opened(nats_server, stream, bucket, memory=again.memory or b"") as sink:
        assert await sink.deliver([a_delta(3)]) == ALL_STORED


async def purged(server: Nats, bucket: str) -> None:
    async with await nats.connect(server.url) as connection:
        assert await connection.jetstream().purge_stream(f"KV_{bucket}")


async def test_a_purged_bucket_is_a_loss(
    nats_server: Nats, nats_stream: MakeStream, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two runs, and under a sink."""
    monkeypatch.setattr("sinks.nats.bucket.LOOK_INTERVAL", 0.0)
    stream = await nats_stream()
    async with opened(nats_server, stream, bucket) as sink:
        await sink.deliver([a_delta(1, key="shop/a"), a_delta(2, key="shop/b")])
        saved = await remembered(sink, [a_delta(3, key="shop/a", op=Op.DELETED), a_delta(4, key="shop/b")])
    await purged(nats_server, bucket)
    async with opened(nats_server, stream, bucket, memory=saved) as sink:
        receipt, again = await sink.deliver([a_delta(5, key="shop/c")]), await sink.deliver([a_delta(6, key="shop/c")])
        await purged(nats_server, bucket)
        under_it = await sink.deliver([a_delta(7, key="shop/d")])
    for each in (receipt, under_it):
        assert f"bucket {bucket} was purged, and has the objects that change from now on" in each.lost
    assert (receipt.pending, again) == ((), ALL_STORED)


async def test_a_bucket_whose_objects_are_all_deleted_was_not_purged(
    nats_server: Nats, nats_stream: MakeStream, bucket: str
) -> None:
    """As behind the expiry of their markers."""
    stream = await nats_stream()
    async with opened(nats_server, stream, bucket) as sink:
        await sink.deliver([a_delta(1, key="shop/a"), a_delta(2, key="shop/b")])
        deleted = [a_delta(3, key="shop/b", op=Op.DELETED), a_delta(4, key="shop/a", op=Op.DELETED)]
        saved = await remembered(sink, deleted)
    await purged(nats_server, bucket)
    async with opened(nats_server, stream, bucket, memory=saved) as sink:
        assert await sink.deliver([a_delta(5)]) == ALL_STORED


async def test_a_bucket_of_a_known_sink_is_reported(nats_server: Nats, nats_stream: MakeStream, bucket: str) -> None:
    stream = await nats_stream()
    async with opened(nats_server, stream, bucket) as sink:
        saved = await remembered(sink, [a_delta(1)])
    async with opened(nats_server, stream, f"{bucket}-2", memory=saved) as sink:
        receipt = await sink.deliver([a_delta(2)])

    assert f"bucket {bucket}-2 is new to the sink" in receipt.changed
