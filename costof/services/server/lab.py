"""The lab of one server, which near and far clients reach directly (plain or TLS) or through tunnels or poolers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import TypeVar

from costof.lab.certificates import DEFAULT_KEY, Authority
from costof.lab.lab import Lab
from costof.lab.program import Counters, Description
from costof.lab.round_trips import LinkEvidence
from costof.lab.topology import Star
from costof.messages.answers import SliceAnswer
from costof.messages.plan import Endpoint
from costof.programs.server import LabServer, Place, lab_server
from costof.services import Judgement, LabService, LoadData, Observation, Service, Stage, ended
from costof.services.server.entrances import Entrances, Site
from costof.services.server.pairs import Pairs
from costof.services.server.poolers import Poolers, middle_cores
from costof.services.server.relays import Relays
from costof.services.server.stunnels import Stunnels
from costof.services.server.tunnels import Tunnels
from costof.study.arms import PlannedArm
from costof.study.plan import Plan

Value = TypeVar("Value")
#: All kinds of programs in front of a server.
ENTRANCES: tuple[type[Entrances], ...] = (Tunnels, Stunnels, Poolers, Pairs, Relays)


class Tickets:
    """A record of the arms whose clients hold a session ticket for the server's current key.

    At first the clients of all arms hold one, because each arm was verified with the current key.
    """

    def __init__(self) -> None:
        self._changes = 0
        self._held_since: dict[str, int] = {}

    def invalidate(self) -> None:
        """Record that the server's key has changed, so that all tickets are invalid."""
        self._changes += 1

    def renew(self, arm: PlannedArm) -> bool:
        """Return whether the arm's client needs a new ticket now, and record that it gets one."""
        held_since = self._held_since.get(arm.name, 0)
        self._held_since[arm.name] = self._changes
        return arm.settings.transport is not None and arm.settings.transport.resumption and held_since < self._changes


