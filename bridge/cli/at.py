"""``kubedelta at`` and ``kubedelta restore``: objects as they were at a point of a history. Neither asks a cluster.

``get`` prints them as kubectl does: a table has the columns of the kind, with the ages of that time. ``--serve`` gives
them to kubectl and other clients, by a server on the loopback that changes nothing. ``restore`` prints a manifest.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import msgspec

from bridge.cli.arguments import UsageError
from bridge.cli.exits import CommandEnds, Exit
from bridge.cli.history import Target, objects_of, opened, past_point, shown, targets_of
from bridge.cli.manifests import as_yaml, manifest_in, state_as_yaml
from bridge.cli.process import handle_signals
from bridge.cli.terminal import complain, flush, plain, pretty, say, size, table
from bridge.history import HistoryFile, NotInHistory, PastPoint, StateAt
from bridge.history.file import KeptResource
from bridge.history.points import in_words, moment
from bridge.history.restore import CannotBeRestored, Restored, restored
from bridge.model.primitives.printable import counted
from bridge.playground import PastCluster, PastObject, columns_of, past_kind, past_selection
from bridge.playground.objects import crds
from bridge.playground.objects.catalogue import Kind

_MOST_BYTES = 1 << 30
"""Of the states that a server holds."""


def at(
    point: str,
    words: Sequence[str] | None,
    *,
    namespace: str | None,
    form: str | None,
    labels: str,
    fields: str,
    play: float | None,
    file: Path | None,
) -> int:
    """``words``: resources or objects, as for kubectl; None to serve all. ``form``: ``yaml``, ``json``, ``name``,
    ``wide``, or None for a table. ``labels`` and ``fields``: kubectl's selectors; empty for all. ``play``: hours that
    pass in an hour; None while the time stands still."""
    targets = None if words is None else targets_of("at", words)
    with ExitStack() as reading:
        then = reading.enter_context(_seen(file, point, namespace))
        if targets is not None:
            return _get(then, targets, form, labels, fields)
        asyncio.run(_serve(then, play or 0.0, reading))
        return Exit.OK


@dataclass(frozen=True, slots=True)
class _Then:
    """A history at a point of the past."""

    history: HistoryFile
    point: PastPoint
    namespace: str | None
    """None for all."""
    moment: datetime
    """Of the point, for ages."""

    def states(self, resource: str | None = None, name: str | None = None) -> Iterator[StateAt]:
        return self.history.at(self.point, resource=resource, namespace=self.namespace, name=name)

    def kind(self, kept: KeptResource) -> Kind:
        """Of a resource, by its definition of that time where the file has it."""
        definition = None
        if any(each.name == crds.NAME for each in self.history.resources):
            found = next(self.history.at(self.point, resource=crds.NAME, name=kept.name), None)
            definition = None if found is None else manifest_in(found.state)
        some = next(self.history.at(self.point, resource=kept.name), None)
        return past_kind(
            kept.group,
            kept.plural,
            kept.kind,
            kept.api_version.rpartition("/")[2],
            namespaced=some is None or bool(some.name.namespace),
            definition=definition,
        )


@contextmanager
def _seen(file: Path | None, point: str, namespace: str | None) -> Iterator[_Then]:
    """Says how exact the point is. Raises CommandEnds for a file with several clusters."""
    with opened(file) as history:
        then = past_point(point)
        clusters = sorted({each.cluster for each in history.resources})
        if len(clusters) > 1:
            known = f"the file has {', '.join(map(plain, clusters))}"
            raise CommandEnds(
                Exit.NO, f"{known}: build a history from a sink that has one of them; history and diff read all"
            )
        bound = history.bound(then)
        complain(bound.text)
        yield _Then(history, then, namespace, moment(bound.time))


# ── get ──────────────────────────────────────────────────────────────────────


def _get(then: _Then, targets: Sequence[Target], form: str | None, labels: str, fields: str) -> int:
    asked = [_Asked(then.history.meant(resource)[0], name) for resource, name in targets]
    for kept in dict.fromkeys(each.kept for each in asked):
        watched = then.history.watched(kept.name, then.point.time)
        if watched is not None and not watched.whole:
            complain(f"{kept.name}: {plain(watched.words)}")
    chosen = _chosen(then, asked, labels, fields) if labels or fields else None
    found: set[_Asked] = set()
    uncertain: Counter[str] = Counter()

    def states() -> Iterator[tuple[KeptResource, StateAt]]:
        for kept, name in asked:
            for each in then.states(kept.name, name):
                if chosen is None or chosen[kept](_past_object(each)):
                    found.add(_Asked(kept, each.name.name))
                    if each.uncertain:
                        uncertain[each.uncertain] += 1
                    yield kept, each

    if form in ("yaml", "json"):
        is_alone = len(asked) == 1 and asked[0].name is not None
        _print_documents((each for _, each in states()), alone=is_alone, as_json=form == "json")
    elif form == "name":
        for kept, each in states():
            say(plain(_typed_name(kept, each)))
    else:
        with_type = len({each.kept for each in asked}) > 1
        for number, (kept, group) in enumerate(groupby(states(), lambda each: each[0])):
            if number:
                say("")
            _print_table(then, kept, (each for _, each in group), wide=form == "wide", with_type=with_type)
    for reason, count in uncertain.items():
        complain(f"uncertain: {counted(count, 'object')}: {plain(reason)}")
    missing = [one for one in asked if one.name is not None and one not in found]
    for one in missing:
        complain(_why_missing(then, one))
    if not missing and not found:
        complain(f"No resources found{f' in {then.namespace} namespace' if then.namespace else ''}.")
    return Exit.NO if missing else Exit.OK


class _Asked(NamedTuple):
    kept: KeptResource
    name: str | None


def _chosen(
    then: _Then, asked: Sequence[_Asked], labels: str, fields: str
) -> Mapping[KeptResource, Callable[[PastObject], bool]]:
    """Of each resource, which of its objects the selectors choose. Raises UsageError."""
    if any(each.name is not None for each in asked):
        raise UsageError("kubedelta at: either names or a selector")
    try:
        return {each.kept: past_selection(then.kind(each.kept), labels, fields) for each in asked}
    except ValueError as error:
        raise UsageError(f"kubedelta at: {error}") from error


def _why_missing(then: _Then, asked: _Asked) -> str:
    try:
        then.history.expect_known(asked.kept.name, asked.name, then.namespace)
    except NotInHistory as error:
        return plain(str(error))
    return f'{asked.kept.name} "{plain(asked.name or "")}" did not exist then'


def _typed_name(kept: KeptResource, state: StateAt) -> str:
    return f"{kept.kind.lower()}{f'.{kept.group}' if kept.group else ''}/{state.name.name}"


def _print_table(then: _Then, kept: KeptResource, states: Iterator[StateAt], *, wide: bool, with_type: bool) -> None:
    """``with_type``: the name has the type in front of it, as where kubectl prints several."""
    kind = then.kind(kept)
    columns = columns_of(kind, kind.versions[0])
    shown = [number for number, each in enumerate(columns.columns) if wide or not each.priority]
    with_namespace = kind.namespaced and then.namespace is None
    rows = []
    for each in states:
        cells = columns.cells(manifest_in(each.state) or {"metadata": {"name": each.name.name}}, then.moment)
        texts = ["<none>" if cells[number] is None else str(cells[number]) for number in shown]
        if with_type:
            texts[0] = _typed_name(kept, each)
        rows.append([each.name.namespace, *texts] if with_namespace else texts)
    header = [columns.columns[number].name.upper() for number in shown]
    say(table(["NAMESPACE", *header] if with_namespace else header, rows))


def _print_documents(states: Iterator[StateAt], *, alone: bool, as_json: bool) -> None:
    """The object that was asked for by its name, or a List, which is printed as it is read."""

    def printed(found: StateAt) -> str:
        state = found.state or b"null"
        return pretty(state.decode(errors="replace")) if as_json else state_as_yaml(state)

    if alone:
        for each in states:
            say(printed(each))
        return
    say('{"apiVersion": "v1", "kind": "List", "metadata": {}, "items": [' if as_json else "apiVersion: v1\nitems:")
    is_empty = True
    for each in states:
        if as_json:
            say(("" if is_empty else ", ") + printed(each))
        else:
            say("- " + printed(each).replace("\n", "\n  "))
        is_empty = False
    say("]}" if as_json else ("  []\n" if is_empty else "") + "kind: List\nmetadata: {}")


# ── serve ────────────────────────────────────────────────────────────────────


class _Clock:
    """Begins at a moment, and passes at a speed; 0 stands still."""

    def __init__(self, first: datetime, speed: float) -> None:
        self._first = first
        self._speed = speed
        self.begin()

    def begin(self) -> None:
        self._began = time.monotonic()

    def now(self) -> datetime:
        return self._first + timedelta(seconds=(time.monotonic() - self._began) * self._speed)

    def until(self, micros: int) -> float:
        """Seconds until a time, in microseconds since 1970."""
        return max(0.0, (moment(micros) - self.now()).total_seconds() / self._speed)


async def _serve(then: _Then, speed: float, reading: ExitStack) -> None:
    """``speed``: hours that pass in an hour; 0 stands still. ``reading`` closes the history."""
    if find_spec("cryptography") is None:
        raise CommandEnds(Exit.CONFIG, "--serve needs a library for certificates: install kubedelta[encryption]")
    from bridge.http.certificates import self_signed

    clock = _Clock(then.moment, speed)
    context, certificate = self_signed("kubedelta at", None, ["127.0.0.1"])
    token = secrets.token_urlsafe(32)
    kinds = [then.kind(each) for each in then.history.resources]
    past = PastCluster(kinds, token=token, tls=context, now=clock.now)
    past.load(_loaded(then.states()))
    if not speed:
        reading.close()  # An open read would keep a build from making its write-ahead log smaller.
    clock.begin()
    ended = asyncio.Event()
    handle_signals(lambda _: ended.set())
    # The folder is a private one, and the token is nobody's but the operator's.
    with TemporaryDirectory(prefix="kubedelta-at-") as folder:
        async with past:
            kubeconfig = Path(folder) / "kubeconfig"
            _write_kubeconfig(kubeconfig, past.url, token, certificate, then.namespace)
            say(f"export KUBECONFIG={kubeconfig}")
            flush()
            complain(f"the cluster as it was at {clock.now():%Y-%m-%dT%H:%M:%SZ}, read-only, until Ctrl-C")
            async with asyncio.TaskGroup() as tasks:
                playing = tasks.create_task(_play(then, past, clock)) if speed else None
                await ended.wait()
                if playing is not None:
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
        if each.state:
            yield _past_object(each)
        else:
            without += 1
    if without:
        complain(f"left out: {counted(without, 'object')} without a state")
    if uncertain:
        complain(f"uncertain: {counted(uncertain, 'object')} (kubedelta at … get tells why)")


def _past_object(found: StateAt) -> PastObject:
    return PastObject(found.name, found.version, found.state)


async def _play(then: _Then, past: PastCluster, clock: _Clock) -> None:
    """What happened next, at the clock's pace."""
    for step in then.history.changes(then.point):
        if then.namespace not in (None, step.name.namespace):
            continue
        await asyncio.sleep(clock.until(step.time))
        state = None if step.op == "deleted" else step.state
        if state != b"":
            past.change(PastObject(step.name, step.version, state))
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
    path.touch(0o600, exist_ok=False)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=2))


