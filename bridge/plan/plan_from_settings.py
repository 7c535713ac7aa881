"""Makes the plan from validated settings.

The shard of this bridge is the index in the configuration, or the ordinal in the name of its pod. Where neither says
it, the plan carries the reason (``Plan.unknown_shard``), so that commands that need no shard go on and ``preflight``
ends the start.
"""

from __future__ import annotations

import os
import re
import socket
from functools import partial
from pathlib import Path
from typing import cast

from bridge.informer import RecoveryLimits, Timing
from bridge.kube import ClusterAccess, pod_namespace
from bridge.model.formats.content import STATES_BEFORE, Include
from bridge.model.policies import LeaseTiming
from bridge.model.primitives.field_path import FieldPath
from bridge.model.primitives.shard import Shard
from bridge.outbox import Retention
from bridge.plan.plan import ElectionPlan, PagePlan, Plan, SinkPlan, Wanted
from bridge.views.language import CHANGED, OLD_OBJECT
from bridge.views.selection import SelectorText
from config.schema import (
    OnClusterChange,
    PageSettings,
    Settings,
    ShardSettings,
    SinkSettings,
    WatchList,
)
from config.schema.cluster import RecoverStepsSettings
from config.schema.resources import ResourceSettings, rules_of
from sinks import registry
from sinks.base import EventOptions, SinkOptions


class UnknownShard(ValueError):
    """The configuration does not say which shard is meant. The message has what to do, for ``shard.index``."""


def shard_of(settings: ShardSettings) -> Shard | None:
    """None for all objects. Raises UnknownShard."""
    index = settings.index
    if index is not None and index >= settings.of:
        raise UnknownShard(f"found {index}; allowed with shard.of {settings.of}: 0 to {settings.of - 1}")
    if settings.of == 1:
        return None
    return Shard(settings.of, _ordinal() % settings.of if index is None else index, settings.by)


def _ordinal() -> int:
    pod = os.environ.get("POD_NAME") or socket.gethostname()
    if (ordinal := re.search(r"-([0-9]{1,9})$", pod)) is None:
        raise UnknownShard(
            f"it is not set, and {pod!r} is no pod's name with an ordinal, such as kubedelta-2: set it (in the "
            "environment: KUBEDELTA__SHARD__INDEX=2), or run the bridge as a pod of a StatefulSet"
        )
    return int(ordinal[1])


def plan_of(settings: Settings, file: Path | None = None) -> Plan:
    """The plan of these settings. ``file``: their file. Types of sinks must be in the registry, as loading ensures."""
    cluster = settings.cluster
    shard, unknown_shard = _shard(settings)
    return Plan(
        cluster=cluster.name,
        access=ClusterAccess(
            kubeconfig=cluster.kubeconfig,
            context=cluster.context,
            server=cluster.server,
            token_file=cluster.token_file,
            ca_file=cluster.ca_file,
        ),
        wanted=tuple(_wanted(entry) for entry in settings.resources),
        shard=shard,
        unknown_shard=unknown_shard,
        sinks=tuple(_sink(name, sink, cluster.name) for name, sink in settings.sinks.items()),
        timing=Timing(page_size=settings.watch.page_size),
        watch_list=settings.watch.watch_list is WatchList.AUTO,
        recovery=_recovery(settings.watch.recover_steps),
        idle_timeout=settings.watch.silence_seconds,
        latency=settings.latency,
        discovery_seconds=settings.watch.discovery_seconds,
        state=settings.state.directory,
        encryption_key_files=settings.state.encryption.key_files,
        encrypt_new=settings.state.encryption.encrypt_new,
        redaction_key_file=settings.redaction.key_file,
        former_key_files=settings.redaction.former_key_files,
        presets=frozenset(settings.redaction.presets),
        redact=rules_of(settings.redaction.rules),
        retention=_retention(settings),
        restart_on_cluster_change=settings.state.on_cluster_change is OnClusterChange.RESTART,
        grace_seconds=settings.shutdown_grace_seconds,
        # The file itself may be a link that is replaced with each change, as in a mounted ConfigMap.
        file="" if file is None else str(file.parent.resolve() / file.name),
        details_token_file=settings.telemetry.details_token_file,
        listen=(settings.telemetry.listen.host, settings.telemetry.listen.port),
        page=_page(settings.page),
        tracing=None if settings.tracing.endpoint is None else settings.tracing,
        election=_election(settings, shard),
    )


