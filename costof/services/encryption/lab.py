"""The lab of column encryption: a MariaDB server with TPC-C's tables, and the gateway on a host in front of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from costof.datasets.tpcc_database import TpccDatabase
from costof.errors import WarningText
from costof.lab.certificates import Authority
from costof.lab.host import Host, throttled_seconds
from costof.lab.lab import Lab
from costof.lab.program import Counters, Description
from costof.lab.topology import Chain
from costof.messages.answers import SliceAnswer
from costof.messages.plan import Endpoint
from costof.programs.mariadb.lab import DATABASE, PORT, USER, MariadbServer
from costof.programs.mariadb.lab import ROLE as SERVER_ROLE
from costof.services import Judgement, LabService, LoadData, Observation, Service, Stage, ended
from costof.services.encryption.gateway import (
    MASTER_KEY,
    ArmLabSettings,
    GatewayFront,
    GatewayObservation,
    Position,
    loading_arm,
)
from costof.services.encryption.rules import Account, CatalogueAccount
from costof.services.encryption.sample import Login, Rows, log_in, read_rows
from costof.study.arms import PlannedArm
from costof.study.plan import Plan

GATEWAY = "gateway"
#: Database accounts in addition to the measured account `USER`. The gateway (encrypting proxy) never gives `STRANGER` a
#: key.
ADMINISTRATOR, STRANGER = "costof_admin", "costof_stranger"
ACCOUNTS = [Account(USER, "ciphertext", MASTER_KEY), Account(ADMINISTRATOR, "plaintext"), Account(STRANGER, "opaque")]
# The server's settings. Buffer pool and log have room for the initial data and for the orders of several hours, so that
# the server does not become slower in the course of a run.
SETTINGS = {"innodb-buffer-pool-size": "1G", "innodb-log-file-size": "256M"}
TRAFFIC = "Bytes_%"


@dataclass(frozen=True)
class Reading(Observation):
    """The counters of gateway (encrypting proxy) and server. `server_bytes` were sent or received by the server."""

    gateway: GatewayObservation
    server_bytes: int
    server_counters: Counters


class EncryptionLab(LabService):
    """A lab in which all arms (variants) use one server, directly or through one gateway (encrypting proxy).

    The run fails if the server or the gateway ends.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._lab = Lab()
        # Limit server and gateway to one core each, as if they were separate machines.
        self._chain = Chain(self._lab, [GATEWAY], "a server", plan.seed, cores=1.0, last_cores=1.0)

    def _open(self, stack: ExitStack) -> None:
        stack.enter_context(self._lab)
        stack.enter_context(self._chain)
        authority = Authority(self._lab.folder / "certificates")
        self._server = MariadbServer(
            self._lab, authority, [self._chain.last_address], host=self._chain.last, settings=SETTINGS
        )
        stack.callback(self._server.close)
        self._server.start()
        for account in ACCOUNTS[1:]:
            self._server.add_user(account.name)
        # Create the tables before clients connect: the load generator may read the definitions when it connects.
        self._tables = TpccDatabase(self._server.ask, DATABASE, self._server.name)
        self._tables.make()
        host = self._chain.middle[GATEWAY]
        server = f"{self._server.address}:{PORT}"
        catalogue = CatalogueAccount(ADMINISTRATOR, self._server.password)
        position = Position(self._chain.addresses[GATEWAY], server, DATABASE, catalogue, host.prefix)
        self._front = stack.enter_context(GatewayFront(self._plan, self._lab.folder, position, ACCOUNTS))

    def endpoint(self, arm: PlannedArm) -> Endpoint:
        settings = self._front.client_settings(arm, self._server.client_settings())
        return Endpoint(
            service=settings.with_settings(arm.settings.service), transport=arm.settings.transport_trusting(None)
        )

    def prefix(self, arm: PlannedArm) -> list[str]:
        return self._chain.client.prefix

    def loads_over(self, arm: PlannedArm) -> PlannedArm:
        return loading_arm(self._plan, arm)

    def prepare(self, arms: Sequence[PlannedArm], load: LoadData) -> None:
        """Load TPC-C's tables, over an arm without the gateway if there is one. Raises `TPCC_UNSOUND`."""
        through = self.loads_over(arms[0])
        self._give_shares({role: float(os.cpu_count() or 1) for role in self._hosts})
        self._tables.fill(lambda: load(through))

    def arrange(self, arm: PlannedArm) -> None:
        self._tables.renew()
        settings = ArmLabSettings.from_arm(arm)
        self._give_shares({SERVER_ROLE: settings.server_cores or 1.0, GATEWAY: settings.gateway_cores or 1.0})

    def writes(self) -> list[str]:
        return [f"the lab's own server: TPC-C's nine tables in {DATABASE}, removed with the lab"]

    def collect_evidence(self, arm: PlannedArm, stage: Stage) -> dict[str, str]:
        """At the start, check sample rows that the arm's client receives. At the end, check TPC-C's consistency.

        Return the check's facts for the report. If the rows contradict the arm's rules, the arm fails.
        """
        if stage == "end":
            return {} if self.failure_reason() else self._tables.facts()
        account = Login(self._server.address, PORT, USER, self._server.password, self._chain.client)
        return self._front.sample(arm, self._rows, account)

    def counters(self, server: str) -> Counters:
        counters = self._front.counters(server)
        return self._server.counters() if counters is None else counters

    def throttled_seconds(self) -> dict[str, float]:
        return throttled_seconds(self._hosts.items())

    def cpu_seconds(self) -> dict[str, float]:
        return self._lab.cpu_seconds() | self._front.cpu_seconds()

    def server_processes(self) -> list[tuple[str, int]]:
        return [*super().server_processes(), (GATEWAY, self._front.pid)]

    def observe(self, arm: PlannedArm) -> Observation | None:
        # The next observation includes the few hundred bytes of this query, which are negligible.
        server_bytes = sum(int(value) for value in self._server.status(TRAFFIC).values())
        return Reading(self._front.observe(arm), server_bytes, self._server.counters())

    def judge(
        self, arm: PlannedArm, before: Observation | None, after: Observation | None, answer: SliceAnswer
    ) -> Judgement:
        if not isinstance(before, Reading) or not isinstance(after, Reading):
            return Judgement()
        judgement = self._front.judge(arm, before.gateway, after.gateway, answer)
        bytes_ = after.server_bytes - before.server_bytes
        connections = after.server_counters.since(before.server_counters).connections or 0
        return replace(
            judgement,
            figures={"bytes": bytes_ / answer.operations} if answer.operations else {},
            counts=judgement.counts | {"connections counted by the server": connections},
        )

    def failure_reason(self, arm: PlannedArm | None = None) -> str | None:
        if arm is not None:
            return self._front.failure_reason(arm)
        for process in self._lab.dead():
            if process.role == SERVER_ROLE:
                return ended(process.name, process.exit_status)
        # Without the gateway, no effect can be measured.
        return ended("gateway", self._front.ended())

    def warnings(self) -> list[str]:
        shares = (
            []
            if self._chain.shares
            else [WarningText.NO_CPU_SHARE.text(hosts="server and gateway", factors="server_cpu and gateway_cpu")]
        )
        return shares if self.failure_reason() else shares + self._tables.warnings()

    def describe(self) -> Description:
        return Description(
            versions={"mariadbd": self._server.version, **self._front.versions()},
            topology=self._chain.words(),
            facts=self._server.facts(),
        )

    @property
    def process_ids(self) -> dict[str, int]:
        return super().process_ids | {GATEWAY: self._front.pid}

    @property
    def _hosts(self) -> dict[str, Host]:
        return {SERVER_ROLE: self._chain.last, GATEWAY: self._chain.middle[GATEWAY]}

    def _give_shares(self, cores: dict[str, float]) -> None:
        for role, host in self._hosts.items():
            host.resize(cores[role])

    def _rows(self) -> Rows:
        with log_in(
            Login(self._server.address, PORT, ADMINISTRATOR, self._server.password, self._chain.client)
        ) as direct:
            return read_rows(direct, DATABASE)


def service(plan: Plan) -> Service:
    return EncryptionLab(plan)
