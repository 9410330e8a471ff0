"""The lab of one server program: one server, reached plainly, by TLS, SSH tunnels and pools, from near and far."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from costof.lab.certificates import DEFAULT_KEY, Authority
from costof.lab.lab import Lab
from costof.lab.program import Counters, Description
from costof.lab.resource import Resource
from costof.lab.round_trips import LinkEvidence
from costof.lab.star import Star
from costof.messages.answers import SliceAnswer
from costof.messages.plan import Endpoint
from costof.programs.pgbouncer.pool import ROLE as POOLER_ROLE
from costof.programs.server import LabServer, Place, lab_server
from costof.services import Judgement, LoadData, Observation, Service, Stage
from costof.services.server import stunnels
from costof.services.server.poolers import Poolers, middle_cores
from costof.services.server.stunnels import Stunnels, stunnel_of
from costof.services.server.tickets import Tickets
from costof.services.server.tunnels import TUNNEL_ROLES, Tunnels, cipher_of
from costof.study.arms import PlannedArm
from costof.study.plan import Plan


class ServerLab(Resource, Service):
    """All arms use one server. A tunnel or a pooler that ends costs its arms alone; the server or a link, the run.

    `program`: another one than the study's. Raises `NO_SERVICE`.
    """

    measures_cpu = True
    makes_hosts = True

    def __init__(self, plan: Plan, program: type[LabServer] | None = None) -> None:
        self._program = program or lab_server(plan.study.service.program)
        self._keys = keys_to_show([key for arm in plan.arms if (key := arm.asked.lab.get("key"))])
        self._lab = Lab()
        self._distances = {arm.name: plan.study.distance(arm.levels) for arm in plan.arms}
        round_trips = {self._distances[arm.name]: plan.study.round_trip_ms(arm.levels) for arm in plan.arms}
        self._star = Star(
            self._lab, round_trips, plan.seed, apart=self._program.clients_apart, middle=middle_cores(plan.arms)
        )
        self._tickets = Tickets()
        asked = {arm.name: (cipher, self._distances[arm.name]) for arm in plan.arms if (cipher := cipher_of(arm))}
        self._tunnels = Tunnels(self._lab, self._star, asked)
        self._stunnels = Stunnels(self._lab, self._star, plan.arms, self._distances)
        self._poolers = Poolers(self._lab, self._star, plan.arms, self._distances, self._keys[0])

    def _open(self, stack: ExitStack) -> None:
        stack.enter_context(self._lab)
        stack.enter_context(self._star)
        self.authority = Authority(self._lab.folder / "certificates")
        place = Place(self._lab, self._star.server, self.authority, self._keys, self._star.new_address)
        self.server = self._program.at(place)
        stack.callback(self.server.close)
        self.server.start()
        # Here and not when they are filled: what measures may look at the tables as soon as it connects.
        self.server.make_tables()
        self._tunnels.start(self.server)
        self._stunnels.start(self.server, self.authority)
        stack.callback(self._poolers.close)
        self._poolers.start(self.server, self.authority)
        self._star.measure()

    def endpoint(self, arm: PlannedArm) -> Endpoint:
        settings = self.server.client_settings().asking(arm.asked.service)
        if entrance := self._tunnels.entrance(arm) or self._stunnels.entrance(arm):
            settings = settings.entered_at(entrance)
        settings = settings.model_copy(update=self._poolers.redirects(arm))
        return Endpoint(service=settings, transport=arm.asked.transport_trusting(self.authority.ca_file))

    def prefix(self, arm: PlannedArm) -> list[str]:
        return self._star.client(self._distances[arm.name]).prefix

    def prepare(self, arm: PlannedArm, load: LoadData) -> None:
        load(arm)
        self.server.settle()

    def writes(self) -> list[str]:
        return self._program.writes

    def arrange(self, arm: PlannedArm) -> None:
        self._poolers.arrange(arm)
        self.server.expect_tls(arm.asked.speaks_tls and not stunnel_of(arm))
        key = arm.asked.lab.get("key")
        if key is not None and self.server.show_key(key):
            self._tickets.void()

    def wants_ticket(self, arm: PlannedArm) -> bool:
        return self._tickets.renew(arm)

    def links(self) -> list[LinkEvidence]:
        return self._star.links()

    def prove(self, arm: PlannedArm, stage: Stage) -> dict[str, str]:
        return self._tunnels.proofs(arm) | self._poolers.proofs(arm) if stage == "start" else {}

    def counters(self, server: str) -> Counters:
        """Of the end that a client speaks to: a pooler, or the server."""
        if (counted := self._poolers.counters(server)) is not None:
            return counted
        counters = self.server.counters(server)
        # What it is told in plain has come with TLS as far as stunnel, which counts that itself.
        return replace(counters, tls_connections=None) if self._stunnels.is_entrance(server) else counters

    def observe(self, arm: PlannedArm) -> Observation:
        return self._poolers.observe(arm) if self._poolers.has(arm) else self._stunnels.carried(arm)

    def judge(self, arm: PlannedArm, before: Observation, after: Observation, answer: SliceAnswer) -> Judgement:
        if self._poolers.has(arm):
            return self._poolers.judge(arm, before, after, answer)
        if before is None or after is None:
            return Judgement()
        return Judgement(
            mismatch=stunnels.mismatch(answer, after - before),
            counts={"connections carried by stunnel": after - before},
        )

    def throttled_seconds(self) -> dict[str, float]:
        return self._poolers.throttled_seconds()

    def cautions(self) -> list[str]:
        return self._poolers.cautions()

    def cpu_seconds(self) -> dict[str, float]:
        return self._lab.cpu_seconds() | self._star.cpu_seconds()

    def lost(self, arm: PlannedArm | None = None) -> str | None:
        if arm is not None:
            return self._tunnels.why_lost(arm) or self._stunnels.why_lost(arm) or self._poolers.why_lost(arm)
        for process in self._lab.dead():
            # Tunnels that stand do without the sshd that let them in.
            if process.role not in TUNNEL_ROLES | stunnels.ROLES | {POOLER_ROLE}:
                return f"the lab's {process.name} ended in the middle of the run (status {process.exit_status})"
        return self._star.lost()

    def describe(self) -> Description:
        described = self.server.describe()
        return Description(
            versions=described.versions
            | self._tunnels.versions()
            | self._stunnels.versions()
            | self._poolers.versions(),
            topology=f"{described.topology} {self._star.words()}",
            facts=described.facts | self._tunnels.facts() | self._stunnels.facts() | self._poolers.facts(),
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
    """Raises `NO_SERVICE`."""
    return ServerLab(plan)
