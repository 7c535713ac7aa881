"""Facts of bridge.replication: who holds the Lease, how its renewal goes, and who follows."""

from __future__ import annotations

from bridge.telemetry.fact_log import FactLog
from bridge.telemetry.facts import Counts, Fact, Metric

TRANSITIONS = Metric(
    "leader_transitions", "Times that this replica began to lead, or ceased to.", to=("leading", "following")
)
RENEW_SECONDS = Metric(
    "lease_renew_seconds",
    "Seconds from a renewal of the Lease to the API server's answer.",
    kind="histogram",
    # From an idle API server to the patience for a request at the default timing.
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5),
)


class LeaderChanged(Fact, frozen=True):
    """Another replica holds the Lease, or none. Reported when a follower sees it."""

    holder: str
    """Empty: nobody holds the Lease."""
    term: int

    def log(self, log: FactLog) -> None:
        if self.holder:
            log.info("another replica leads; this replica follows it", holder=self.holder, term=self.term)
        else:
            log.info("no replica holds the Lease; this replica may take it")


class LeaseTaken(Fact, frozen=True):
    """This replica holds the Lease, and takes over."""

    sentence = "this replica holds the Lease, and takes over"

    term: int
    before: str
    """The holder before; empty for none."""


class LeadershipBegan(Fact, frozen=True):
    """This replica has taken over, and delivers."""

    term: int
    seconds: float
    """Since the Lease was taken."""

    def log(self, log: FactLog) -> None:
        log.info("this replica leads: it delivers", term=self.term, takeover_seconds=round(self.seconds, 3))

    def counts(self) -> Counts:
        yield (TRANSITIONS, "leading"), 1


class LeadershipLost(Fact, frozen=True):
    """This replica delivers no more, until it holds the Lease again."""

    level = "warning"
    sentence = "this replica leads no more: its deliveries are paused until it holds the Lease again"

    term: int
    reason: str

    def counts(self) -> Counts:
        yield (TRANSITIONS, "following"), 1


class LeadershipReleased(Fact, frozen=True):
    """This replica ends, and has left the Lease to others, after its last delivery."""

    sentence = "the Lease is released after the last delivery"

    term: int

    def counts(self) -> Counts:
        yield (TRANSITIONS, "following"), 1


class LeaseRenewed(Fact, frozen=True):
    """The API server took a renewal."""

    seconds: float
    """From the request to the answer."""

    def log(self, log: FactLog) -> None:
        if log.over("lease"):
            log.info("the Lease is renewed again")
        log.debug("lease renewed", seconds=round(self.seconds, 3))

    def counts(self) -> Counts:
        yield (RENEW_SECONDS,), self.seconds


class LeaseFailed(Fact, frozen=True):
    """A request about the Lease failed, or its answer cannot be used. It is repeated."""

    counter = Metric(
        "lease_failures",
        "Requests about the Lease that failed and are repeated.",
        verb=("get", "create", "update", "watch"),
    )

    verb: str
    """``get``, ``create``, ``update`` or ``watch``, as in RBAC."""
    lease: str
    """``namespace/name``."""
    reason: str
    refused: bool
    """The API server refuses the bridge: an operator must act."""

    def log(self, log: FactLog) -> None:
        advice = ": `kubedelta rbac` prints the rights that it needs" if self.refused else ""
        log.failure("lease", f"{self.verb} of the Lease failed{advice}", self.reason, lease=self.lease)


class LeaseTermDoubted(Fact, frozen=True):
    """Somebody else than an elector has written the term of the Lease: it is passed over."""

    term: int
    newest: int
    """The newest that this replica knows."""

    def log(self, log: FactLog) -> None:
        text = (
            "the annotation kubedelta/term of the Lease is no term of an election, and is passed over: the next renewal"
            " replaces it; find out who may write the Lease"
        )
        log.failure("term", text, "too large", found=self.term, newest=self.newest)


class TookOverLacking(Fact, frozen=True):
    """This replica leads, and was not in sync with the leader before: each sink gets a Gap, and a snapshot."""

    level = "warning"
    sentence = "this replica was not in sync with the leader before: each sink gets a Gap, then a snapshot"

    term: int
    before: str
    """The replica that led before; empty if that is unknown."""


class FollowerInSync(Fact, frozen=True):
    """A follower of this leader is in sync: deliveries wait for it from now on."""

    sentence = "a follower is in sync"

    follower: str
    term: int


class FollowerLost(Fact, frozen=True):
    """A follower of this leader is in sync no more: deliveries go on without it."""

    follower: str
    connected: bool
    """It is too slow. Otherwise its connection has ended."""

    def log(self, log: FactLog) -> None:
        why = "it is too slow" if self.connected else "its connection ended"
        log.warning("a follower is in sync no more", follower=self.follower, reason=why)


class FollowingFailed(Fact, frozen=True):
    """This replica could not follow the leader, and tries again."""

    leader: str
    """Its address."""
    reason: str

    def log(self, log: FactLog) -> None:
        text = "this replica does not follow the leader at the moment"
        log.failure("following", text, self.reason, leader=self.leader)


class BaseCopySent(Fact, frozen=True):
    """A follower of this leader has got a copy of the whole state."""

    follower: str
    bytes: int
    seconds: float

    def log(self, log: FactLog) -> None:
        text = "a follower has got a copy of the whole state"
        log.info(text, follower=self.follower, bytes=self.bytes, seconds=round(self.seconds, 1))
