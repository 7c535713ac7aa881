"""What only a stream can do to a sink."""

from __future__ import annotations

from pathlib import Path

from tests.cluster.fixtures import StartNats
from tests.contracts.destinations import AStream
from tests.contracts.rules import Results, assert_holds, deliver
from tests.kit.records import a_delta

MAX_PAYLOAD = 20_000
"""Bytes."""


async def test_what_just_fits_is_stored_wherever_it_stands_in_a_batch(start_nats: StartNats, tmp_path: Path) -> None:
    """In a batch a message also carries the name of the one before it, and with that it may be too large."""
    (tmp_path / "nats.conf").write_text(f"max_payload: {MAX_PAYLOAD}\n")
    destination = AStream(start_nats("-c", str(tmp_path / "nats.conf")))
    await destination.prepare(None)
    fits, too_large = 100, MAX_PAYLOAD
    results = Results()
    async with destination.opened() as sink:
        while too_large - fits > 1:
            size = (fits + too_large) // 2
            probe = a_delta(1000 + size, body=b"{}".ljust(size))
            assert await deliver(sink, [probe], results) == []
            if probe.id in results.stored:
                fits = size
            else:
                too_large = size
        batch = [a_delta(n, body=b"{}".ljust(fits if n % 3 == 0 else 10)) for n in range(50_001, 50_031)]
        assert await deliver(sink, batch, results) == []

    assert {record.id for record in batch} <= results.stored
    assert_holds((await destination.stored())[-30:], batch, [])
