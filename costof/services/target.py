"""The common part of all services for a user's own server (the target)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from costof.errors import WarningText
from costof.lab.lab import Resource
from costof.lab.program import Counters, Description
from costof.messages.answers import SliceAnswer
from costof.messages.plan import PLAIN, Endpoint, ServiceSettings, Transport
from costof.programs.access import Access
from costof.programs.server import TargetServer
from costof.services import Judgement, LoadData, Observation, Service, Stage
from costof.study.arms import PlannedArm

ServerT = TypeVar("ServerT", bound=TargetServer)
CONNECTIONS, TLS_CONNECTIONS = "connections", "TLS connections"


@dataclass(frozen=True)
class TargetReadings(Observation):
    """The server's own counters, such as {"flushes": 12}."""

    counters: dict[str, float]


class TargetService(Resource, Service, Generic[ServerT]):
    """A service for one target.

    If the target's URL requires TLS, arms (measured variants) without TLS are refused, unless the user allows them with
    `--allow-plain`.
    """

    def __init__(self, access: Access, server: ServerT) -> None:
        self.server = server
        self._plain_allowed = access.allow_plain or not server.tls
        #: Counters of the server that do not work. Each one stayed at 0 in a slice (measured window); the value is the
        #: number of connections that clients opened in that slice.
        self._uncounted: dict[str, int] = {}

    def _open(self, stack: ExitStack) -> None:
        self.server.known_identity = self.known_identity
        stack.enter_context(self.server)

    def endpoint(self, arm: PlannedArm) -> Endpoint:
        return Endpoint(
            service=self._client_settings(arm),
            transport=self.transport(arm),
        )

    def _client_settings(self, arm: PlannedArm) -> ServiceSettings:
        redirects = self.server.redirects(arm.settings.target)
        return self.server.client_settings().with_settings(arm.settings.service | redirects)

    def transport(self, arm: PlannedArm) -> Transport:
        """Return the arm's transport (plain or TLS). By default it is TLS if the target's URL requires TLS."""
        usual = Transport(kind="tls") if self.server.tls else PLAIN
        return (arm.settings.transport or usual).trusting(self.server.ca_file)

    def prepare(self, arms: Sequence[PlannedArm], load: LoadData) -> None:
        self.server.prepare(lambda: load(arms[0]))

    def writes(self) -> list[str]:
        return self.server.writes()

    def needs(self) -> list[str]:
        return self.server.needs()

    def refusal_reason(self, arm: PlannedArm) -> str | None:
        if self._plain_allowed or arm.settings.transport is None or arm.settings.transport.is_tls:
            return None
        # Anybody on the network could read a log-in without TLS.
        return "this target is used with TLS, so arms without TLS are not measured; --allow-plain measures this arm too"

    def counters(self, server: str) -> Counters:
        return self._without_uncounted(self.server.counters(server))

    def collect_evidence(self, arm: PlannedArm, stage: Stage) -> dict[str, str]:
        return self.server.evidence(arm.settings.target)

    def counts_at_disconnect(self, arm: PlannedArm) -> bool:
        return self.server.counts_at_disconnect(arm.settings.target)

    def finish_counting(self, arm: PlannedArm) -> None:
        self.server.finish_counting(arm.settings.target)

    def observe(self, arm: PlannedArm) -> Observation | None:
        counters = self.server.readings(arm.settings.target)
        return TargetReadings(counters) if counters else None

    def judge(
        self, arm: PlannedArm, before: Observation | None, after: Observation | None, answer: SliceAnswer
    ) -> Judgement:
        was, now = (each.counters if isinstance(each, TargetReadings) else {} for each in (before, after))
        increases = {name: count - was[name] for name, count in now.items() if name in was}
        figures = {name: count / answer.operations for name, count in increases.items() if answer.operations}
        mismatch = self.server.mismatch(arm.settings.target, increases, answer)
        return Judgement(mismatch or self._client_settings(arm).mismatch(increases, answer, shared=True), figures)

    def trusted_counters(self, answer: SliceAnswer, change: Counters) -> Counters:
        """Return `change` without the counters that missed all connections of a slice (measured window).

        The run ignores these counters from now on: they may not work on this server, or a proxy may accept the
        connections. With them, every slice would be discarded as if its clients had not connected to the server.
        """
        opened = int(answer.evidence.get("connections", 0))
        if not answer.operations or not opened:
            return self._without_uncounted(change)
        if change.connections == 0:
            self._uncounted.setdefault(CONNECTIONS, opened)
        by_version = change.tls_connections
        # Check the count of TLS connections only if the client reports that it used TLS.
        if answer.evidence.get("protocol") and by_version is not None and not sum(by_version.values()):
            self._uncounted.setdefault(TLS_CONNECTIONS, opened)
        return self._without_uncounted(change)

    def describe(self) -> Description:
        return self.server.describe()

    def identity(self) -> dict[str, str]:
        return self.server.identity()

    def warnings(self) -> list[str]:
        return self.server.warnings() + [
            WarningText.SERVER_COUNTS_NONE.text(opened=opened, what=what) for what, opened in self._uncounted.items()
        ]

    def _without_uncounted(self, counters: Counters) -> Counters:
        if CONNECTIONS in self._uncounted:
            return Counters()
        return replace(counters, tls_connections=None) if TLS_CONNECTIONS in self._uncounted else counters
