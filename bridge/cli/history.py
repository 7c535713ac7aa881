"""``kubedelta history`` and ``kubedelta diff``: the steps of an object, and what changed between two points, from the
file that ``history build`` makes. Neither asks a cluster.

Steps and differences are printed one by one, as the file gives them, so the memory does not grow with their number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import Any, TypeAlias

import apsw
import msgspec
from kubedelta_reader.sources import Unavailable

from bridge.cli.arguments import UsageError, history_file
from bridge.cli.exits import CommandEnds, Exit
from bridge.cli.line_diff import unified_diff
from bridge.cli.manifests import state_as_yaml
from bridge.cli.terminal import Colours, colour_of, complain, say_escaped
from bridge.history import HistoryFile, HistoryStep, PastPoint
from bridge.history.actors.actor_log import actors_in
from bridge.history.actors.audit import Join
from bridge.history.actors.joining import Made, StepOfObject, made_by
from bridge.history.file import KnownGap, StateAt, StatePair, ToldState
from bridge.history.points import in_words, moment
from bridge.history.recorder import RECORDS
from bridge.model.change import Op
from bridge.model.formats.content import Include
from bridge.model.primitives.printable import escaped
from bridge.views.differences import differences

Paint: TypeAlias = Callable[[str, str], str]
"""Escapes a text and colours it."""


DAMAGED = (apsw.Error, msgspec.MsgspecError, UnicodeDecodeError)
"""Errors of a damaged file; nothing else in a history is decoded without a look at what it is."""


@contextmanager
def opened(file: Path | None) -> Iterator[HistoryFile]:
    """The file that the operator names, or the default one. Raises NotInHistory and CommandEnds."""
    path = history_file(file)
    try:
        with HistoryFile.open(path) as history:
            yield history
    except DAMAGED as error:
        raise CommandEnds(Exit.DAMAGED, f"{path}: {error}") from error


def past_point(text: str) -> PastPoint:
    """Raises UsageError."""
    try:
        return PastPoint.parsed(text)
    except ValueError as error:
        raise UsageError(f"kubedelta: {error}") from error


Target: TypeAlias = tuple[str, str | None]
"""A resource as the operator names it, and the name of one of its objects."""


# ── history ──────────────────────────────────────────────────────────────────

_SIGNS: dict[str, str] = {op: op.sign for op in Op}


def show(
    words: Sequence[str], *, namespace: str | None, form: str | None, file: Path | None, actors: Path | None
) -> int:
    """``words``: objects, as for kubectl. ``form``: ``diff``, ``yaml``, ``json``, or None for a line for each step.
    ``actors``: a file of ``kubedelta actors``."""
    objects = objects_of("history", words)
    paint = Colours(on=False).paint if form == "yaml" else Colours.of_output().paint
    with opened(file) as history:
        steps = partial(_steps, history, objects, namespace)
        makers = repeat(None) if actors is None else _makers(steps(), actors)
        for (step, last, missing), made in zip(steps(), makers, strict=False):
            if last is None and form is None:
                since = paint(f"uid {step.uid}; {_told_since(history, step)}", "dim")
                say_escaped(f"{paint(shown(step), 'cyan')} {since}")
            say_escaped(_step_text(step, last, missing, made, form, paint))
    return Exit.OK


_Step: TypeAlias = tuple[HistoryStep, HistoryStep | None, str]
"""A step, the one before it, and why steps between the two may be missing; empty if none are."""


def _steps(history: HistoryFile, objects: Sequence[tuple[str, str]], namespace: str | None) -> Iterator[_Step]:
    last: HistoryStep | None = None
    gaps: Sequence[KnownGap] = ()
    for step in chain.from_iterable(history.steps(*each, namespace) for each in objects):
        if last is None or (last.name, last.uid) != (step.name, step.uid):
            last, gaps = None, history.gaps(step.key)
        yield step, last, _missing(step, last, gaps)
        last = step


def _makers(steps: Iterable[_Step], path: Path) -> Sequence[Made | None]:
    """Who made each of the steps. Raises CommandEnds."""
    by_key: dict[str, list[StepOfObject]] = {}
    for step, last, missing in steps:
        before = None if last is None else last.version
        if last is None and step.op == "added" and step.evidence in ("watched", "recovered"):
            before = ""
        by_key.setdefault(step.key, []).append(
            StepOfObject(
                uid=step.uid,
                version=step.version,
                before=None if missing else before,
                deleted=step.op == "deleted",
                time=moment(step.time),
            )
        )
    try:
        actors = actors_in(path, by_key)
    except ValueError as error:
        raise CommandEnds(Exit.CONFIG, error) from error
    except (OSError, Unavailable) as error:
        raise CommandEnds(Exit.CONFIG, f"--actors: cannot read {path}: {error}") from error
    return [made for key, known in by_key.items() for made in made_by(known, actors[key])]


def targets_of(command: str, words: Sequence[str]) -> Sequence[Target]:
    """As kubectl has it: ``deploy/web svc/web``, ``deploy web api``, ``deploy,svc``. Raises UsageError."""
    if any("/" in word for word in words):
        pairs = [word.partition("/")[::2] for word in words]
        if not all(map(all, pairs)):
            raise UsageError(
                f"kubedelta {command}: either TYPE NAME or TYPE/NAME, such as deploy web or deploy/web svc/web"
            )
        return [(resource, name) for resource, name in pairs]
    resources = words[0].split(",") if words else []
    return [(resource, name) for resource in resources for name in words[1:] or (None,)]


def objects_of(command: str, words: Sequence[str]) -> Sequence[tuple[str, str]]:
    """Targets that have a name each. Raises UsageError."""
    found = [(resource, name) for resource, name in targets_of(command, words) if resource and name]
    if not found:
        raise UsageError(f"kubedelta {command}: name an object as TYPE/NAME or TYPE NAME, such as deploy/web")
    return found


def _told_since(history: HistoryFile, step: HistoryStep) -> str:
    resource = step.name.resource
    told = [each for each in history.coverage() if each.resource == resource]
    which = {RECORDS: "those objects alone that changed since"}
    words = [
        f"told since {in_words(each.time)} with {which.get(each.how, 'all objects of that time')}" for each in told
    ]
    if (watched := history.watched(resource)) is not None:
        words.append(watched.words)
    if history.since:
        words.append(f"what was before {in_words(history.since)} is trimmed")
    return "; ".join(words)


def _missing(step: HistoryStep, last: HistoryStep | None, gaps: Sequence[KnownGap]) -> str:
    """Why steps between the two may be missing; empty if none are."""
    if last is None:
        return ""
    found = [gap.words for gap in gaps if last.sequence < gap.sequence <= step.sequence]
    if step.blind is not None:
        found.append(f"the bridge did not see this change, which may have been made since {in_words(step.blind)}")
    return "; ".join(found)


def _step_text(
    step: HistoryStep, last: HistoryStep | None, missing: str, made: Made | None, form: str | None, paint: Paint
) -> str:
    if form == "json":
        return _json(_document(step, last, missing, made))
    warning = f"! steps may be missing: {missing}" if missing else ""
    paths = changed(last, step) if form is None else None
    head = "\n".join(filter(None, (paint(warning, "red"), _step_line(step, paths, made, paint))))
    if form == "yaml":
        comments = "\n".join(f"# {line}" for line in head.split("\n"))
        return f"---\n{comments}\n{state_as_yaml(step.state)}"
    if form == "diff":
        return "\n".join([head, *unified(last, step, paint)])
    return head


def _step_line(step: HistoryStep, paths: Sequence[str] | None, made: Made | None, paint: Paint) -> str:
    parts = [
        paint(in_words(step.time), "dim"),
        paint(f"{_SIGNS.get(step.op, '*')} {step.op:<7}", colour_of(step.op)),
        paint(f"@{step.version}" if step.version else "", "dim"),
        paint("" if step.evidence == "watched" else step.evidence, "dim"),
        paint(", ".join(paths or ()), "plain"),
    ]
    if managers := _managers(step.managers):
        parts.append(paint(f"by {', '.join(managers)}", "cyan"))
    if made is not None:
        parts.append(paint(_user(made), "cyan"))
    return " ".join(filter(None, parts))


def _user(made: Made) -> str:
    actor = made.actor
    name = actor.user.name or actor.agent
    known = f"{name} as {actor.impersonated.name}" if actor.impersonated else name
    return f"likely user {known}" if made.join is Join.WINDOW else f"user {known}"


def _managers(managers: bytes) -> Sequence[str]:
    found: Any = msgspec.json.decode(managers) if managers else []
    names = [
        (str(each.get("manager", "")), each.get("subresource", "")) for each in found or () if isinstance(each, dict)
    ]
    return [f"{name} ({part})" if part else name for name, part in names]


def _document(step: HistoryStep, last: HistoryStep | None, missing: str, made: Made | None) -> dict[str, Any]:
    return {
        "time": in_words(step.time),
        "key": step.key,
        "uid": step.uid,
        "version": step.version,
        "sequence": step.sequence,
        "op": step.op,
        "evidence": step.evidence,
        "managers": msgspec.Raw(step.managers or b"null"),
        "changed": changed(last, step),
        "missing": missing,
        "actor": None if made is None else {"join": made.join, "request": made.actor},
        "object": msgspec.Raw(step.state or b"null"),
    }


# ── diff ─────────────────────────────────────────────────────────────────────


def diff(
    before: str, after: str, words: Sequence[str], *, namespace: str | None, form: str | None, file: Path | None
) -> int:
    """``words``: resources or objects, as for kubectl; none for all. Returns NO with differences, as diff does."""
    points = past_point(before), past_point(after)
    targets = targets_of("diff", words)
    paint = Colours.of_output().paint
    found = False
    with opened(file) as history:
        if namespace is not None and not targets:
            history.expect_namespace(namespace)
        for resource, name in targets:
            history.expect_known(resource, name, namespace)
        for point in points:
            complain(f"{point.text}: {history.bound(point).text}")
        everything: Sequence[tuple[str | None, str | None]] = [(None, None)]
        for asked, called in targets or everything:
            for pair in history.compared(*points, resource=asked, namespace=namespace, name=called):
                found = True
                say_escaped(_pair_text(pair, form, paint))
    return Exit.NO if found else Exit.OK


def _pair_text(pair: StatePair, form: str | None, paint: Paint) -> str:
    if form == "json":
        return _json(_pair_document(pair))
    head = _pair_line(pair, changed(*pair) if form is None else None, paint)
    return "\n".join([head, *unified(*pair, paint)]) if form == "diff" else head


def _pair_line(pair: StatePair, paths: Sequence[str] | None, paint: Paint) -> str:
    there = [each for each in pair if each is not None]
    op = "added" if pair.before is None else "deleted" if pair.after is None else "updated"
    parts = [
        paint(_SIGNS[op], colour_of(op)),
        paint(shown(there[0]), "cyan"),
        paint(" → ".join(f"@{each.version}" for each in there), "dim"),
        paint(", ".join(paths or ()), "plain"),
    ]
    parts += [paint(f"(uncertain: {each.uncertain})", "red") for each in there if each.uncertain]
    return " ".join(filter(None, parts))


def _pair_document(pair: StatePair) -> dict[str, Any]:
    return {
        "key": next(each.key for each in pair if each is not None),
        "before": _state_document(pair.before),
        "after": _state_document(pair.after),
        "changed": changed(*pair),
    }


def _state_document(found: StateAt | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "uid": found.uid,
        "version": found.version,
        "sequence": found.sequence,
        "time": in_words(found.time),
        "uncertain": found.uncertain,
        "object": msgspec.Raw(found.state or b"null"),
    }


# ── States as text ───────────────────────────────────────────────────────────


def changed(before: ToldState | None, after: ToldState | None) -> Sequence[str] | None:
    """The paths that differ, without the API server's counters; None without two states."""
    if before is None or after is None:
        return None
    return differences(before.state, after.state, (Include.CHANGED,)).changed or ()


def unified(before: ToldState | None, after: ToldState | None, paint: Paint) -> Iterator[str]:
    """A unified diff of the YAML of both, coloured."""
    was, now = ([] if each is None else state_as_yaml(each.state).split("\n") for each in (before, after))
    for line in unified_diff(was, now):
        colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "plain")
        yield paint(line, colour)


def _json(document: Any) -> str:
    return escaped(msgspec.json.encode(document).decode(errors="replace"))


def shown(found: ToldState) -> str:
    """kubectl's name of the resource, and the object's."""
    return f"{found.name.resource} {found.name.key}"
