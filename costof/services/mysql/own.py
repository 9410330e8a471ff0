"""A user's own MySQL or MariaDB server, reached by URL, and sysbench's table in a database of the run's own."""

from __future__ import annotations

from typing import ClassVar

from costof.datasets.sysbench import TABLE, after_load, create_table
from costof.errors import CostofError, Problem
from costof.ipc.plan import Endpoint
from costof.programs.access import Access
from costof.programs.mariadb.url import parse_mysql_url
from costof.programs.own_database import told_writes
from costof.services import LoadData, Service
from costof.services.mysql.tunnels import cipher_of
from costof.services.own_mysql import OwnMysqlDatabase
from costof.study.arms import PlannedArm
from costof.study.plan import Plan


class MysqlTarget(OwnMysqlDatabase):
    """Arms differ in how they reach the server."""

    PRIVILEGES: ClassVar[tuple[str, ...]] = ("CREATE", "DROP", "SELECT", "INSERT", "INDEX")
    TABLES: ClassVar[tuple[str, ...]] = (TABLE,)

    def endpoint(self, arm: PlannedArm) -> Endpoint:
        return Endpoint(service=self.client_settings(TABLE), transport=arm.asked.transport_trusting(self._url.ca_file))

    def make_tables(self) -> None:
        self._asked(create_table(self.database))

    def prepare(self, arm: PlannedArm, load: LoadData) -> None:
        load(arm)
        for statement in after_load(self.database):
            self._asked(statement)

    def writes(self) -> list[str]:
        return told_writes(self._access.database, self._url.shown, self._records, "200 bytes", TABLE)


def service(plan: Plan, access: Access, run_name: str) -> Service:
    """The target of a plan. Raises `BAD_TARGET` for a URL that is none, `NO_TUNNEL_TO_TARGET`."""
    factor = plan.study.main_factor
    tunnels = {arm.levels[factor] for arm in plan.arms if cipher_of(arm)}
    if tunnels:
        rest = dict.fromkeys(arm.levels[factor] for arm in plan.arms if not cipher_of(arm))
        told = ",".join(rest)
        raise CostofError(Problem.NO_TUNNEL_TO_TARGET, levels=", ".join(sorted(tunnels)), rest=told)
    return MysqlTarget(plan, access, run_name)


def shown(access: Access, study: str) -> tuple[str, None]:
    """The URL as plans and reports show it. Raises `BAD_TARGET`."""
    return parse_mysql_url(access, study).shown, None