# ── restore ──────────────────────────────────────────────────────────────────


def restore(
    words: Sequence[str], *, point: str, namespace: str | None, with_placeholders: bool, file: Path | None
) -> int:
    """``words``: objects, as for kubectl. Exits with 1, and prints none, if one of them cannot be restored, and with 2
    where other states may have been at the point, or before it."""
    objects = objects_of("restore", words)
    with _seen(file, point, namespace) as then:
        states = [_restored_state(then, *each) for each in objects]
    manifests = [(state, _manifest(state, placeholders=with_placeholders), _doubts(state)) for state in states]
    for number, (state, made, doubts) in enumerate(manifests):
        if number:
            say("---")
        for line in (_title(state), *doubts, *made.notes):
            say(f"# {plain(line)}")
        say(as_yaml(made.manifest))
        for doubt in doubts:
            complain(plain(doubt))
    return Exit.UNCERTAIN if any(doubts for *_, doubts in manifests) else Exit.OK


def _restored_state(then: _Then, resource: str, name: str) -> StateAt:
    """Raises NotInHistory, and UsageError where the name is in several namespaces."""
    then.history.expect_known(resource, name, then.namespace)
    (kept,) = then.history.meant(resource)
    found = list(then.states(kept.name, name))
    if len(found) > 1:
        places = ", ".join(each.name.namespace for each in found)
        raise UsageError(f"kubedelta restore: {kept.name} {name} is in several namespaces ({places}): add -n")
    if not found:
        raise NotInHistory(f'{kept.name} "{name}" did not exist then; kubedelta history {resource}/{name} has all')
    return found[0]


def _manifest(state: StateAt, *, placeholders: bool) -> Restored:
    """Raises CommandEnds."""
    try:
        return restored(state.state, placeholders=placeholders)
    except CannotBeRestored as error:
        more = [*error.paths, "--with-placeholders prints it with comments in their place"] if error.paths else []
        raise CommandEnds(Exit.NO, "\n  ".join(map(plain, [f"{_title(state)}: {error}", *more]))) from error


def _doubts(state: StateAt) -> list[str]:
    """Why the object may have had other states, at the point or before it."""
    doubts = [f"uncertain: {state.uncertain}"] if state.uncertain else []
    if state.blind is not None:
        doubts.append("the bridge did not see this state come: steps before it may be missing")
    return doubts


def _title(state: StateAt) -> str:
    return f"{shown(state)}, version {state.version}, seen at {in_words(state.time)}"
