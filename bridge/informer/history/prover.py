"""Chooses the members whose servers are asked for a proof, and draws the conclusion.

Versions of two stores are not comparable, so each store behind the API server has a proof of its own
(``kube.store_of`` tells them apart).

A resource that cannot be listed (403, a failing conversion webhook, 429) does not prevent the proof: the next newest
object is asked for. Its proof covers only its own knowledge, so informers that know newer versions list and compare
everything. So does everybody where no informer that can ask has an object, but some informer gets an answer: an empty
namespace beside a failing definition would otherwise wait for that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping

from bridge.informer.history import questions
from bridge.informer.history.member import Member
from bridge.informer.history.outcomes import OtherHistory, Proof, SameHistory, UnknownHistory
from bridge.model.answers import Busy, Failed, Refused
from bridge.model.change import ObjectVersion
from bridge.model.versions.version_table import age_of

ATTEMPTS = 3
"""The most members per proof whose resources cannot be listed now, for instance because a webhook of theirs is down."""
WITNESSES = 5
"""Objects of an informer to be listed, if the newest object cannot be listed at its version any more."""


class Prover:
    """Asks members for proofs. Remembers the members whose requests failed, and asks the other members first."""

    def __init__(self) -> None:
        self._failing: set[Member] = set()

    def forget(self, member: Member) -> None:
        self._failing.discard(member)

    async def prove(self, members: Iterable[Member]) -> Proof:
        """Members with the newest versions are asked first: for the version of the server, from the first member that
        may list; then for what the server had at the version of the newest known object, and of the newest delete where
        the delete is newer."""
        witnesses = [each for each in members if each.is_witness]
        if not witnesses:
            return UnknownHistory("the known objects are being compared with the server's")
        reached = {each: version for each in witnesses if (version := each.reached) is not None}
        answer = await self._ask_in_turn(
            reached, lambda each: questions.has_version(each, reached[each]), any_will_do=True
        )
        if not isinstance(answer, SameHistory):
            return answer
        newest = {each: found for each in witnesses if (found := _still_possible(each))}
        if not newest and (replaced := next((each for each in witnesses if each.newest(1)), None)):
            return UnknownHistory(f"{replaced.resource} has another scope than its known objects")
        known = {each: found[0][1].resource_version for each, found in newest.items()}
        deletes = {each: deleted for each in witnesses if (deleted := each.deleted) is not None}
        gone = {each: deleted.version for each, deleted in deletes.items()}
        was_gone: Proof = UnknownHistory("no newer delete is known")
        if max(map(_age, gone.values()), default=_NEVER) > max(map(_age, known.values()), default=_NEVER):
            was_gone = await self._ask_in_turn(gone, lambda each: questions.has_delete(each, deletes[each]))
            if isinstance(was_gone, OtherHistory | Failed | Busy):
                return was_gone
        answer = await self._ask_in_turn(known, lambda each: questions.has_newest(each, newest[each]))
        if not isinstance(was_gone, UnknownHistory) and not isinstance(answer, OtherHistory):
            # The same object may have been deleted at the same version in two histories.
            answer = was_gone
        return UnknownHistory(answer.reason) if isinstance(answer, Refused) else answer

    async def _ask_in_turn(
        self, known: Mapping[Member, str], ask: Callable[[Member], Awaitable[Proof]], *, any_will_do: bool = False
    ) -> Proof:
        """Asks members until an answer decides. After Refused, Busy and Failed, which may concern a single resource,
        the next member is asked.

        Unless ``any_will_do``, a member proves the history only up to its own newest version: a backup may be newer
        than that, and older than the known version of a member that cannot be asked. After its first failure, the proof
        fails and is tried again, since the connection may have broken in the middle of the proof. After further ones
        the answer is Refused: the server is there, and does not say whether it has that version."""
        unable: Refused | Busy | Failed | None = None
        unknown: UnknownHistory | None = None
        first: dict[Member, Busy | Failed] = {}
        asked = _NEVER
        attempts = ATTEMPTS
        for member in sorted(known, key=lambda each: (each not in self._failing, _age(known[each])), reverse=True):
            if _age(known[member]) <= asked or not attempts:
                continue
            answer = await ask(member)
            if not isinstance(answer, Refused | Busy | Failed):
                self._failing.discard(member)
                if any_will_do or isinstance(answer, OtherHistory):
                    return answer
                asked, unknown = _age(known[member]), answer if isinstance(answer, UnknownHistory) else None
                continue
            if not isinstance(answer, Refused):
                attempts -= 1
                if member not in self._failing:
                    first[member] = answer
            self._failing.add(member)
            unable = answer
        newer = [each for each in known if _age(known[each]) > asked]
        if unable is None or not newer:
            return unknown or SameHistory()
        if any_will_do:
            return unable
        again = next((first[each] for each in newer if each in first), None)
        return again or Refused(0, f"{newer[0].resource} cannot be asked for now: {unable.reason}")


_NEVER = (-1, b"")


def _still_possible(member: Member) -> list[tuple[str, ObjectVersion]]:
    """The newest objects, without objects that cannot be listed because a definition came back with another scope."""
    return [each for each in member.newest(WITNESSES) if ("/" in each[0]) is member.resource.namespaced]


def _age(version: str) -> tuple[int, bytes]:
    return age_of(version.encode())