def _shard(settings: Settings) -> tuple[Shard | None, str]:
    """The fields ``shard`` and ``unknown_shard`` of the plan."""
    try:
        return None if settings.shard is None else shard_of(settings.shard), ""
    except UnknownShard as error:
        return None, str(error)


def _page(settings: PageSettings) -> PagePlan | None:
    return None if settings.listen is None else PagePlan(*settings.listen, settings.token_file)


def _recovery(settings: RecoverStepsSettings | None) -> RecoveryLimits | None:
    if settings is None:
        return None
    return RecoveryLimits(most_requests=settings.most_requests, concurrency=settings.concurrency)


def _election(settings: Settings, shard: Shard | None) -> ElectionPlan | None:
    """The replicas of a shard elect among themselves."""
    election = settings.election
    if not election.enabled:
        return None
    return ElectionPlan(
        namespace=election.namespace or pod_namespace(),
        lease=election.lease + ("" if shard is None else shard.suffix),
        name=election.identity or os.environ.get("POD_NAME") or socket.gethostname(),
        timing=LeaseTiming(
            lease_duration=election.lease_duration,
            renew_deadline=election.renew_deadline,
            retry_period=election.retry_period,
        ),
        port=election.port,
        ack_timeout=election.ack_timeout,
    )


def _retention(settings: Settings) -> Retention:
    state = settings.state
    return Retention(
        retain_age=state.retain.age,
        retain_bytes=state.retain.bytes,
        forget_after=state.forget_sinks_after,
        min_free=state.min_free_bytes,
        before=any(_looks_back(cast("SinkOptions", sink.options)) for sink in settings.sinks.values()),
        managers=any(
            Include.MANAGERS in cast("SinkOptions", sink.options).content().include for sink in settings.sinks.values()
        ),
    )


def _looks_back(options: SinkOptions) -> bool:
    content = options.content()
    # A name may also stand in a text, in which case states are read in vain.
    named = any(name in each.text for name in (OLD_OBJECT, CHANGED) for each in content.expressions)
    return named or not STATES_BEFORE.isdisjoint(content.include)


def _wanted(entry: ResourceSettings) -> Wanted:
    ignored = tuple(map(FieldPath.parsed, entry.ignore_changes))
    return Wanted(entry.resource, entry.scopes, rules_of(entry.redact), ignored, entry.recover_steps)


def _sink(name: str, settings: SinkSettings, cluster: str) -> SinkPlan:
    kind = registry.types()[settings.type]
    options = cast("SinkOptions", settings.options)  # Loading validated the options with the registry's types.
    transactions = kind.transactions(options)
    return SinkPlan(
        name=name,
        type=settings.type,
        make=partial(registry.create, name, settings.type, options, cluster=cluster),
        max_batch=kind.max_batch if transactions is None else transactions.records,
        window=settings.window,
        resync_seconds=settings.resync_seconds,
        lanes=kind.lanes(options),
        transactions=transactions,
        start=settings.start,
        snapshot_every=0.0 if settings.snapshot is None else settings.snapshot.every,
        bounds=settings.max_backlog.bounds,
        when_full=settings.when_full,
        on_rejected=settings.on_rejected,
        redact=rules_of(settings.redact),
        select=None if settings.select is None else tuple(SelectorText(**dict(each)) for each in settings.select),
        events=partial(options.events, cluster) if isinstance(options, EventOptions) else None,
        content=options.content(),
        clear_text=options.clear_text(),
        caution=options.caution(),
        examine=partial(kind.examine, options),
        against_shards=options.against_shards,
        claims=partial(kind.claims, options),
    )
