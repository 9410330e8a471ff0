"""The lab of a MySQL study: one MariaDB, reached plainly, by its TLS and by SSH tunnels, from near and far."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from costof.datasets.sysbench import TABLE
from costof.ipc.plan import Endpoint
from costof.lab.certificates import DEFAULT_KEY, Authority
from costof.lab.lab import Lab
from costof.lab.program import Counters, Description
from costof.lab.resource import Opened
from costof.lab.round_trips import LinkEvidence
from costof.programs.mariadb.server import DATABASE, PORT, ROLE, MariadbServer
from costof.services import LoadData, Service
from costof.services.mysql.tunnels import Tunnels
from costof.services.site import Site
from costof.services.tickets import Tickets
from costof.study.arms import PlannedArm
from costof.study.plan import Plan


class MysqlLab(Opened, Service):
    """All arms use one server process. A tunnel that ends costs its arm alone; the server or a link, the run.

    `knows_clients`: the server takes clients' certificates of the lab's own `authority`.
    """

    measures_cpu = True

    def __init__(self, plan: Plan, knows_clients: bool = False) -> None:
        self._knows_clients = knows_clients
        self._keys = keys_to_show([key for arm in plan.arms if (key := arm.asked.lab.get("key"))])
        self._lab = Lab()
        # Near clients have a host of their own too, where root allows it: near is the same beside far ones and alone.
        self._site = Site(self._lab, plan, apart=True)
        self._tickets = Tickets()
        self._tunnels = Tunnels(self._lab, self._site, plan.arms)

    def _open(self, stack: ExitStack) -> None:
        stack.enter_context(self._lab)
        stack.enter_context(self._site)
        self.authority = Authority(self._lab.folder / "certificates")
        self._server = MariadbServer(
            self._lab,
            self.authority,
            self._site.addresses,
            keys=self._keys,
            host=self._site.server,
            knows_clients=self._knows_clients,
        )
        stack.callback(self._server.close)
        self._server.start()
        # Here and not when it is filled: what measures may look at the table as soon as it connects.
        self._server.create_table()
        self._tunnels.start((self._server.address, PORT))
        self._site.measure()

    def endpoint(self, arm: PlannedArm) -> Endpoint:
        entrance = self._tunnels.entrance(arm) or (self._server.address, PORT)
        return Endpoint(
            service=self._server.client_settings(*entrance),
            transport=arm.asked.transport_trusting(self.authority.ca_file),
        )

    def prefix(self, arm: PlannedArm) -> list[str]:
        return self._site.client(arm).prefix

    def prepare(self, arm: PlannedArm, load: LoadData) -> None:
        load(arm)
        self._server.settle()

    def writes(self) -> list[str]:
        return [f"the lab's own server: {DATABASE}.{TABLE}, removed with the lab"]

    def arrange(self, arm: PlannedArm) -> None:
        key = arm.asked.lab.get("key")
        if key is not None and self._server.show_key(key):
            self._tickets.void()

    def wants_ticket(self, arm: PlannedArm) -> bool:
        return self._tickets.renew(arm)

    def links(self) -> list[LinkEvidence]:
        return self._site.links()

    def proofs(self, arm: PlannedArm) -> dict[str, str]:
        return self._tunnels.proofs(arm)

    def lost_arm(self, arm: PlannedArm) -> str | None:
        return self._tunnels.why_lost(arm)

    def counters(self, server: str) -> Counters:
        # At every distance and behind every tunnel it is the same one.
        return self._server.counters()

    def cpu_seconds(self) -> dict[str, float]:
        return self._lab.cpu_seconds() | self._site.cpu_seconds()

    def lost(self) -> str | None:
        # A tunnel is `lost_arm`'s business; and tunnels that stand do without the sshd that let them in.
        for process in self._lab.dead():
            if process.role == ROLE:
                return f"the lab's {process.name} ended in the middle of the run (status {process.exit_status})"
        return self._site.lost()

    def describe(self) -> Description:
        return Description(
            versions={"mariadbd": self._server.version, **self._tunnels.versions()},
            topology=f"one server {self._site.topology()}",
            facts=self._server.facts() | self._tunnels.facts(),
        )

    @property
    def process_ids(self) -> dict[str, int]:
        """Pids of what the lab has started, by name."""
        return {process.name: process.pid for process in self._lab.processes.values()}


def keys_to_show(asked: Sequence[str]) -> list[str]:
    """The kinds of key to make, and first the one to show while the arms are proved, which every arm's client takes.

    A weak key is taken by its own arms alone, and an ECDSA key cannot serve the old suites; the server's usual one can.
    """
    kinds = list(dict.fromkeys(asked))
    first = kinds[0] if len(kinds) == 1 else DEFAULT_KEY
    return [first, *(kind for kind in kinds if kind != first)]


def service(plan: Plan) -> Service:
    return MysqlLab(plan)
