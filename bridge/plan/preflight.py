"""Mistakes that no retry can mend, found before the first watch and without any network.

A configuration that can never work ends the start: to retry looked like an endless outage of the destination. Every
type of sink is asked about its files and settings (``SinkType.examine``, ``claims``), and the way to the cluster reads
its token and certificates at once. The same mistake later, when a file is renewed, is ``SinkUnavailable`` and is tried
again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path
from urllib.parse import urlsplit

from bridge.http.access import TokenFile
from bridge.model.primitives.network import is_loopback
from bridge.model.record import MOST_SELECTIONS
from bridge.plan.plan import Plan, SinkPlan
from bridge.views.content_maker import WrongContent, compile_content
from bridge.views.language import Cel, MissingLibrary
from bridge.views.selection import WrongSelection, compile_selection
from config.schema import TracingSettings
from sinks.base import WrongOption, read_secret
from sinks.secret_files import tls_context

_LEAST_TOKEN = 16
"""Characters of the page's token, which changes a running bridge, and may be guessed at without a limit."""

_MOST_DEADLINE = 2 / 3 + 1e-9
_JITTER = 1.2
"""As client-go: the longest wait between two attempts, in retry periods."""


def preflight(plan: Plan) -> Sequence[tuple[str, str]]:
    """Returns (path of the option, reason) for each mistake. Reads files; blocks."""
    return [*wrong_on_this_machine(plan), *wrong_in_file(plan)]


def wrong_in_file(plan: Plan) -> Sequence[tuple[str, str]]:
    """The mistakes for which the configuration itself must change."""
    selections = wrong_selections(plan.sinks)
    return [*wrong_election(plan), *selections, *wrong_contents(plan.sinks), *_meetings(plan.sinks)]


def wrong_on_this_machine(plan: Plan) -> Sequence[tuple[str, str]]:
    """The mistakes in options that name files, whose mending may be a change of these files alone."""
    found = list(_token("telemetry.details_token_file", plan.details_token_file))
    found += _token("page.token_file", None if plan.page is None else plan.page.token_file, least=_LEAST_TOKEN)
    found += _tracing(plan.tracing)
    found += _shard(plan)
    found += [(f"sinks.{sink.name}.{wrong.option}", wrong.reason) for sink in plan.sinks for wrong in sink.examine()]
    return found


def _shard(plan: Plan) -> Iterator[tuple[str, str]]:
    if plan.unknown_shard:
        yield "shard.index", plan.unknown_shard
    if plan.shard is not None:
        found = [(sink.name, wrong) for sink in plan.sinks for wrong in sink.against_shards(plan.shard)]
        yield from ((f"sinks.{name}.{wrong.option}", wrong.reason) for name, wrong in found)


def _token(option: str, file: Path | None, least: int = 1) -> Iterator[tuple[str, str]]:
    if file is None:
        return
    try:
        token = TokenFile(file).read()
    except ValueError as error:
        yield option, str(error)
    else:
        if len(token) < least:
            yield option, f"the token in {file} has {len(token)} characters; allowed: at least {least}"


def _tracing(plan: TracingSettings | None) -> Iterator[tuple[str, str]]:
    if plan is None:
        return
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None:
        yield "tracing", "it needs OpenTelemetry: install kubedelta[otel], or leave out endpoint"
    url = urlsplit(plan.endpoint or "")
    if plan.header_files and url.scheme == "http" and not is_loopback(url.hostname or ""):
        yield "tracing.header_files", "endpoint is http://: anybody on the way can read the headers; use https://"
    if (plan.cert_file is None) != (plan.key_file is None):
        yield "tracing", "cert_file and key_file belong together"
    try:
        for name, path in plan.header_files.items():
            read_secret(path, f"tracing.header_files.{name}")
        tls_context(plan.ca_file, plan.cert_file, plan.key_file)
    except WrongOption as error:
        yield error.option if error.option.startswith("tracing.") else f"tracing.{error.option}", error.reason


def wrong_election(plan: Plan) -> Iterator[tuple[str, str]]:
    """Finds durations under which two replicas could deliver at the same time, and replicas that would differ."""
    if plan.election is None:
        return
    timing = plan.election.timing
    if timing.renew_deadline > timing.lease_duration * _MOST_DEADLINE:
        most = f"two thirds of election.lease_duration, {timing.lease_duration * _MOST_DEADLINE:.1f} s"
        yield "election.renew_deadline", f"found {timing.renew_deadline:g} s; allowed: at most {most}"
    if timing.retry_period * _JITTER >= timing.renew_deadline:
        most = f"election.renew_deadline divided by {_JITTER}, {timing.renew_deadline / _JITTER:.1f} s"
        yield "election.retry_period", f"found {timing.retry_period:g} s; allowed: less than {most}"
    if find_spec("cryptography") is None:
        yield "election", "it needs a library for certificates: install kubedelta[encryption]"
    if not plan.election.namespace:
        yield "election.namespace", "it is needed outside of a pod: the namespace of the Lease"
    if plan.redaction_key_file is None:
        reason = "an election needs it: by this key replicas know each other, and make the same digest of a value"
        yield "redaction.key_file", f"{reason}; name a file with the same key on all replicas"


def wrong_selections(sinks: Sequence[SinkPlan]) -> Iterator[tuple[str, str]]:
    """Compiles the expressions, so that a mistake in one ends the start, although the meaning of the resources' names
    is not known yet."""
    language = cache(Cel)
    selecting = [sink for sink in sinks if sink.select is not None]
    for sink in selecting:
        path = f"sinks.{sink.name}.select"
        try:
            compile_selection(sink.select or (), path, language)
        except WrongSelection as error:
            yield from _lines(error)
        except MissingLibrary as error:
            yield path, str(error)
    if len(selecting) > MOST_SELECTIONS:
        reason = f"found {len(selecting)} sinks with select; allowed: at most {MOST_SELECTIONS}"
        yield f"sinks.{selecting[MOST_SELECTIONS].name}.select", reason


def wrong_contents(sinks: Sequence[SinkPlan]) -> Iterator[tuple[str, str]]:
    """Compiles the expressions in the sinks' own options."""
    language = cache(Cel)
    for sink in sinks:
        try:
            compile_content(sink.content, f"sinks.{sink.name}", language)
        except WrongContent as error:
            yield from _lines(error)
        except MissingLibrary as error:
            yield f"sinks.{sink.name}.{sink.content.expressions[0].option}", str(error)


def _lines(error: WrongSelection | WrongContent) -> Iterator[tuple[str, str]]:
    for line in str(error).split("\n"):
        where, _, reason = line.partition(": ")
        yield where, reason


def _meetings(sinks: Sequence[SinkPlan]) -> Iterator[tuple[str, str]]:
    """Finds two sinks that write to the same file or topic, although a sink must be its only writer."""
    claimed = [(sink, tuple(sink.claims())) for sink in sinks]
    for (one, its), (other, others) in combinations(claimed, 2):
        both = [(a, b) for a in its for b in others if a.destination == b.destination and (a.exclusive or b.exclusive)]
        if both:
            (first, second), *_ = both
            words = (first if first.exclusive else second).description
            yield f"sinks.{other.name}", f"sinks.{one.name} writes to the same: {words}; give each its own"
