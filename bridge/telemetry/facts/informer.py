"""Facts of bridge.informer: lists, watches, and the server's history."""

from __future__ import annotations

from enum import StrEnum

from bridge.telemetry.fact_log import FactLog
from bridge.telemetry.facts import Counts, Fact, Metric, ResourceFact


class InformerStarted(ResourceFact, frozen=True):
    """The informer begins with a list, or resumes its watch at the saved position. The series of its resource begin."""

    level = "debug"
    sentence = "informer started"


class InformerSynced(ResourceFact, frozen=True):
    objects: int

    def log(self, log: FactLog) -> None:
        log.forget(("unknown", self.resource.name))
        log.info("synced", **self.named, objects=self.objects)


class InformerStopped(ResourceFact, frozen=True):
    """The resource went away, or the bridge is ending. With the last informer of a resource, its series end."""

    def log(self, log: FactLog) -> None:
        for trouble in ("refused", "failed", "unreadable", "bare"):
            log.forget((trouble, self.resource, self.scope))
        log.info("informer stopped", **self.named)


# ── Lists ────────────────────────────────────────────────────────────────────

LISTS = Metric("reflector_lists", "Complete lists.", "resource")
RELISTS = Metric("reflector_relists", "Complete lists after the first list.", "resource")
LIST_SECONDS = Metric("reflector_list_duration_seconds", "Seconds that a list took.", "resource", kind="summary")


class ListCompleted(ResourceFact, frozen=True):
    """A complete list was received and compared with the store."""

    objects: int
    seconds: float
    relist: bool

    def log(self, log: FactLog) -> None:
        _log_served(self, log)
        write = log.info if self.relist else log.debug
        text = "listed again" if self.relist else "listed"
        write(text, **self.named, objects=self.objects, seconds=round(self.seconds, 3))

    def counts(self) -> Counts:
        name = self.resource.name
        yield (LISTS, name), 1
        yield (RELISTS, name), self.relist
        yield (LIST_SECONDS, name), self.seconds


class RecoveryEnd(StrEnum):
    """Why the recovery of the steps behind a list ended."""

    COMPLETE = "complete"
    """Every step of every object that the list showed to be changed was found."""
    FORGOTTEN = "forgotten"
    """The API server has forgotten older versions (410: etcd was compacted)."""
    REQUESTS = "requests"
    """``watch.recover_steps.most_requests`` was reached."""
    SECONDS = "seconds"
    """It took too long: the watch must not wait until its own version is forgotten."""
    BYTES = "bytes"
    """The steps of a batch took too much memory."""
    FAILED = "failed"
    """The API server refused a request, or failed or was too busy several times in a row."""
    UNSUPPORTED = "unsupported"
    """The server cannot list an object at a version, and is not asked again."""
    CONTRADICTED = "contradicted"
    """The answers do not belong to the history of the list. The found steps are dropped."""
    STOPPED = "stopped"
    """The informer was ended meanwhile."""


RECOVERIES = Metric(
    "reflector_recoveries",
    "Lists whose steps were looked for in the API server's history.",
    "resource",
    outcome=RecoveryEnd,
)
RECOVERED = Metric("reflector_recovered_steps", "Steps found there, exported as recovered.", "resource")
RECOVERY_REQUESTS = Metric("reflector_recovery_requests", "Lists of single objects for that.", "resource")


class StepsRecovered(ResourceFact, frozen=True):
    """The steps between the states of a list and the known states were looked for in the API server's history."""

    objects: int
    """Objects that the list showed to be changed, and objects that came and went."""
    steps: int
    """Changes that are exported as ``recovered``."""
    requests: int
    seconds: float
    ended_by: RecoveryEnd
    reason: str = ""
    """The server's words, where a request failed."""

    def log(self, log: FactLog) -> None:
        log.write(
            "info" if self.objects else "debug",
            "steps that no watch announced were looked for",
            **self.named,
            objects=self.objects,
            recovered=self.steps,
            requests=self.requests,
            seconds=round(self.seconds, 3),
            outcome=self.ended_by.value,
            **({"reason": self.reason} if self.reason else {}),
        )

    def counts(self) -> Counts:
        name = self.resource.name
        yield (RECOVERIES, name, self.ended_by), 1
        yield (RECOVERED, name), self.steps
        yield (RECOVERY_REQUESTS, name), self.requests


IGNORED = Metric("changes_ignored", "Updates of ignored paths alone, which were not exported.", "resource")


class ChangesIgnored(ResourceFact, frozen=True):
    """Updates of ignored paths alone, which are not exported."""

    count: int

    def log(self, log: FactLog) -> None:
        if log.is_debug():
            log.debug("changes ignored", **self.named, count=self.count)

    def counts(self) -> Counts:
        yield (IGNORED, self.resource.name), self.count


# ── Watches ──────────────────────────────────────────────────────────────────

SHORT_WATCHES = Metric("reflector_short_watches", "Watches that ended within a second, without an event.", "resource")
WATCH_SECONDS = Metric(
    "reflector_watch_duration_seconds", "Seconds that ended watches were open.", "resource", kind="summary"
)
SHORT_WATCH = 1.0
"""Seconds. A watch that ends sooner, without an event, is client-go's short watch."""


class WatchOpened(ResourceFact, frozen=True):
    counter = Metric("reflector_watches", "Watches that the API server accepted.", "resource")

    def log(self, log: FactLog) -> None:
        _log_served(self, log)
        if log.over(("failed", self.resource, self.scope)):
            log.info("watch is live", **self.named)
        log.debug("watch opened", **self.named)


