"""A user's own MySQL or MariaDB server with TPC-C's tables, behind a gateway (encrypting proxy) on this machine.

The tables are in a database of their own (`programs/mariadb/target.py`). The run changes nothing else on the server.
The measured client logs in with the account in the target's URL. Through the gateway it gets ciphertext, which it
decrypts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import ClassVar

from costof.datasets.tpcc import TABLES
from costof.datasets.tpcc_database import TpccDatabase
from costof.lab.certificates import Authority
from costof.lab.lab import Lab
from costof.lab.program import Counters, Description
from costof.messages.answers import SliceAnswer
from costof.messages.plan import PLAIN, Endpoint, Transport
from costof.programs.access import Access, ShownAccess
from costof.programs.gateway import ROLE
from costof.programs.mariadb.connection import tls_context
from costof.programs.mariadb.target import MysqlDatabaseTarget
from costof.programs.target_database import describe_writes
from costof.services import Judgement, LoadData, Observation, Service, Stage
from costof.services.encryption.gateway import (
    MASTER_KEY,
    GatewayFront,
    GatewayObservation,
    Position,
    Rules,
    loading_arm,
)
from costof.services.encryption.rules import Account, CatalogueAccount
from costof.services.encryption.sample import Login, Rows, log_in, read_rows
from costof.services.target import TargetService
from costof.study.arms import PlannedArm
from costof.study.plan import Plan
from costof.study.schema import Study

#: The kind of key of the gateway's certificate. The gateway needs a certificate if the target's URL requires TLS.
KEY = "ecdsa-p256"
WAREHOUSE = "a warehouse of TPC-C (600,000 rows, 100 MB)"


class TpccTarget(MysqlDatabaseTarget):
    """A user's MySQL or MariaDB server, with TPC-C's tables in the run's own database."""

    PRIVILEGES: ClassVar[tuple[str, ...]] = ("CREATE", "DROP", "SELECT", "INSERT", "UPDATE", "DELETE")
    TABLES: ClassVar[tuple[str, ...]] = TABLES

    def __init__(self, access: Access, study: str, run: str, warehouses: int) -> None:
        super().__init__(access, study, run, warehouses)
        self.tables = TpccDatabase(self.ask, self.database, self.shown, self.try_statement)

    def make_tables(self) -> None:
        self.tables.make()

    def prepare(self, load: Callable[[], None]) -> None:
        self.tables.fill(load)

    def writes(self) -> list[str]:
        create, marker, *_, drop = describe_writes(self.chosen, self.shown, 0, "", "")
        database = self.chosen or "it"
        return [
            create,
            marker,
            f"create TPC-C's nine tables in {database} and insert {self.records:,} times {WAREHOUSE}",
            f"insert, update and delete rows of {database} by TPC-C's transactions until the run ends",
            drop,
        ]

    def warnings(self) -> list[str]:
        return super().warnings() + self.tables.warnings()


class EncryptionTarget(TargetService[TpccTarget]):
    """A user's server as a service.

    Arms (measured variants) use it directly, or through a gateway (encrypting proxy) on a loopback address of this
    machine.
    """

    measures_cpu = True
    single_machine_reason = "the gateway runs on this machine and listens only there"

    def __init__(self, plan: Plan, access: Access, server: TpccTarget) -> None:
        super().__init__(access, server)
        self._plan = plan

    def _open(self, stack: ExitStack) -> None:
        super()._open(stack)
        # The rule files contain keys. A lab removes its folder, with these files, even if this process is killed.
        lab, url = stack.enter_context(Lab()), self.server.url
        address, certificate = lab.address(1), None
        self._authority = Authority(lab.folder / "certificates")
        # Use TLS on both sides of the gateway or on neither: the gateway forwards the client's log-in, whose form
        # depends on TLS.
        self._to_server = Transport(kind="tls", ca_file=url.ca_file) if url.tls else PLAIN
        self._to_gateway = self._to_server.trusting(self._authority.ca_file)
        if url.tls:
            certificate = self._authority.issue("gateway", KEY, [address])
        position = Position(
            address,
            url.address,
            self.server.database,
            CatalogueAccount(url.username, url.password),
            transport=self._to_server,
            certificate=certificate,
        )
        accounts = [Account(url.username, "ciphertext", MASTER_KEY)]
        self._front = stack.enter_context(GatewayFront(self._plan, lab.folder, position, accounts))

    def endpoint(self, arm: PlannedArm) -> Endpoint:
        transport = self._to_server if Rules.from_arm(arm).direct else self._to_gateway
        settings = self._front.client_settings(arm, self.server.client_settings())
        return Endpoint(service=settings.with_settings(arm.settings.service), transport=transport)

    def loads_over(self, arm: PlannedArm) -> PlannedArm:
        return loading_arm(self._plan, arm)

    def prepare(self, arms: Sequence[PlannedArm], load: LoadData) -> None:
        super().prepare([self.loads_over(arms[0])], load)

    def arrange(self, arm: PlannedArm) -> None:
        self.server.tables.renew()

    def collect_evidence(self, arm: PlannedArm, stage: Stage) -> dict[str, str]:
        if stage == "end":
            return self.server.tables.facts()
        return self._front.sample(arm, self._rows, self._login(direct=Rules.from_arm(arm).direct))

    def failure_reason(self, arm: PlannedArm | None = None) -> str | None:
        if arm is not None:
            return self._front.failure_reason(arm)
        status = self._front.ended()
        return None if status is None else f"the gateway ended in the middle of the run (status {status})"

    def counters(self, server: str) -> Counters:
        counters = self._front.counters(server)
        return super().counters(server) if counters is None else counters

    def server_processes(self) -> list[tuple[str, int]]:
        return [(ROLE, self._front.pid)]

    def cpu_seconds(self) -> dict[str, float]:
        return super().cpu_seconds() | self._front.cpu_seconds()

    def observe(self, arm: PlannedArm) -> Observation | None:
        return self._front.observe(arm)

    def judge(
        self, arm: PlannedArm, before: Observation | None, after: Observation | None, answer: SliceAnswer
    ) -> Judgement:
        if not isinstance(before, GatewayObservation) or not isinstance(after, GatewayObservation):
            return Judgement()
        return self._front.judge(arm, before, after, answer)

    def describe(self) -> Description:
        described = super().describe()
        return Description(
            versions=described.versions | self._front.versions(),
            topology="a single server, and the gateway on this machine",
            facts=described.facts,
        )

    def _rows(self) -> Rows:
        with log_in(self._login(direct=True)) as connection:
            return read_rows(connection, self.server.database)

    def _login(self, direct: bool) -> Login:
        url = self.server.url if direct else replace(self.server.url, ca_file=self._authority.ca_file)
        return Login(url.host, url.port, url.username, url.password, tls=tls_context(url) if url.tls else None)


def service(plan: Plan, access: Access, run_name: str) -> Service:
    server = TpccTarget(access, plan.study.name, run_name, plan.study.warehouses)
    return EncryptionTarget(plan, access, server)


def shown(access: Access, study: Study) -> ShownAccess:
    return TpccTarget(access, study.name, "", 0).shown_access()
