"""The vectors that sinks have encoded are what the sinks encode today."""

from __future__ import annotations

import json

from tests.reader.make_vectors import written


def test_the_committed_vectors_are_those_that_are_made() -> None:
    for path, text in written():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: python -m tests.reader.make_vectors"


def test_the_histories_have_what_they_are_made_for() -> None:
    steps = {step.split()[0] for _, text in written() for each in json.loads(text)["given"] for step in each["steps"]}

    assert steps >= {"Changed", "Deleted", "Left", "Repeated", "Older", "GapFound", "SnapshotBegan", "SnapshotEnded"}
