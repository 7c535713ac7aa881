"""``kubedelta at`` and ``kubedelta restore``: objects as they were at a point of a history. Neither asks a cluster.

``get`` prints them as kubectl does: a table has the columns of the kind, with the ages of that time. ``--serve`` gives
them to kubectl and other clients, by a server on the loopback that changes nothing. ``restore`` prints a manifest.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from bridge.cli.arguments import UsageError
from bridge.cli.exits import CommandEnds, Exit
from bridge.cli.history import opened, past_point, target_of
from bridge.cli.manifests import as_yaml
from bridge.cli.process import handle_signals
from bridge.cli.terminal import complain, flush, plain, pretty, say, size, table
from bridge.history import HistoryFile, NotInHistory, PastPoint, StateAt
from bridge.history.names import KeptResource
from bridge.history.points import in_words
from bridge.history.restore import CannotBeRestored, Restored, restored
from bridge.model.formats.object_paths import ObjectName
from bridge.model.primitives.printable import counted
from bridge.playground import PastCluster, PastObject, columns_of, past_kind
from bridge.playground.objects import crds
from bridge.playground.objects.catalogue import Kind

_MOST_BYTES = 1 << 30
"""Of the states that a server holds."""


def at(
    point: str,
    target: Sequence[str] | None,
    *,
    namespace: str | None,
    form: str | None,
    play: float | None,
    file: Path | None,
) -> int:
    """``target``: ``deploy/web``, or the resource and names; None to serve all. ``form``: ``yaml``, ``json``, ``name``,
    ``wide``, or None for a table. ``play``: hours that pass in an hour; None while the time stands still."""
    with ExitStack() as reading:
        history = reading.enter_context(opened(file))
        then = past_point(point)
        _demand_one_cluster(history)
        bound = history.bound(then)
        complain(bound.text)
        moment = datetime.fromtimestamp(bound.time / 1_000_000, UTC)
        if target is not None:
            return _get(history, then, moment, target, namespace, form)
        asyncio.run(_serve(history, then, moment, namespace, play, reading))
        return Exit.OK


def _demand_one_cluster(history: HistoryFile) -> None:
    clusters = sorted({each.cluster for each in history.resources})
    if len(clusters) > 1:
        raise CommandEnds(Exit.NO, f"a history of one cluster is needed; the file has {', '.join(clusters)}")


def _kind(history: HistoryFile, point: PastPoint, kept: KeptResource) -> Kind:
    """The kind of a resource, by its definition of that time where the file has it."""
    definition = None
    if any(each.name == crds.NAME for each in history.resources):
        found = next(history.at(point, resource=crds.NAME, name=kept.name), None)
        definition = msgspec.json.decode(found.state) if found is not None and found.state else None
    some = next(history.at(point, resource=kept.name), None)
    return past_kind(
        kept.group,
        kept.plural,
        kept.kind,
        kept.api_version.rpartition("/")[2],
        namespaced=some is None or bool(ObjectName.of(some.key).namespace),
        definition=definition,
    )


# ── get ──────────────────────────────────────────────────────────────────────


def _get(
    history: HistoryFile,
    point: PastPoint,
    moment: datetime,
    target: Sequence[str],
    namespace: str | None,
    form: str | None,
) -> int:
    """``moment``: of the point, for ages."""
    resource, *names = target[0].split("/", 1) if len(target) == 1 else target
    (kept,) = history.meant(resource)
    found = (
        each
        for name in names or (None,)
        for each in history.at(point, resource=kept.name, namespace=namespace, name=name)
    )
    printed = _Printed()
    states = printed.noted(found)
    if form in ("yaml", "json"):
        _print_documents(states, alone=len(names) == 1, as_json=form == "json")
    elif form == "name":
        for each in states:
            say(f"{kept.kind.lower()}{f'.{kept.group}' if kept.group else ''}/{ObjectName.of(each.key).name}")
    else:
        _print_table(states, _kind(history, point, kept), moment, namespace, wide=form == "wide")
    for reason, count in printed.uncertain.items():
        complain(f"uncertain: {counted(count, 'object')}: {plain(reason)}")
    missing = [name for name in names if name not in printed.names]
    for name in missing:
        complain(f'{kept.name} "{plain(name)}" did not exist then')
    if not names and not printed.names:
        complain(f"No resources found{f' in {namespace} namespace' if namespace else ''}.")
    return Exit.NO if missing else Exit.OK


class _Printed:
    """What the lines behind the objects need."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.uncertain: Counter[str] = Counter()

    def noted(self, states: Iterator[StateAt]) -> Iterator[StateAt]:
        for each in states:
            self.names.add(ObjectName.of(each.key).name)
            if each.uncertain:
                self.uncertain[each.uncertain] += 1
            yield each


