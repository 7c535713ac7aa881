"""From the configuration to a Plan."""

from __future__ import annotations

from functools import partial
from typing import cast

from bridge.app.plan import Plan, SinkPlan, Wanted
from bridge.informer import Timing
from bridge.kube import ClusterAccess
from bridge.model.resource import Scope
from config.resources import ResourceSettings
from config.schema import Settings, SinkSettings, WatchList
from sinks import registry
from sinks.base import SinkOptions


def plan_of(settings: Settings) -> Plan:
    """What these settings ask for. The sinks they name must be in the registry, which loading them has seen to."""
    cluster = settings.cluster
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
        sinks=tuple(_sink(name, sink, cluster.name) for name, sink in settings.sinks.items()),
        timing=Timing(page_size=settings.watch.page_size),
        watch_list=settings.watch.watch_list is WatchList.AUTO,
        silence_seconds=settings.watch.silence_seconds,
        discovery_seconds=settings.watch.discovery_seconds,
        grace_seconds=settings.shutdown_grace_seconds,
    )


def _wanted(entry: ResourceSettings) -> Wanted:
    namespaces: tuple[str | None, ...] = entry.namespaces or (None,)
    return Wanted(
        entry.resource,
        tuple(Scope(each, entry.label_selector, entry.field_selector) for each in namespaces),
    )


def _sink(name: str, settings: SinkSettings, cluster: str) -> SinkPlan:
    kind = registry.types()[settings.type]
    options = cast(SinkOptions, settings.options)  # config was given the registry's own types
    return SinkPlan(
        name=name,
        type=settings.type,
        make=partial(registry.create, name, settings.type, options, cluster=cluster),
        max_batch=kind.max_batch,
        window=settings.window,
        resync_seconds=settings.resync_seconds,
    )