class WatchEnded(ResourceFact, frozen=True):
    reason: str
    seconds: float
    events: int

    def log(self, log: FactLog) -> None:
        seconds = round(self.seconds, 3)
        log.debug("watch ended", **self.named, reason=self.reason, events=self.events, seconds=seconds)

    def counts(self) -> Counts:
        name = self.resource.name
        yield (WATCH_SECONDS, name), self.seconds
        yield (SHORT_WATCHES, name), self.seconds < SHORT_WATCH and not self.events


# ── Failures ─────────────────────────────────────────────────────────────────


class ListWatchFailed(ResourceFact, frozen=True):
    """A list or a watch failed. The next attempt is in ``retry_after`` seconds."""

    counter = Metric(
        "reflector_failures", "Lists and watches that failed and are retried.", "resource", verb=("list", "watch")
    )

    verb: str
    reason: str
    retry_after: float

    def log(self, log: FactLog) -> None:
        subject = ("failed", self.resource, self.scope)
        log.failure(subject, f"{self.verb} failed", self.reason, **self.named, retry_in=round(self.retry_after, 1))


_ADVICE = {
    401: "the API server does not accept the bridge's credentials: check cluster.token_file, or the kubeconfig",
    403: 'the bridge may not list and watch the resource: grant its account the verbs "list" and "watch" on it',
    404: "the API server does not serve the resource: check its name under resources, or install its CRD",
    405: "the resource cannot be listed and watched: remove it from resources",
}
"""Status of a refusal → its cause, and the next action."""
_RECOVERED = {
    401: "the API server accepts the bridge's credentials",
    403: "the bridge may list and watch the resource",
    404: "the API server serves the resource",
    405: "the resource can be listed and watched",
}


class ResourceRefused(ResourceFact, frozen=True):
    """The API server refuses this resource (401, 403, 404, 405): the operator must act."""

    counter = Metric(
        "reflector_refusals",
        "Lists and watches that the API server refused.",
        "resource",
        status=("401", "403", "404", "405"),  # Others get a series when they occur.
    )

    status: int
    reason: str
    retry_after: float

    def log(self, log: FactLog) -> None:
        before = log.change(("refused", self.resource, self.scope), self.status)
        log.write(
            "debug" if before == self.status else "warning",
            f"refused: {_ADVICE.get(self.status, 'see status and reason')}",
            **self.named,
            status=self.status,
            reason=self.reason,
            retry_in=round(self.retry_after, 1),
        )


def _log_served(fact: ListCompleted | WatchOpened, log: FactLog) -> None:
    """Logs the end of a refusal."""
    status = log.forget(("refused", fact.resource, fact.scope))
    if isinstance(status, int):
        log.info(_RECOVERED.get(status, "the API server serves the resource"), **fact.named)


class InputUnreadable(ResourceFact, frozen=True):
    """An item or a line of the API server could not be read, and was skipped. A relist follows."""

    counter = Metric("reflector_unreadable", "Items and lines that could not be read, and were skipped.", "resource")

    reason: str

    def log(self, log: FactLog) -> None:
        text = "an item or a line of the API server cannot be read, and was skipped"
        log.failure(("unreadable", self.resource, self.scope), text, self.reason, **self.named)


class ObjectLeftBare(ResourceFact, frozen=True):
    """A version of an object is nested too deeply, too large, or not to be redacted: only its identity is exported. Or
    its name is too long: it is left out."""

    counter = Metric(
        "reflector_bare_objects",
        "Objects too large, too deep or not to be redacted (their identity was exported), or left out by name.",
        "resource",
    )

    reason: str
    """Names the object."""

    def log(self, log: FactLog) -> None:
        text = "an object is too large, too deep, not to be redacted, or its name is too long: not exported whole"
        log.failure(("bare", self.resource, self.scope), text, self.reason, **self.named)


# ── The server's history ─────────────────────────────────────────────────────


class HistoryChecked(Fact, frozen=True):
    """The result of a check, after an interrupted watch, whether the API server's history is the known history."""

    counter = Metric(
        "history_proofs",
        "Checks whether the API server's history is the known history.",
        outcome=("same", "other", "unknown", "failed"),
    )

    store: str
    """The aggregated server; empty for the API server's own store."""
    outcome: str
    """``same``, ``other``, ``unknown`` (the API server has forgotten the proof: all objects are compared) or ``failed``
    (the check is repeated)."""
    reason: str

    def log(self, log: FactLog) -> None:
        subject = ("history", self.store)
        named = {"store": self.store} if self.store else {}
        match self.outcome:
            case "same":
                log.over(subject)
                log.debug("the API server's history is the known history", **named)
            case "unknown":
                text = "the API server has forgotten the proof of its history: comparing all objects"
                log.info(text, **named, reason=self.reason)
            case "other":
                text = "the API server has another history (a restored store): comparing all objects in a new epoch"
                log.warning(text, **named, reason=self.reason)
            case _:
                text = "the API server's history cannot be proven yet: watches wait for the proof"
                log.failure(subject, text, self.reason, **named)


class VersionsRanBackwards(ResourceFact, frozen=True):
    """The API server's versions are older than before: its store was restored. A new epoch began."""

    level = "warning"
    sentence = "the API server's store was restored: comparing all objects with it, in a new epoch"
    counter = Metric("reflector_version_resets", "Times the API server's versions ran backwards.", "resource")

    was: str
    now: str
