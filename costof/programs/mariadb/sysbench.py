"""A MariaDB of a lab's with sysbench's table: what a study asks of the program."""

from __future__ import annotations

from typing import Self

from costof.datasets.sysbench import TABLE, after_load, create_table
from costof.lab.host import Host
from costof.lab.program import Counters
from costof.programs.mariadb.server import DATABASE, MariadbServer, greets
from costof.programs.mariadb.settings import MysqlSettings
from costof.programs.server import LabServer, Place


class SysbenchServer(MariadbServer, LabServer):
    """At every distance and behind every tunnel it is the same server."""

    writes = [f"the lab's own server: {DATABASE}.{TABLE}, removed with the lab"]

    @classmethod
    def at(cls, place: Place) -> Self:
        return cls(place.lab, place.authority, [place.new_address()], keys=place.keys, host=place.host)

    def make_tables(self) -> None:
        self.ask(create_table(DATABASE))

    def settle(self) -> None:
        """What sysbench does after it has loaded the table, and what makes its first queries like its later ones."""
        for statement in after_load(DATABASE):
            self.ask(statement)

    def client_settings(self) -> MysqlSettings:
        return super().client_settings().model_copy(update={"table": TABLE})

    def counters(self, server: str = "") -> Counters:
        return super().counters()

    def answers(self, address: str, port: int, host: Host) -> bool:
        return greets(address, port, host)
