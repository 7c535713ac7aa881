"""Dead letters of another replica that a destination has, since that replica was killed between the transaction that
delivered them and its own commit.

Their numbers are in the progress (``SharedProgress.letters``), and mean something only to the state directory that gave
them. So a page of dead letters tells by which starts and cursors they are numbered, and they are recognised like those
of the own state directory (``Starts``). Of a page without that, from an earlier version, none is recognised.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from bridge.model.dead_letter import LetterNumbering, LetterPage, SentLetter
from bridge.model.versions.progress import LettersBefore
from bridge.outbox.consumers.cursors import SinkCursor
from bridge.outbox.progress.starts import Starts


def numbering(letters: Iterable[SentLetter], starts: Starts, cursors: Iterable[SinkCursor]) -> LetterNumbering | None:
    """Of these dead letters; None if no transaction can have had one of them: none is marked for retry."""
    sinks = {each.sink for each in letters if each.retrying}
    if not sinks:
        return None
    births = {each.sink: each.birth for each in cursors if each.sink in sinks}
    return LetterNumbering(starts.present, dict(starts.ends), births)


def doubtful(page: LetterPage, transactional: Collection[str]) -> Sequence[str]:
    """The sinks whose destination may have some of these dead letters. ``transactional``: those whose destination
    stores progress."""
    if page.numbering is None:
        return ()
    return sorted({each.sink for each in page.letters if each.retrying and each.sink in transactional})


def delivered(page: LetterPage, sink: str, before: Mapping[str, LettersBefore]) -> AbstractSet[int]:
    """The numbers of those that the sink's destination has. ``before``: what it stored of other replicas."""
    numbered = page.numbering
    last = None if numbered is None else before.get(numbered.cursors.get(sink, ""))
    if numbered is None or last is None or not Starts(numbered.start, numbered.ends).have(last.start, last.out):
        return frozenset()
    named = set(last.letters)
    return {each.number for each in page.letters if each.sink == sink and each.retrying and each.number in named}