def _print_table(states: Iterator[StateAt], kind: Kind, now: datetime, namespace: str | None, *, wide: bool) -> None:
    columns = columns_of(kind, kind.versions[0])
    shown = [number for number, each in enumerate(columns.columns) if wide or not each.priority]
    with_namespace = kind.namespaced and namespace is None
    rows = []
    for each in states:
        name = ObjectName.of(each.key)
        manifest = msgspec.json.decode(each.state) if each.state else {"metadata": {"name": name.name}}
        cells = columns.cells(manifest, now)
        texts = ["<none>" if cells[number] is None else str(cells[number]) for number in shown]
        rows.append([name.namespace, *texts] if with_namespace else texts)
    if rows:
        header = [columns.columns[number].name.upper() for number in shown]
        say(table(["NAMESPACE", *header] if with_namespace else header, rows))


def _print_documents(states: Iterator[StateAt], *, alone: bool, as_json: bool) -> None:
    """The object that was asked for by its name, or a List, which is printed as it is read."""
    if alone:
        for each in states:
            say(pretty(_text(each)) if as_json else as_yaml(msgspec.json.decode(_text(each))))
        return
    say('{"apiVersion": "v1", "kind": "List", "metadata": {}, "items": [' if as_json else "apiVersion: v1\nitems:")
    first = next(states, None)
    for number, each in enumerate(chain([] if first is None else [first], states)):
        if as_json:
            say((", " if number else "") + pretty(_text(each)))
        else:
            say("- " + as_yaml(msgspec.json.decode(_text(each))).replace("\n", "\n  "))
    say("]}" if as_json else "kind: List\nmetadata: {}" if first else "  []\nkind: List\nmetadata: {}")


def _text(found: StateAt) -> str:
    return (found.state or b"null").decode(errors="replace")


# ── serve ────────────────────────────────────────────────────────────────────


class _Clock:
    """Begins at a moment, and passes at a speed; 0 stands still."""

    def __init__(self, moment: datetime, speed: float) -> None:
        self._moment = moment
        self._speed = speed
        self._began = time.monotonic()

    def begin(self) -> None:
        self._began = time.monotonic()

    def now(self) -> datetime:
        return self._moment + timedelta(seconds=(time.monotonic() - self._began) * self._speed)

    def until(self, micros: int) -> float:
        """Seconds until a time, in microseconds since 1970."""
        later = micros / 1_000_000 - self.now().timestamp()
        return max(0.0, later / self._speed)


async def _serve(
    history: HistoryFile,
    point: PastPoint,
    moment: datetime,
    namespace: str | None,
    play: float | None,
    reading: ExitStack,
) -> None:
    """``reading`` closes the history."""
    if find_spec("cryptography") is None:
        raise CommandEnds(Exit.CONFIG, "--serve needs a library for certificates: install kubedelta[encryption]")
    from bridge.http.certificates import self_signed

    clock = _Clock(moment, play or 0.0)
    context, certificate = self_signed("kubedelta at", None, ["127.0.0.1"])
    token = secrets.token_urlsafe(32)
    kinds = [_kind(history, point, each) for each in history.resources]
    past = PastCluster(kinds, token=token, tls=context, now=clock.now)
    past.load(_loaded(history.at(point, namespace=namespace)))
    if not play:
        reading.close()  # An open read would keep a build from making its write-ahead log smaller.
    clock.begin()
    ended = asyncio.Event()
    handle_signals(lambda _: ended.set())
    # The folder is a private one, and the token is nobody's but the operator's.
    with TemporaryDirectory(prefix="kubedelta-at-") as folder:
        async with past, asyncio.TaskGroup() as tasks:
            kubeconfig = Path(folder) / "kubeconfig"
            _write_kubeconfig(kubeconfig, past.url, token, certificate, namespace)
            say(f"export KUBECONFIG={kubeconfig}")
            flush()
            complain(f"the cluster as it was at {clock.now():%Y-%m-%dT%H:%M:%SZ}, read-only, until Ctrl-C")
            playing = play and tasks.create_task(_play(history, point, namespace, past, clock))
            await ended.wait()
            if playing:
                playing.cancel()


