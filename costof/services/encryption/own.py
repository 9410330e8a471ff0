"""A user's own MySQL or MariaDB server behind the gateway, which runs on this machine, and TPC-C's tables there.

The tables are in a database of the run's own (`own_mysql_database.py`); nothing else is touched. The URL's account is
the measured one: through the gateway it gets ciphertext and decrypts it.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import ClassVar, Self

from costof.datasets.tpcc import TABLES
from costof.datasets.tpcc_database import TpccDatabase
from costof.ipc.answers import SliceAnswer
from costof.ipc.plan import PLAIN, Endpoint, Transport
from costof.lab.certificates import Authority
from costof.lab.lab import Lab
from costof.lab.program import Counters, Description
from costof.programs.access import Access
from costof.programs.mariadb.session import tls_context
from costof.programs.mariadb.url import parse_mysql_url
from costof.programs.own_database import told_writes
from costof.services import Judgement, LoadData, Observation, Service
from costof.services.encryption.gateway import MASTER_KEY, GatewayFront, Position, Rules, Seen, loading_arm
from costof.services.encryption.rules import Account, CatalogueAccount
from costof.services.encryption.sample import Login, Rows, log_in, read_rows
from costof.services.own_mysql import OwnMysqlDatabase
from costof.study.arms import PlannedArm
from costof.study.plan import Plan

#: The key of the gateway's own certificate, where the user's account must speak TLS.
KEY = "ecdsa-p256"
WAREHOUSE = "a warehouse of TPC-C (600,000 rows, 100 MB)"


class EncryptionTarget(OwnMysqlDatabase):
    """Arms that do not go directly go through a gateway of this machine's, on a loopback address of its own."""

    measures_cpu = True
    PRIVILEGES: ClassVar[tuple[str, ...]] = ("CREATE", "DROP", "SELECT", "INSERT", "UPDATE", "DELETE")
    TABLES: ClassVar[tuple[str, ...]] = TABLES

    def __init__(self, plan: Plan, access: Access, run_name: str) -> None:
        super().__init__(plan, access, run_name)
        self._plan = plan
        self._tables = TpccDatabase(self._asked, self.database, self._url.shown)

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            with ExitStack() as stack:
                self._open_gateway(stack)
                self._leave = stack.pop_all()
        except BaseException:
            super().__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._leave.close()
        finally:
            super().__exit__(kind, error, trace)

    def endpoint(self, arm: PlannedArm) -> Endpoint:
        transport = self._to_server if Rules.of(arm).direct else self._to_gateway
        return Endpoint(service=self._front.client_settings(arm, self.client_settings()), transport=transport)

    def make_tables(self) -> None:
        self._tables.make()

    def prepare(self, arm: PlannedArm, load: LoadData) -> None:
        """Raises `TPCC_UNSOUND`."""
        through = loading_arm(self._plan, arm)
        self._tables.fill(lambda: load(through))

    def arrange(self, arm: PlannedArm) -> None:
        self._tables.renew()

    def writes(self) -> list[str]:
        create, marker, *_, drop = told_writes(self._access.database, self._url.shown, 0, "", "")
        warehouses, database = self._plan.study.warehouses, self._access.database or "it"
        return [
            create,
            marker,
            f"create TPC-C's nine tables in {database} and insert {warehouses:,} times {WAREHOUSE}",
            f"insert, update and delete rows of {database} by TPC-C's transactions for as long as the run lasts",
            drop,
        ]

    def proofs(self, arm: PlannedArm) -> dict[str, str]:
        return self._front.sample(arm, self._rows, self._login(direct=Rules.of(arm).direct))

    def last_proofs(self, arm: PlannedArm) -> dict[str, str]:
        return self._tables.facts()

    def lost_arm(self, arm: PlannedArm) -> str | None:
        return self._front.lost_arm(arm)

    def lost(self) -> str | None:
        status = self._front.ended()
        return None if status is None else f"the gateway ended in the middle of the run (status {status})"

    def counters(self, server: str) -> Counters:
        counted = self._front.counters(server)
        return super().counters(server) if counted is None else counted

    def cpu_seconds(self) -> dict[str, float]:
        """The gateway's; the server is on a machine of its own, or among others on this one."""
        return self._front.cpu_seconds()

    def observe(self, arm: PlannedArm) -> Observation:
        return self._front.observe(arm)

    def judge(self, arm: PlannedArm, before: Observation, after: Observation, answer: SliceAnswer) -> Judgement:
        if not isinstance(before, Seen) or not isinstance(after, Seen):
            return Judgement()
        return self._front.judge(arm, before, after, answer)

    def cautions(self) -> list[str]:
        return super().cautions() + self._tables.cautions()

    def describe(self) -> Description:
        described = super().describe()
        return Description(
            versions=described.versions | self._front.versions(),
            topology="a single server, and the gateway on this machine",
            facts=described.facts,
        )

    def _open_gateway(self, stack: ExitStack) -> None:
        """The lab holds the gateway's rules, and its supervisor removes them whatever ends us."""
        lab = stack.enter_context(Lab())
        address, certificate = lab.address(1), None
        self._authority = Authority(lab.folder / "certificates")
        # Both sides of the gateway speak TLS or neither does: MySQL's proofs of a password differ.
        self._to_server = Transport(kind="tls", ca_file=self._url.ca_file) if self._url.tls else PLAIN
        self._to_gateway = self._to_server.trusting(self._authority.ca_file)
        if self._url.tls:
            certificate = self._authority.issue("gateway", KEY, [address])
        catalogue = CatalogueAccount(self._url.username, self._url.password)
        position = Position(
            address, self._server, self.database, catalogue, transport=self._to_server, certificate=certificate
        )
        accounts = [Account(self._url.username, "ciphertext", MASTER_KEY)]
        self._front = stack.enter_context(GatewayFront(self._plan, lab.folder, position, accounts))

    @property
    def _server(self) -> str:
        return self._url.address

    def _rows(self) -> Rows:
        with log_in(self._login(direct=True)) as connection:
            return read_rows(connection, self.database)

    def _login(self, direct: bool) -> Login:
        at = self._url if direct else replace(self._url, ca_file=self._authority.ca_file)
        return Login(at.host, at.port, at.username, at.password, tls=tls_context(at) if at.tls else None)


def service(plan: Plan, access: Access, run_name: str) -> Service:
    """The target of a plan. Raises `BAD_TARGET` for a URL that is none."""
    return EncryptionTarget(plan, access, run_name)


def shown(access: Access, study: str) -> tuple[str, None]:
    """The URL as plans and reports show it. Raises `BAD_TARGET`."""
    return parse_mysql_url(access, study).shown, None
