"""``kubedelta actors``: who made the changes, from the API server's audit log to a file of actors."""

from __future__ import annotations

import asyncio
import os
import re
import ssl
from pathlib import Path

from kubedelta_reader.sources import Source, Unavailable
from kubedelta_reader.sources.files import FileSource
from kubedelta_reader.sources.parts import timed_parts_of

from bridge.cli.exits import CommandEnds, Exit
from bridge.cli.process import handle_signals
from bridge.cli.terminal import complain
from bridge.history.actors.actor_log import ActorLog, Naming, names
from bridge.history.actors.collecting import AuditWebhook, Collector, follow
from bridge.http.access import TokenFile, TokenGate
from bridge.model.primitives.printable import counted
from bridge.plan.keys import read_key_file
from bridge.telemetry.facts import discard
from bridge.transform.redaction_key import RedactionKey


def actors(
    *,
    audit_log: Path | None,
    topic: str | None,
    kafka: Path | None,
    listen: tuple[str, int] | None,
    certificate: tuple[Path, Path] | None,
    token: Path | None,
    client_ca: Path | None,
    to: Path,
    cluster: str,
    user: str,
    key: Path | None,
    largest: int,
    keep: int,
    follow: bool,
) -> int:
    """Follows ``audit_log`` or ``topic``, or takes posts at ``listen``, until SIGINT or SIGTERM. ``kafka``: a file of
    librdkafka's properties. Returns NO where events may be missing."""
    try:
        named = names(Naming(user), None if key is None else RedactionKey(read_key_file(key, "--key")))
        log = ActorLog(to, largest=largest, keep=keep)
    except ValueError as error:
        raise CommandEnds(Exit.CONFIG, error) from error
    except OSError as error:
        raise CommandEnds(Exit.CONFIG, f"--to: cannot write {to}: {error.strerror}") from error
    if log.cut:
        complain(f"{to}: its last line was never written whole: {counted(log.cut, 'byte')} cut off")
    collector = Collector(cluster, named, log)
    source: Source | None = None
    if audit_log is not None:
        source = FileSource(audit_log, parts=timed_parts_of)
    elif topic is not None and kafka is not None:
        source = _topic(topic, kafka)
    try:
        if source is not None:
            asyncio.run(_follow(source, collector, wait=follow))
        else:
            asyncio.run(_serve(collector, listen or ("", 0), certificate, token, client_ca))
    except OSError as error:
        # A post that cannot be written is answered, so an error of the server is one of its address.
        where = f"--listen {listen[0]}:{listen[1]}" if listen is not None else error.filename or to
        reason = os.strerror(error.errno) if error.errno else error
        raise CommandEnds(Exit.UNAVAILABLE, f"{where}: {reason}") from error
    except Unavailable as error:
        raise CommandEnds(Exit.UNAVAILABLE, error) from error
    except ValueError as error:
        raise CommandEnds(Exit.CONFIG, f"{to}.position: {error}") from error
    finally:
        log.close()
        complain(_totals(collector))
    missing = list(source.notes) if source is not None and source.lost else []
    if collector.left_out:
        missing.append(f"{counted(collector.left_out, 'line')} too long or damaged, left out")
    for reason in missing:
        complain(f"events may be missing: {reason}")
    return Exit.NO if missing else Exit.OK


def _topic(topic: str, properties: Path) -> Source:
    """Raises CommandEnds."""
    from kubedelta_reader.sources.kafka import KafkaSource

    try:
        lines = [line.strip() for line in properties.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise CommandEnds(Exit.CONFIG, f"--kafka: cannot read {properties}: {error}") from error
    config = {"log_level": "0"}  # librdkafka would write lines of its own to standard error.
    for line in lines:
        if line and not line.startswith("#"):
            name, sign, value = line.partition("=")
            if not sign:
                raise CommandEnds(Exit.CONFIG, f"--kafka: {properties}: a line is name=value, as librdkafka has them")
            config[name.strip()] = value.strip()
    if "bootstrap.servers" not in config:
        raise CommandEnds(Exit.CONFIG, f"--kafka: {properties} names no brokers (bootstrap.servers)")
    return KafkaSource(config, re.compile(re.escape(topic)), named=topic)


def _totals(collector: Collector) -> str:
    shares = ", ".join(f"{count} by {join}" for join, count in sorted(collector.actors.items()))
    unreadable = f"; {counted(collector.unreadable, 'line')} no audit event" if collector.unreadable else ""
    return f"{counted(collector.actors.total(), 'actor')}{': ' if shares else ''}{shares}{unreadable}"


async def _follow(source: Source, collector: Collector, *, wait: bool) -> None:
    ended = asyncio.Event()
    handle_signals(lambda _: ended.set())
    await follow(source, collector, ended, wait=wait, say=complain)


async def _serve(
    collector: Collector,
    listen: tuple[str, int],
    certificate: tuple[Path, Path] | None,
    token: Path | None,
    client_ca: Path | None,
) -> None:
    ended = asyncio.Event()
    handle_signals(lambda _: ended.set())
    webhook = AuditWebhook(collector, listen, _tls(certificate, client_ca), _gate(token), discard)
    async with webhook:
        complain(f"listening on port {webhook.port}")
        await ended.wait()


def _gate(token: Path | None) -> TokenGate | None:
    """Raises CommandEnds for a file that has no token at the start."""
    if token is None:
        return None
    file = TokenFile(token)
    try:
        file.read()
    except ValueError as error:
        raise CommandEnds(Exit.CONFIG, f"--token-file: {error}") from error
    return TokenGate(file, "--token-file")


def _tls(certificate: tuple[Path, Path] | None, client_ca: Path | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        if certificate is not None:
            context.load_cert_chain(*certificate)
        if client_ca is not None:
            context.load_verify_locations(client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
    except OSError as error:
        named = ", ".join(map(str, filter(None, (*(certificate or ()), client_ca))))
        raise CommandEnds(Exit.CONFIG, f"cannot use {named}: {error.strerror or error}") from error
    return context
