"""A file against a model that keeps every state: whatever the states are, and wherever the file was trimmed."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from bridge.history import HistoryFile
from bridge.history.recorder import HistoryBounds
from tests.bridge.history.streams import Stream, build, point, time_of
from tests.kit.examples import examples

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.sampled_from("abcdé"), inside, max_size=4),
    max_leaves=12,
)
STATES = st.dictionaries(st.sampled_from("abcdé"), JSON, max_size=5)


class Change(NamedTuple):
    name: str
    state: dict[str, Any]
    kind: str


CHANGES = st.lists(
    st.builds(
        Change, st.sampled_from("xyz"), STATES, st.sampled_from(["updated"] * 8 + ["deleted", "left", "replaced"])
    ),
    min_size=1,
    max_size=70,
)


class Model:
    """What was told, in the stream's own words."""

    def __init__(self, changes: list[Change]) -> None:
        self.stream = Stream()
        self.after: list[dict[str, Any]] = [{}]
        """Of each number, the states behind its record."""
        self.steps: list[tuple[int, str, str, Any]] = []
        """Number, name, op and the state behind it."""
        uids = dict.fromkeys("xyz", 1)
        alive: dict[str, Any] = {}
        for name, content, kind in changes:
            number = self.stream.number + 1
            state = {**content, "version": number}
            if kind == "replaced":
                if name in alive:
                    self.steps.append((number, name, "deleted", alive[name]))
                uids[name] += 1
            op = "deleted" if kind in ("deleted", "left") else "updated"
            evidence = "unselected" if kind == "left" else "watched"
            self.stream.tell(name, state, op, uid=f"{name}-{uids[name]}", evidence=evidence)
            self.steps.append((number, name, op, state))
            if op == "deleted":
                alive.pop(name, None)
                uids[name] += kind == "deleted"
            else:
                alive[name] = state
            self.after.append(dict(alive))


@examples(60, deadline=None)
@given(
    changes=CHANGES,
    keep=st.sampled_from([3.0, 25.0, 1e9]),
    max_bytes=st.sampled_from([1, 150_000, 1 << 40]),
    batch=st.integers(1, 20),
)
def test_every_answer_is_that_of_the_model_wherever_the_file_was_trimmed(
    changes: list[Change], keep: float, max_bytes: int, batch: int
) -> None:
    model = Model(changes)
    with TemporaryDirectory() as folder:
        path = build(Path(folder) / "k8s.db", model.stream.events, HistoryBounds(keep, max_bytes), batch=batch)
        with HistoryFile.open(path) as history:
            begin = next(n for n in range(model.stream.number + 1) if time_of(n) >= max(history.since, time_of(1)))
            for number in range(begin, model.stream.number + 1):
                found = {each.key[-1]: msgspec.json.decode(each.state) for each in history.at(point(number))}
                assert found == model.after[number]
                behind = [
                    (step.sequence, step.key[-1], step.op, msgspec.json.decode(step.state))
                    for step in history.changes(point(number))
                ]
                assert behind == [step for step in model.steps if step[0] > number]
            if keep == 1e9 and max_bytes == 1 << 40:
                for name in {step[1] for step in model.steps}:
                    told = list(history.steps("pods", name))
                    assert [(step.sequence, step.op) for step in told] == [
                        (number, op) for number, called, op, _ in model.steps if called == name
                    ]
                    assert [msgspec.json.decode(step.state) for step in told] == [
                        state for _, called, _, state in model.steps if called == name
                    ]
