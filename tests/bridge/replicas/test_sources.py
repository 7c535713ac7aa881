"""The address of the leader, as anybody who may write the Lease can choose it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from bridge.model.versions.frontier import Frontier
from bridge.replicas.sources import Unfit, source_of

OWN = {"redaction.key_file": "1", "redaction": "2", "shard": "3", "sinks.audit": "4"}
FOUND = Frontier(1, "prod", 3, "kubedelta-0/1", "1.0", 7, settings=OWN, address="https://kubedelta-0:8082")


def source(address: str, *, allow_http: bool = False) -> str:
    return source_of(replace(FOUND, address=address), "prod", OWN, allow_http=allow_http)


@pytest.mark.parametrize("address", ["https://kubedelta-0:8082", "https://[::1]:8082/", "http://127.0.0.1:8082"])
def test_a_safe_address_is_used(address: str) -> None:
    assert source(address) == address.rstrip("/") + "/copy"


@pytest.mark.parametrize("address", ["http://kubedelta-0:8082", "http://127.0.0.1.example:80", "http://10.0.0.1"])
def test_the_token_never_crosses_a_network_in_the_clear(address: str) -> None:
    with pytest.raises(Unfit, match=r"plain HTTP, and election\.base_copy\.allow_http is false"):
        source(address)
    assert source(address, allow_http=True) == f"{address}/copy"


@pytest.mark.parametrize(
    "address",
    [
        "ftp://a",
        "kubedelta-0:8082",
        "https://",
        "https://a:b@c",
        "https://a?b=c",
        "https://a#b",
        "https://a:99999",
        "//a",
        "https://a..b",
        f"https://{'a' * 64}",
    ],
)
def test_other_texts_are_no_address(address: str) -> None:
    with pytest.raises(Unfit, match="no URL of the leader"):
        source(address)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (replace(FOUND, address=""), "election.base_copy is not set there"),
        (replace(FOUND, cluster="other"), "for cluster other"),
        (replace(FOUND, settings=OWN | {"redaction": "9"}), "another configuration: redaction$"),
        (replace(FOUND, settings=OWN | {"redaction.key_file": "9"}), "another configuration: redaction.key_file$"),
        (replace(FOUND, settings=OWN | {"shard": "9"}), "another configuration: shard$"),
    ],
)
def test_a_copy_with_other_bodies_is_not_for_us(found: Frontier, why: str) -> None:
    with pytest.raises(Unfit, match=why):
        source_of(found, "prod", OWN, allow_http=False)


def test_another_sink_is_no_reason() -> None:
    assert source_of(replace(FOUND, settings=OWN | {"sinks.audit": "9"}), "prod", OWN, allow_http=False)