class ServerLab(LabService):
    """A lab in which all arms use one server, directly or through an entrance (tunnel, stunnel, pooler or relay).

    If an entrance fails, the arms that use it fail. If the server or a link fails, the run fails.
    """

    def __init__(self, plan: Plan, program: type[LabServer] | None = None) -> None:
        """Prepare a lab with the study's server program, or with `program` if given. Raises `NO_SERVICE`."""
        self._program = program or lab_server(plan.study.service.program)
        self._keys = keys_to_show([key for arm in plan.arms if (key := arm.settings.lab.get("key"))])
        self._lab = Lab()
        self._distances = {arm.name: plan.study.distance(arm.levels) for arm in plan.arms}
        round_trips = {self._distances[arm.name]: plan.study.round_trip_ms(arm.levels) for arm in plan.arms}
        used = {kind for kind in ENTRANCES for arm in plan.arms if kind.setting in arm.settings.lab}
        separate = self._program.separate_clients or any(kind.separate_clients for kind in used)
        self._star = Star(self._lab, round_trips, plan.seed, separate=separate, middle=middle_cores(plan.arms))
        self._tickets = Tickets()
        site = Site(self._lab, self._star, plan.arms, self._distances, self._keys[0], plan.seed)
        self._entrances = [kind(site) for kind in ENTRANCES]

    def _open(self, stack: ExitStack) -> None:
        stack.enter_context(self._lab)
        stack.enter_context(self._star)
        self.authority = Authority(self._lab.folder / "certificates")
        place = Place(self._lab, self._star.server, self.authority, self._keys, self._star.new_address)
        self.server = self._program(place)
        if self.needed_connections is not None:
            self.server.accept(self.needed_connections)
        stack.callback(self.server.close)
        self.server.start()
        # Make the tables before the load, because instruments may look at the tables as soon as they connect.
        self.server.make_tables()
        for each in self._entrances:
            stack.callback(each.close)
            each.start(self.server, self.authority)
        self._star.measure()

    def endpoint(self, arm: PlannedArm) -> Endpoint:
        settings = self.server.client_settings().with_settings(arm.settings.service)
        if entrance := self._entrance(arm):
            settings = entrance.redirect(settings, arm)
        return Endpoint(service=settings, transport=arm.settings.transport_trusting(self.authority.ca_file))

    def prefix(self, arm: PlannedArm) -> list[str]:
        return self._star.client(self._distances[arm.name]).prefix

    def prepare(self, arm: PlannedArm, load: LoadData) -> None:
        load(arm)
        self.server.settle()

    def writes(self) -> list[str]:
        return self._program.writes

    def arrange(self, arm: PlannedArm) -> None:
        for each in self._entrances:
            each.arrange(arm)
        entrance = self._entrance(arm)
        self.server.expect_tls(arm.settings.speaks_tls and not (entrance and entrance.end_tls))
        key = arm.settings.lab.get("key")
        if key is not None and self.server.show_key(key):
            self._tickets.invalidate()

    def wants_ticket(self, arm: PlannedArm) -> bool:
        return self._tickets.renew(arm)

    def links(self) -> list[LinkEvidence]:
        return self._star.links()

    def collect_evidence(self, arm: PlannedArm, stage: Stage) -> dict[str, str]:
        entrance = self._entrance(arm)
        return entrance.evidence(arm) if entrance and stage == "start" else {}

    def counters(self, server: str) -> Counters:
        """Return the counters of the entrance at 'address:port', or of the server if no entrance is there."""
        by_entrance = (each.counters(server) for each in self._entrances)
        return next((each for each in by_entrance if each is not None), None) or self.server.counters(server)

    def observe(self, arm: PlannedArm) -> Observation | None:
        entrance = self._entrance(arm)
        return entrance.observe(arm) if entrance else None

    def judge(
        self, arm: PlannedArm, before: Observation | None, after: Observation | None, answer: SliceAnswer
    ) -> Judgement:
        entrance = self._entrance(arm)
        return entrance.judge(arm, before, after, answer) if entrance else Judgement()

    def throttled_seconds(self) -> dict[str, float]:
        return _merged(each.throttled_seconds() for each in self._entrances)

    def warnings(self) -> list[str]:
        return [text for each in self._entrances for text in each.warnings()]

    def cpu_seconds(self) -> dict[str, float]:
        own = self._lab.cpu_seconds() | self._star.cpu_seconds() | self.server.cpu_seconds()
        return own | _merged(each.cpu_seconds() for each in self._entrances)

    def server_processes(self) -> list[tuple[str, int]]:
        return [*super().server_processes(), *self.server.further_processes()]

    @property
    def process_ids(self) -> dict[str, int]:
        return super().process_ids | dict(self.server.further_processes())

    def failure_reason(self, arm: PlannedArm | None = None) -> str | None:
        if arm is not None:
            entrance = self._entrance(arm)
            return entrance.failure_reason(arm) if entrance else None
        entrance_roles = {role for each in self._entrances for role in each.roles}
        for process in self._lab.dead():
            if process.role not in entrance_roles:
                return ended(process.name, process.exit_status)
        return self.server.failure_reason() or self._star.lost()

    def describe(self) -> Description:
        described = self.server.describe()
        return Description(
            versions=described.versions | _merged(each.versions() for each in self._entrances),
            topology=f"{described.topology} {self._star.words()}",
            facts=described.facts | _merged(each.facts() for each in self._entrances),
        )

    def _entrance(self, arm: PlannedArm) -> Entrances | None:
        """Return the kind of entrance that an arm uses, or None if its client connects to the server directly."""
        return next((each for each in self._entrances if each.has(arm)), None)


def _merged(dictionaries: Iterable[dict[str, Value]]) -> dict[str, Value]:
    return {name: value for each in dictionaries for name, value in each.items()}


def keys_to_show(arm_keys: Sequence[str]) -> list[str]:
    """Return the kinds of key that the server must have. The server presents the first one while arms are verified.

    If the arms need several kinds, the first one is `DEFAULT_KEY`, which all clients accept. Clients may refuse other
    kinds: only some arms accept a weak key, and an ECDSA key does not work with old cipher suites.
    """
    kinds = list(dict.fromkeys(arm_keys))
    first = kinds[0] if len(kinds) == 1 else DEFAULT_KEY
    return [first, *(kind for kind in kinds if kind != first)]


def service(plan: Plan) -> Service:
    return ServerLab(plan)
