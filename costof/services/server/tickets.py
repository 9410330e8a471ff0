"""Session tickets and the keys that servers show: another key makes every ticket that a client holds worth nothing."""

from __future__ import annotations

from costof.study.arms import PlannedArm


class Tickets:
    """Which arms hold tickets of the key that is shown now. All do at first: they were proved under it."""

    def __init__(self) -> None:
        self._changes = 0
        self._held_since: dict[str, int] = {}

    def void(self) -> None:
        """The key has changed, be it back to an earlier one."""
        self._changes += 1

    def renew(self, arm: PlannedArm) -> bool:
        """Whether the arm's client has to fetch a ticket now; asking counts as having done so."""
        held_since = self._held_since.get(arm.name, 0)
        self._held_since[arm.name] = self._changes
        return arm.asked.transport is not None and arm.asked.transport.resumption and held_since < self._changes