def _loaded(states: Iterator[StateAt]) -> Iterator[PastObject]:
    """Raises CommandEnds beyond ``_MOST_BYTES``."""
    total = without = uncertain = 0
    for each in states:
        total += len(each.state)
        if total > _MOST_BYTES:
            why = f"the objects of that time are more than {size(_MOST_BYTES)}"
            raise CommandEnds(Exit.NO, f"{why}: choose a namespace with -n")
        uncertain += bool(each.uncertain)
        name = ObjectName.of(each.key)
        if each.state:
            yield PastObject(name.resource, name.namespace, name.name, each.version, each.state)
        else:
            without += 1
    if without:
        complain(f"left out: {counted(without, 'object')} without a state")
    if uncertain:
        complain(f"uncertain: {counted(uncertain, 'object')} (kubedelta at … get tells why)")


async def _play(
    history: HistoryFile, point: PastPoint, namespace: str | None, past: PastCluster, clock: _Clock
) -> None:
    """What happened next, at the clock's pace."""
    for step in history.changes(point):
        name = ObjectName.of(step.key)
        if namespace not in (None, name.namespace):
            continue
        await asyncio.sleep(clock.until(step.time))
        state = None if step.op == "deleted" else step.state
        if state != b"":
            past.change(PastObject(name.resource, name.namespace, name.name, step.version, state))
    complain("the end of the history; its last states stay")


def _write_kubeconfig(path: Path, url: str, token: str, certificate: bytes, namespace: str | None) -> None:
    """JSON is YAML. Nobody else can read it, from its first byte on."""
    name = "kubedelta-at"
    cluster = {"server": url, "certificate-authority-data": certificate}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": namespace or "default"}}],
        "current-context": name,
    }
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(document), indent=2))


# ── restore ──────────────────────────────────────────────────────────────────


def restore(
    words: Sequence[str], *, point: str, namespace: str | None, with_placeholders: bool, file: Path | None
) -> int:
    """``words``: ``deploy/web``, or the resource and the name. Exits with 1 for what cannot be restored, and with 2
    where other states may have been at the point, or before it."""
    resource, name = target_of("restore", words)
    with opened(file) as history:
        then = past_point(point)
        _demand_one_cluster(history)
        complain(history.bound(then).text)
        (kept,) = history.meant(resource)
        found = list(history.at(then, resource=kept.name, namespace=namespace, name=name))
        if len(found) > 1:
            places = ", ".join(ObjectName.of(each.key).namespace for each in found)
            raise UsageError(f"kubedelta restore: {kept.name} {name} is in several namespaces ({places}): add -n")
        if not found:
            raise NotInHistory(f'{kept.name} "{name}" did not exist then; kubedelta history {resource}/{name} has all')
        (state,) = found
    doubts = _doubts(state)
    try:
        made = restored(state.state, placeholders=with_placeholders)
    except CannotBeRestored as error:
        more = [*error.paths, "--with-placeholders prints it with comments in their place"] if error.paths else []
        raise CommandEnds(Exit.NO, "\n  ".join([f"{_title(state)}: {error}", *more])) from error
    _print_manifest(state, made, doubts)
    for doubt in doubts:
        complain(plain(doubt))
    return Exit.UNCERTAIN if doubts else Exit.OK


def _doubts(state: StateAt) -> list[str]:
    """Why the object may have had other states, at the point or before it."""
    doubts = [f"uncertain: {state.uncertain}"] if state.uncertain else []
    if state.blind is not None:
        doubts.append("the bridge did not see this state come: steps before it may be missing")
    return doubts


def _title(state: StateAt) -> str:
    name = ObjectName.of(state.key)
    return f"{name.resource} {name.key}, version {state.version}, seen at {in_words(state.time)}"


def _print_manifest(state: StateAt, made: Restored, doubts: Sequence[str]) -> None:
    for line in (_title(state), *doubts, *made.notes):
        say(f"# {plain(line)}")
    say(as_yaml(made.manifest))
