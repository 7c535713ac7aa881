"""What another leader published in the Lease, and how this replica differs from it."""

from __future__ import annotations

from bridge.facts import FrontierUnreadable, Report, SettingsDiffer
from bridge.model.versions import frontier as frontiers
from bridge.model.versions.frontier import Frontier
from bridge.outbox import Standby, doubt, number_of_now
from bridge.plan.equal_settings import differing


class FollowedLeader:
    """Of a replica: the newest other leader."""

    def __init__(self, standby: Standby, report: Report) -> None:
        self._standby = standby
        self._report = report
        self.frontier: Frontier | None = None
        """The newest that could be read."""
        self.is_unreadable = False
        """Of the newest frontier in the Lease."""
        self.differs: tuple[str, ...] = ()
        """Sections of the configuration that are not the same on both."""

    def observe(self, text: str, newest: int) -> bool:
        """Another frontier is in the Lease, whose holders had no term above ``newest``. Returns whether it could be
        read."""
        found = self.read(text, newest)
        self.is_unreadable = found is None and bool(text)
        if found is not None:
            self.follow(found)
        return found is not None

    def follow(self, found: Frontier) -> None:
        self.frontier = found
        self._standby.observe(found)
        self.compare()

    def compare(self) -> None:
        """Reports sections that begin or cease to differ. Call after a change of the own settings, too."""
        if self.frontier is None:
            return
        differs = differing(self._standby.configured.settings, self.frontier.settings)
        if differs != self.differs:
            self._report(SettingsDiffer(differs, self.frontier.by))
        self.differs = differs

    def read(self, text: str, newest: int) -> Frontier | None:
        """None for an empty text, and, reported, for one that cannot be read or that no holder has written (see
        ``doubt``)."""
        try:
            found = frontiers.decode(text) if text else None
            if found is not None and (why := doubt(found, newest, number_of_now())):
                raise ValueError(
                    f"{why}: somebody else has written it; the next renewal replaces it, or remove the annotation"
                    " kubedelta/frontier"
                )
            return found
        except ValueError as error:
            self._report(FrontierUnreadable(str(error)))
            return None
