"""The lab of a database server or similar program. Its clients are near or far, and connect directly or via a proxy.

Usually all arms (measured variants) use one server. Some arms may need another configuration of the server
(`lab.server` in a level). There is then one server for each configuration, and one more for the identical copy of the
control (the arm without the protection). Each server has its own data.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from costof.lab.certificates import DEFAULT_KEY, Authority, certificate_kind
from costof.lab.flushes import FlushEvidence, describe_file_system, flush_command
from costof.lab.lab import Lab
from costof.lab.program import Counters, Description
from costof.lab.round_trips import LinkEvidence
from costof.lab.topology import Star
from costof.messages.answers import SliceAnswer
from costof.messages.plan import Endpoint, ServiceSettings
from costof.programs.flushes import FLUSHES
from costof.programs.parts import ServerConfiguration, first, merged
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
from costof.study.schema import SERVER_PREFIX

ENTRANCES: tuple[type[Entrances], ...] = (Tunnels, Stunnels, Poolers, Pairs, Relays)


class Tickets:
    """A record of the arms (measured variants) whose clients have a TLS session ticket for the server's current key.

    At first all clients have a ticket, because they have connected once to verify their arms.
    """

    def __init__(self) -> None:
        self._changes = 0
        self._held_since: dict[str, int] = {}

    def invalidate(self) -> None:
        """Record that the server's key has changed. All tickets are then invalid."""
        self._changes += 1

    def renew(self, arm: PlannedArm) -> bool:
        """Return whether the arm's client needs a new ticket. Record that it has a valid one from now on."""
        held_since = self._held_since.get(arm.name, 0)
        self._held_since[arm.name] = self._changes
        return arm.settings.transport is not None and arm.settings.transport.resumption and held_since < self._changes


@dataclass(frozen=True)
class Readings(Observation):
    """The state of an arm's entrance (tunnel, pooler or proxy), and the counters of the arm's server."""

    entrance: Observation | None = None
    server: dict[str, float] = field(default_factory=dict)


@dataclass
class Configured:
    """One server of the lab, with the names of its processes, and the tunnels, poolers and proxies in front of it.

    `start_seconds` is the duration of the server's start, and `load_seconds` the duration of loading its data.
    `tickets` records which of its clients have a valid TLS session ticket.
    """

    server: LabServer
    processes: frozenset[str]
    entrances: Sequence[Entrances]
    start_seconds: float
    load_seconds: float | None = None
    tickets: Tickets = field(default_factory=Tickets)


