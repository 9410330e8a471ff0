"""A user's own server as a service: what holds whatever program it is, and whatever it is asked."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import Generic, TypeVar

from costof.errors import WarningText
from costof.lab.lab import Resource
from costof.lab.program import Counters, Description
from costof.messages.answers import SliceAnswer
from costof.messages.plan import Endpoint
from costof.programs.access import Access
from costof.programs.server import TargetServer
from costof.services import LoadData, Service
from costof.study.arms import PlannedArm

Own = TypeVar("Own", bound=TargetServer)
CONNECTIONS, TLS_CONNECTIONS = "connections", "TLS connections"


class TargetService(Resource, Service, Generic[Own]):
    """Plain arms are not tried where TLS was asked of the server, unless the user allows it."""

    def __init__(self, access: Access, server: Own) -> None:
        self.server = server
        self._plain_allowed = access.allow_plain or not server.tls
        #: Connections, of all kinds or with TLS, of which the server has counted none.
        self._uncounted: dict[str, int] = {}

    def _open(self, stack: ExitStack) -> None:
        self.server.known_identity = self.known_identity
        stack.enter_context(self.server)

    def endpoint(self, arm: PlannedArm) -> Endpoint:
        return Endpoint(
            service=self.server.client_settings().asking(
                arm.settings.service | self.server.redirects(arm.settings.target)
            ),
            transport=arm.settings.transport_trusting(self.server.ca_file),
        )

    def prepare(self, arm: PlannedArm, load: LoadData) -> None:
        self.server.prepare(lambda: load(arm))

    def writes(self) -> list[str]:
        return self.server.writes()

    def needs(self) -> list[str]:
        return self.server.needs()

    def refusal_reason(self, arm: PlannedArm) -> str | None:
        if self._plain_allowed or arm.settings.transport is None or arm.settings.transport.is_tls:
            return None
        # Its log-in could be read on the way.
        return (
            "TLS was asked of this target, so nothing is said to it in plain; --allow-plain has this arm measured too"
        )

    def counters(self, server: str) -> Counters:
        return self._believed(self.server.counters(server))

    def usable(self, answer: SliceAnswer, moved: Counters) -> Counters:
        """Stop reading a counter that has counted none of a slice's connections.

        It stands still, as some servers' counters do, or something before the server ends the connections. That would
        discard every slice of the run.
        """
        opened = int(answer.evidence.get("connections", 0))
        if not answer.operations or not opened:
            return self._believed(moved)
        if moved.connections == 0:
            self._uncounted.setdefault(CONNECTIONS, opened)
        counted = moved.tls_connections
        # A client that does not say itself that it spoke TLS may not have done so.
        if answer.evidence.get("protocol") and counted is not None and not sum(counted.values()):
            self._uncounted.setdefault(TLS_CONNECTIONS, opened)
        return self._believed(moved)

    def describe(self) -> Description:
        return self.server.describe()

    def identity(self) -> dict[str, str]:
        return self.server.identity()

    def warnings(self) -> list[str]:
        return self.server.warnings() + [
            WarningText.SERVER_COUNTS_NONE.text(opened=opened, what=what) for what, opened in self._uncounted.items()
        ]

    def _believed(self, counters: Counters) -> Counters:
        if CONNECTIONS in self._uncounted:
            return Counters()
        return replace(counters, tls_connections=None) if TLS_CONNECTIONS in self._uncounted else counters
