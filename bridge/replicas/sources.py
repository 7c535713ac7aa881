"""The addresses of replicas, as the Lease has them, and whether the copy of the leader fits this replica (pure).

Whoever may write the Lease chooses the address; the token is sent there. So it must be HTTPS, where the certificate
proves by the authorities of ``ca_file`` that it is a replica's; or loopback; or the operator allows plain HTTP.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from bridge.model.primitives.addresses import is_loopback
from bridge.model.primitives.shard import Shard
from bridge.model.versions.frontier import Frontier
from bridge.plan.equal_settings import KEYS, differing

PATH = "/copy"
LETTERS = "/letters"
SHARD = "Kubedelta-Shard"
"""The header of a copy with the name of its shard; empty for all objects."""
_BODIES = (KEYS, "redaction", "shard")
"""Sections that decide what is in the bodies of the log, or which objects it has."""


class Unfit(Exception):
    """There is no copy for this replica. The message is for the operator, and has no secret."""


def source_of(found: Frontier, cluster: str, settings: Mapping[str, str], *, allow_http: bool) -> str:
    """The URL of the copy. ``cluster`` and ``settings``: of this replica. Raises Unfit."""
    if not found.address:
        raise Unfit("the leader offers none: election.base_copy is not set there")
    if found.cluster != cluster:
        raise Unfit(f"the Lease is of a bridge for cluster {found.cluster}")
    if differs := [each for each in differing(settings, found.settings) if each in _BODIES]:
        raise Unfit(f"the leader has another configuration: {', '.join(differs)}")
    return url_of(found.address, allow_http=allow_http) + PATH


def expect_shard(named: str, shard: Shard | None) -> None:
    """``named``: by the header. ``shard``: of this replica. Raises Unfit."""
    mine = "" if shard is None else shard.name
    if named != mine:
        raise Unfit(
            f"a replica of {named or 'all objects'} answers at this address, and this one is of {mine or 'all objects'}"
            ": give each a url of its own"
        )


def url_of(address: str, *, allow_http: bool) -> str:
    """The URL of a replica, without a slash at its end. Raises Unfit."""
    url = address.rstrip("/")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
        host.encode("idna")  # As a connection does, which raises no error of aiohttp for it.
    except ValueError:
        raise Unfit("the Lease has no URL of the leader") from None
    if parts.scheme not in ("https", "http") or not host or parts.username is not None or parts.query or parts.fragment:
        raise Unfit("the Lease has no URL of the leader")
    if parts.scheme == "http" and not (allow_http or is_loopback(host)):
        raise Unfit("the leader's address is plain HTTP, and election.base_copy.allow_http is false")
    return url
