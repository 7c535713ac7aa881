"""Headers on the wire: as the library writes them, at less cost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nats.aio.client import Client

from sinks.nats import connection
from sinks.nats.connection import HeadersClient

names = st.from_regex(r"[A-Za-z][A-Za-z-]{0,20}", fullmatch=True)
values = st.from_regex(r"[!-~]{1,40}", fullmatch=True)


async def written(connected: Client, headers: dict[str, str] | None) -> list[bytes]:
    """What it would send for one message."""
    connected._status = Client.CONNECTED
    connected._max_payload = 1000
    await connected.publish("k8s.pods", b"{}", reply="inbox.1", headers=headers)
    assert connected.stats["out_msgs"] == 1
    return list(connected._pending)


@given(headers=st.none() | st.dictionaries(names, values, min_size=1, max_size=20))
async def test_a_message_is_written_as_the_library_writes_it(headers: dict[str, str] | None) -> None:
    assert await written(HeadersClient(), headers) == await written(Client(), headers)


async def test_the_library_still_asks_for_what_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise it takes the headers apart as ever: right, and slow."""
    monkeypatch.setattr(connection, "hpub_cmd", lambda *_: b"asked")

    assert await written(HeadersClient(), {"a": "b"}) == [b"asked"]
