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
        for match in self._matches():
            last = blocks[-1]
            if (last.a + last.size, last.b + last.size) == (match.a, match.b):
                blocks[-1] = Match(last.a, last.b, last.size + match.size)
            elif match.size:
                blocks.append(match)
        return [*blocks, Match(len(self._was), len(self._now), 0)]

    def _matches(self) -> Iterator[Match]:
        """In their order."""
        was, now = self._was, self._now
        at, other = 0, 0
        for first, second in [*_common(was, now), (len(was), len(now))]:
            yield from _between(was[at:first], now[other:second], at, other)
            if first < len(was):
                yield Match(first, second, 1)
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


def _between(was: Sequence[str], now: Sequence[str], at: int, other: int) -> Iterator[Match]:
    """Matches of two parts, which begin at these places."""
    shorter = min(len(was), len(now))
    start = next((place for place in range(shorter) if was[place] != now[place]), shorter)
    left = shorter - start
    ends = next((back for back in range(left) if was[-1 - back] != now[-1 - back]), left)
    yield Match(at, other, start)
    middle, others = was[start : len(was) - ends], now[start : len(now) - ends]
    if max(len(middle), len(others)) <= _MOST_COMPARED:
        for match in SequenceMatcher(None, middle, others, autojunk=False).get_matching_blocks():
            yield Match(at + start + match.a, other + start + match.b, match.size)
    yield Match(at + len(was) - ends, other + len(now) - ends, ends)
