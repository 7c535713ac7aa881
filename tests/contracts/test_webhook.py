"""What only an operator of an endpoint can do to a sink."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sinks.base import SinkUnavailable
from tests.contracts.destinations import AnEndpoint
from tests.contracts.rules import Told, deliver
from tests.kit.records import changes


@pytest.fixture
async def endpoint() -> AsyncIterator[AnEndpoint]:
    endpoint = AnEndpoint()
    await endpoint.prepare(None)
    yield endpoint
    await endpoint.remove()


@pytest.mark.parametrize("secret", ["Bearer hush\nBearer hush", "Bearer hüsh", "Bearer hush\x00"])
async def test_a_secret_that_is_no_header_is_trouble_and_is_not_told(
    endpoint: AnEndpoint, tmp_path: Path, secret: str
) -> None:
    file = tmp_path / "token"
    file.write_text("Bearer hush")
    told = Told()
    async with endpoint.opened(header_files={"Authorization": file}) as sink:
        assert await deliver(sink, changes(3), told) == []
        file.write_text(secret)
        assert await deliver(sink, changes(3, first=4), told) == changes(3, first=4)
        file.write_text("Bearer hush")
        assert await deliver(sink, changes(3, first=4), told) == []

    assert told.troubles == [f"{file} is no value for the header Authorization: it is not one line of printable ASCII"]
    file.write_text(secret)
    for call in ("open", "check"):
        sink = endpoint.sink(header_files={"Authorization": file})
        with pytest.raises(SinkUnavailable, match="is no value for the header Authorization"):
            await getattr(sink, call)()
        await sink.close()


async def test_an_address_that_the_client_does_not_take_is_trouble(endpoint: AnEndpoint) -> None:
    url = {"url": "http://xn--/"}
    told = Told()
    async with endpoint.opened(**url) as sink:
        assert await deliver(sink, changes(3), told) == changes(3)
    sink = endpoint.sink(**url)
    with pytest.raises(SinkUnavailable, match="is no address that can be asked; see url"):
        await sink.check()
    await sink.close()

    assert told.troubles == ["http://xn-- is no address that can be asked; see url"]
