"""Where programs of a lab stand and how far from each other: hosts, links, and what was measured on them.

What stands where differs from kind to kind, so each draws its own hosts and links: `star.py` clients around servers,
`chain.py` programs one behind the other, and chained replication its nodes around routers.
"""

from __future__ import annotations

from abc import abstractmethod
from contextlib import ExitStack

from costof.lab.lab import Lab
from costof.lab.network import Network
from costof.lab.resource import Resource
from costof.lab.round_trips import LinkEvidence
from costof.lab.user_namespace import can_share_cpu


class Topology(Resource):
    """A context manager within a lab's; leave it before the lab. `seed` chooses the packets that are lost."""

    def __init__(self, lab: Lab, seed: int) -> None:
        self._lab = lab
        self._network = Network(lab, seed=seed)
        self._evidence: list[LinkEvidence] = []

    def _open(self, stack: ExitStack) -> None:
        """Make hosts and links. Raises `NEEDS_ROOT` for a distance where none can be, `LAB_FAILED`."""
        stack.enter_context(self._network)
        self._make()

    @abstractmethod
    def _make(self) -> None:
        """Make hosts and links."""

    @abstractmethod
    def words(self) -> str:
        """What stands where, for a result."""

    @property
    def shares(self) -> bool:
        """Whether hosts have the CPU shares that are asked for: with root."""
        return can_share_cpu()

    def links(self) -> list[LinkEvidence]:
        """What was measured."""
        return self._evidence

    def cpu_seconds(self) -> dict[str, float]:
        """Of what carries the links, where a process does."""
        return self._network.cpu_by_role()

    def lost(self) -> str | None:
        """In words, what of the network has ended though nobody asked it to."""
        return self._network.lost()

    def process_ids(self) -> list[int]:
        """Of what carries the links."""
        return self._network.process_ids()
