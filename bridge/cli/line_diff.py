"""A unified diff of lines, whose time is linear in their number whoever wrote them.

difflib's takes the cube of it where lines repeat: 8,000 lines of a ConfigMap, which any tenant may write, take 40
seconds. So lines that both texts have once are matched first (patience diff), and difflib gets what is between two of
them. Where that is long, it is shown as replaced.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import Match, SequenceMatcher

from bridge.views.differences import equal_ends

_CONTEXT = 3
"""Equal lines around a change."""
_MOST_COMPARED = 50
"""Lines of each text between two that are matched."""


def unified_diff(was: Sequence[str], now: Sequence[str]) -> Iterator[str]:
    """Hunks, without the names of files; nothing for equal texts."""
    for group in _Patience(was, now).get_grouped_opcodes(_CONTEXT):
        _, first, _, begin, _ = group[0]
        _, _, last, _, end = group[-1]
        yield f"@@ -{_range(first, last)} +{_range(begin, end)} @@"
        for tag, from_, to, others_from, others_to in group:
            if tag == "equal":
                yield from (f" {line}" for line in was[from_:to])
            else:
                yield from (f"-{line}" for line in was[from_:to])
                yield from (f"+{line}" for line in now[others_from:others_to])


def _range(start: int, end: int) -> str:
    """As difflib writes it."""
    count = end - start
    return f"{start + 1}" if count == 1 else f"{start + (count > 0)},{count}"


class _Patience(SequenceMatcher[str]):
    def __init__(self, was: Sequence[str], now: Sequence[str]) -> None:
        super().__init__(None, was, now, autojunk=False)
        self._was = was
        self._now = now

    def get_matching_blocks(self) -> list[Match]:
        blocks = [Match(0, 0, 0)]
        for first, second in _pairs(self._was, self._now):
            last = blocks[-1]
            if (last.a + last.size, last.b + last.size) == (first, second):
                blocks[-1] = Match(last.a, last.b, last.size + 1)
            else:
                blocks.append(Match(first, second, 1))
        return [*blocks, Match(len(self._was), len(self._now), 0)]


def _pairs(was: Sequence[str], now: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Places of the lines that stay, in their order."""
    at, other = 0, 0
    for first, second in [*_common(was, now), (len(was), len(now))]:
        for place, place_now in _between(was[at:first], now[other:second]):
            yield at + place, other + place_now
        if first < len(was):
            yield first, second
        at, other = first + 1, second + 1


def _common(was: Sequence[str], now: Sequence[str]) -> list[tuple[int, int]]:
    """Places of lines that both have once: the longest series that ascends in both."""
    counts, others = Counter(was), Counter(now)
    places = {line: place for place, line in enumerate(now) if others[line] == 1}
    pairs = [(place, places[line]) for place, line in enumerate(was) if counts[line] == 1 and line in places]
    ends: list[int] = []
    """Of the best series of each length, the second place of its last pair."""
    lengths = []
    for _, second in pairs:
        length = bisect_left(ends, second)
        ends[length : length + 1] = [second]
        lengths.append(length)
    found: list[tuple[int, int]] = []
    wanted = len(ends) - 1
    for pair, length in zip(reversed(pairs), reversed(lengths), strict=True):
        if length == wanted:
            found.append(pair)
            wanted -= 1
    return found[::-1]


def _between(was: Sequence[str], now: Sequence[str]) -> Iterator[tuple[int, int]]:
    """As ``_pairs``, of what is between two common lines."""
    start, ends = equal_ends(was, now)
    yield from ((place, place) for place in range(start))
    middle, others = was[start : len(was) - ends], now[start : len(now) - ends]
    if max(len(middle), len(others)) <= _MOST_COMPARED:
        for match in SequenceMatcher(None, middle, others, autojunk=False).get_matching_blocks():
            yield from ((start + match.a + number, start + match.b + number) for number in range(match.size))
    yield from ((len(was) - back, len(now) - back) for back in range(ends, 0, -1))