class ServerLab(LabService):
    """A lab in which arms use a server directly or through an entrance (tunnel, stunnel, pooler, sidecar or relay).

    If an entrance or a server fails, only the arms that use it fail. The run fails if the server of a control (an arm
    without the protection, such as TLS) or a network link fails.
    """

    def __init__(self, plan: Plan, program: type[LabServer] | None = None) -> None:
        """Prepare a lab with the study's server program, or with `program` if given.

        Raises `NO_SERVICE`, `NO_PROGRAM_IN_FOLDER`.
        """
        self._program = program or lab_server(plan.study.service.program)
        self._configuration = {
            arm.name: self._program.configuration_type.model_validate(arm.settings.lab.get("server", {}))
            for arm in sorted(plan.arms, key=lambda arm: (not arm.control, arm.replicate))
        }
        configurations = [*self._configuration.values()]
        for each in configurations:
            self._program.check(each)
        # If arms (variants) need different servers, the identical copy of the control (the arm without the protection)
        # gets its own server too. Otherwise control and copy would share a server, and whichever is measured later
        # would find warm caches. It would seem faster than arms with their own servers.
        several_servers = any(each != configurations[0] for each in configurations)
        #: Identifies each arm's server by its configuration, and by whether it belongs to the identical copy of the
        #: control (the arm without the protection).
        self._server_of = {
            arm.name: (self._configuration[arm.name], several_servers and arm.replicate) for arm in plan.arms
        }
        #: The different values in `_server_of`, one for each server. The first belongs to the first control (arm
        #: without the protection).
        self._distinct: list[tuple[ServerConfiguration, bool]] = []
        for name in self._configuration:
            if self._server_of[name] not in self._distinct:
                self._distinct.append(self._server_of[name])
        self._arms = plan.arms
        self._kinds = {name: each.kind for name, each in plan.study.workloads.items() if each.view == "wire"}
        self._records = plan.records
        self._client_statements = plan.client_statements
        self._client_certificates: dict[str, Path] = {}
        self._keys = keys_to_show([kind for arm in plan.arms if (kind := certificate_kind(arm.settings.lab))])
        self._counts_flushes = f"{SERVER_PREFIX}{FLUSHES}" in {each.phase for each in plan.study.metrics.values()}
        self._lab = Lab(on_disk=self._counts_flushes)
        self._distances = {arm.name: plan.study.distance(arm.levels) for arm in plan.arms}
        round_trips = {self._distances[arm.name]: plan.study.round_trip_ms(arm.levels) for arm in plan.arms}
        used = {kind for kind in ENTRANCES for arm in plan.arms if kind.setting in arm.settings.lab}
        separate = self._program.separate_clients or any(kind.separate_clients for kind in used)
        self._star = Star(self._lab, round_trips, plan.seed, separate=separate, middle=middle_cores(plan.arms))
        self._by_server = [
            self._entrances_before(number, each, plan.seed) for number, each in enumerate(self._distinct, start=1)
        ]
        self._entrances = [each for entrances in self._by_server for each in entrances]

    def _entrances_before(
        self, number: int, server: tuple[ServerConfiguration, bool], seed: int
    ) -> Sequence[Entrances]:
        arms = [arm for arm in self._arms if self._server_of[arm.name] == server]
        site = Site(self._lab, self._star, arms, self._distances, self._keys[0], seed, number)
        return [kind(site) for kind in ENTRANCES]

    def _open(self, stack: ExitStack) -> None:
        stack.enter_context(self._lab)
        stack.enter_context(self._star)
        self.authority = Authority(self._lab.folder / "certificates")
        self._servers = [
            self._start(number, configuration, stack)
            for number, (configuration, _) in enumerate(self._distinct, start=1)
        ]
        self._current = self._servers[0]
        for configured in self._servers:
            for each in configured.entrances:
                stack.callback(each.close)
                each.start(configured.server, self.authority)
        self._star.measure()

    def _start(self, number: int, configuration: ServerConfiguration, stack: ExitStack) -> Configured:
        others = set(self._lab.processes)
        place = Place(
            self._lab,
            self._star.server,
            self.authority,
            self._keys,
            self._star.new_address,
            configuration,
            number,
            self._kinds,
            self._records,
            self._client_statements,
        )
        server = self._program(place)
        if self.needed_connections is not None:
            server.accept(self.needed_connections)
        stack.callback(server.close)
        started = time.monotonic()
        server.start()
        start_seconds = time.monotonic() - started
        # Create the tables before clients connect: the load generator may look at them when it connects.
        server.make_tables()
        own = frozenset(set(self._lab.processes) - others)
        return Configured(server, own, self._by_server[number - 1], start_seconds)

    @property
    def server(self) -> LabServer:
        return self._servers[0].server

    def endpoint(self, arm: PlannedArm) -> Endpoint:
        settings = self._client_settings(arm)
        if entrance := self._entrance(arm):
            settings = entrance.redirect(settings, arm)
        transport = arm.settings.transport_trusting(self.authority.ca_file)
        if self._configuration[arm.name].client_certificates:
            transport = transport.presenting(self._client_certificate(arm))
        return Endpoint(service=settings, transport=transport)

    def prefix(self, arm: PlannedArm) -> list[str]:
        return self._star.client(self._distances[arm.name]).prefix

    def prepare(self, arms: Sequence[PlannedArm], load: LoadData) -> None:
        """Load the data into each server, over connections of the first arm that uses this server."""
        for each in self._servers:
            using = [arm for arm in arms if self._configured(arm) is each]
            if using:
                started = time.monotonic()
                load(using[0])
                each.server.settle()
                each.load_seconds = time.monotonic() - started

    def writes(self) -> list[str]:
        return self._program.writes

    def arrange(self, arm: PlannedArm) -> None:
        self._current = self._configured(arm)
        for each in self._entrances:
            each.arrange(arm)
        entrance = self._entrance(arm)
        self._current.server.expect_tls(arm.settings.speaks_tls and not (entrance and entrance.end_tls))
        key = certificate_kind(arm.settings.lab)
        if key is not None and self._current.server.show_key(key):
            self._current.tickets.invalidate()

    def wants_ticket(self, arm: PlannedArm) -> bool:
        return self._configured(arm).tickets.renew(arm)

    def links(self) -> list[LinkEvidence]:
        return self._star.links()

    def measure_flush(self, seconds: float) -> FlushEvidence | None:
        if not self._counts_flushes:
            return None
        name = "flush"
        self._lab.run(name, flush_command(self._lab.folder, self._program.appends, seconds))
        return FlushEvidence.model_validate_json((self._lab.folder / f"{name}.log").read_bytes().splitlines()[-1])

    def collect_evidence(self, arm: PlannedArm, stage: Stage) -> dict[str, str]:
        entrance, own = self._entrance(arm), self._configured(arm)
        facts = own.server.evidence()
        if stage == "start" and len(self._servers) > 1:
            took = {"start of the server": own.start_seconds, "load of the data": own.load_seconds}
            facts |= {what: f"{each:.2f} s" for what, each in took.items() if each is not None}
        return facts | (entrance.evidence(arm) if entrance and stage == "start" else {})

    def counters(self, server: str) -> Counters:
        """Return the counters of the entrance (proxy or pooler) that listens at `server` ('address:port').

        If no entrance listens there, return the counters of the server of the current arm.
        """
        by_entrance = (each.counters(server) for each in self._entrances)
        return first(by_entrance) or self._current.server.counters(server)

    def finish_counting(self, arm: PlannedArm) -> None:
        self._configured(arm).server.finish_counting()

    def observe(self, arm: PlannedArm) -> Observation | None:
        entrance, server = self._entrance(arm), self._configured(arm).server
        return Readings(entrance.observe(arm) if entrance else None, server.readings())

    def judge(
        self, arm: PlannedArm, before: Observation | None, after: Observation | None, answer: SliceAnswer
    ) -> Judgement:
        was, now = (each if isinstance(each, Readings) else Readings() for each in (before, after))
        entrance = self._entrance(arm)
        judged = entrance.judge(arm, was.entrance, now.entrance, answer) if entrance else Judgement()
        increases = {name: count - was.server[name] for name, count in now.server.items() if name in was.server}
        mismatch = (
            judged.mismatch
            or self._configured(arm).server.mismatch(increases, answer)
            or self._client_settings(arm).mismatch(increases, answer, shared=False)
        )
        figures = {name: count / answer.operations for name, count in increases.items() if answer.operations}
        return replace(judged, mismatch=mismatch, figures=judged.figures | figures)

    def throttled_seconds(self) -> dict[str, float]:
        return merged(each.throttled_seconds() for each in self._entrances)

    def warnings(self) -> list[str]:
        return [text for each in self._entrances for text in each.warnings()]

    def cpu_seconds(self) -> dict[str, float]:
        # Servers of other arms do nothing for the current arm, so leave them out.
        others = {name for each in self._servers if each is not self._current for name in each.processes}
        own = self._lab.cpu_seconds(others) | self._star.cpu_seconds() | self._current.server.cpu_seconds()
        return own | merged(each.cpu_seconds() for each in self._entrances)

    def server_processes(self) -> list[tuple[str, int]]:
        return [
            *super().server_processes(),
            *(pair for each in self._servers for pair in each.server.further_processes()),
        ]

    @property
    def process_ids(self) -> dict[str, int]:
        return super().process_ids | {
            name: pid for each in self._servers for name, pid in each.server.further_processes()
        }

    def failure_reason(self, arm: PlannedArm | None = None) -> str | None:
        if arm is not None:
            entrance, own = self._entrance(arm), self._configured(arm).processes
            ended_ones = (ended(each.name, each.exit_status) for each in self._lab.dead() if each.name in own)
            return next(ended_ones, None) or (entrance.failure_reason(arm) if entrance else None)
        entrance_roles = {role for each in self._entrances for role in each.roles}
        needed = [self._configured(arm) for arm in self._arms if arm.control]
        dispensable = {name for each in self._servers if each not in needed for name in each.processes}
        for process in self._lab.dead():
            if process.role not in entrance_roles and process.name not in dispensable:
                return ended(process.name, process.exit_status)
        return self.server.failure_reason() or self._star.lost()

    def describe(self) -> Description:
        described, *others = [each.server.describe() for each in self._servers]
        count = len(self._servers)
        several = f"{count} servers, one for each configuration and for the control's copy,"
        topology = described.topology if count == 1 else several
        return Description(
            versions=_joined([described.versions, *(each.versions for each in others)])
            | merged(each.versions() for each in self._entrances),
            topology=f"{topology} {self._star.words()}",
            facts=_joined([described.facts, *(each.facts for each in others)])
            | self._disk()
            | merged(each.facts() for each in self._entrances),
        )

    def _disk(self) -> dict[str, str]:
        folder = self._lab.folder
        return {"servers' data": f"{folder.parent}, {describe_file_system(folder)}"} if self._counts_flushes else {}

    def _client_certificate(self, arm: PlannedArm) -> Path:
        """Return a client certificate for an arm, with the same kind of key as its server's certificate."""
        kind = str(arm.settings.lab.get("key", DEFAULT_KEY))
        if kind not in self._client_certificates:
            self._client_certificates[kind] = self.authority.issue("client", kind, ["client"])
        return self._client_certificates[kind]

    def _client_settings(self, arm: PlannedArm) -> ServiceSettings:
        return self._configured(arm).server.client_settings().with_settings(arm.settings.service)

    def _configured(self, arm: PlannedArm) -> Configured:
        return self._servers[self._distinct.index(self._server_of[arm.name])]

    def _entrance(self, arm: PlannedArm) -> Entrances | None:
        """Return the entrances of the kind that an arm uses, such as all tunnels; None if it needs no entrance."""
        return next((each for each in self._entrances if each.has(arm)), None)


def _joined(dictionaries: Sequence[dict[str, str]]) -> dict[str, str]:
    """Merge dictionaries. Different texts for the same key are joined with ' | '."""
    joined: dict[str, dict[str, None]] = {}
    for each in dictionaries:
        for name, text in each.items():
            joined.setdefault(name, {})[text] = None
    return {name: " | ".join(texts) for name, texts in joined.items()}


def keys_to_show(arm_keys: Sequence[str]) -> list[str]:
    """Return the kinds of key, such as 'rsa-2048', for which the server needs certificates.

    The server uses the first kind while the arms are verified. If the arms (variants) need several kinds, the first
    kind is `DEFAULT_KEY`, which the clients of all arms accept. Some clients do not accept other kinds: only some arms
    allow a weak key, and an ECDSA key does not work with old cipher suites.
    """
    kinds = list(dict.fromkeys(arm_keys))
    first = kinds[0] if len(kinds) == 1 else DEFAULT_KEY
    return [first, *(kind for kind in kinds if kind != first)]


def service(plan: Plan) -> Service:
    return ServerLab(plan)
