"""The lab for studies of web application firewalls: nginx with ModSecurity in front of an HTTP server (the origin)."""

from __future__ import annotations

import http.client
import secrets
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Self

from costof import __version__
from costof.errors import CostofError, ErrorText
from costof.lab.lab import Lab
from costof.lab.program import Counters, Description
from costof.lab.topology import Chain
from costof.messages.answers import SliceAnswer
from costof.messages.plan import Endpoint
from costof.model import Model
from costof.programs.balancer import MANY_PORTS, Entrance
from costof.programs.http import HostConnection, HttpSettings
from costof.programs.modsecurity import Engine, ModSecurityNginx, Rules
from costof.programs.origin import ROLE as ORIGIN_ROLE
from costof.programs.origin import Listener, OriginProcess
from costof.services import Judgement, LabService, LoadData, Observation, Service, Stage, ended
from costof.services.firewall.requests import ATTACK, HOST, STRICT_ATTACK, Body, Request, request
from costof.study.arms import PlannedArm
from costof.study.plan import Plan

#: The name of the host (network namespace) on which all nginx processes run. Only one process has requests at a time.
FIREWALL = "firewall"
FIRST_ENTRANCE = 8000
ORIGIN_PORT = 9000
#: The CPU share of the host with nginx, in cores. nginx cannot use more, since it has one thread.
CORES = 1.0
#: The lowest paranoia level of the core rule set (strictness, 1 to 4) that recognizes `STRICT_ATTACK`.
STRICT_LEVEL = 2
#: Names of query parameters of test requests. `MARK` has a random value by which the request is found in the log, and
#: `SEARCH` has the attack.
MARK, SEARCH = "mark", "search"
PASSED, BLOCKED = http.client.OK, http.client.FORBIDDEN


class ArmLabSettings(Model):
    """The settings of an arm (measured variant) for the firewall and for the client's requests.

    `engine` is ModSecurity's mode, such as 'On'; None means an nginx without ModSecurity. `rules_before` are directives
    that are read before ModSecurity's recommended settings. `rules_after` are read after the core rule set.

    `inspects_json_up_to` is the size in bytes of the largest JSON body that the rules inspect; None means any size.
    `recognizes_html_in_json` is false if the rules about HTML ignore requests with JSON. No test request then has HTML
    in a JSON body. `body` is the body of the client's requests.
    """

    engine: Engine | None = None
    paranoia: int = 1
    rules_before: list[str] = []
    rules_after: list[str] = []
    inspects_json_up_to: int | None = None
    recognizes_html_in_json: bool = True
    body: Body | None = None

    @classmethod
    def from_arm(cls, arm: PlannedArm) -> Self:
        return cls.model_validate(arm.settings.lab)

    @property
    def rules(self) -> Rules | None:
        if self.engine is None:
            return None
        return Rules(self.engine, self.paranoia, tuple(self.rules_before), tuple(self.rules_after))

    @property
    def has_json(self) -> bool:
        return self.body is not None and self.body.content == "json"

    @property
    def attacks(self) -> list[Attack]:
        """The test requests for this arm (variant). Every active firewall recognizes the last one as an attack."""
        omits_html = self.has_json and not self.recognizes_html_in_json
        return [attack for attack in attacks(self.body) if not (attack.is_html and omits_html)]

    def expected(self, attack: Attack) -> str:
        """Return the outcome that this arm (variant) requires for a test request, such as '403, logged'."""
        recognized = self.engine not in (None, "Off") and attack.level <= self.paranoia
        if attack.in_body and self.has_json and self.body and self.inspects_json_up_to is not None:
            recognized &= self.body.bytes <= self.inspects_json_up_to
        return _outcome(BLOCKED if recognized and self.engine == "On" else PASSED, recognized)


@dataclass(frozen=True)
class Attack:
    """A test request. `level` is the lowest paranoia level at which the firewall recognizes it as an attack."""

    name: str
    request: Request
    level: int
    in_body: bool = False
    is_html: bool = False


#: The `level` of a harmless test request. It is above the highest paranoia level, 4.
HARMLESS = 5


@dataclass(frozen=True)
class Reading(Observation):
    logged: int


class FirewallLab(LabService):
    """A lab with one nginx process for each set of rules. All forward requests to one HTTP server, the origin.

    If an nginx process ends, the arms (measured variants) that use it fail. If the origin ends, the run fails.
    """

    def __init__(self, plan: Plan) -> None:
        self._lab = Lab()
        self._chain = Chain(self._lab, [FIREWALL], "an origin", plan.seed, CORES)
        self._rules = list(dict.fromkeys(ArmLabSettings.from_arm(arm).rules for arm in plan.arms))
        self._firewalls: dict[Rules | None, ModSecurityNginx] = {}
        self._mismatches: dict[str, str] = {}

    def _open(self, stack: ExitStack) -> None:
        stack.enter_context(self._lab)
        stack.enter_context(self._chain)
        host, address = self._chain.middle[FIREWALL], self._chain.addresses[FIREWALL]
        for each in (self._chain.client, host):
            if each.namespace is not None:
                self._lab.run(f"ports of {each.name}", [*each.prefix, "sh", "-ec", MANY_PORTS])
        origin = f"{self._chain.last_address}:{ORIGIN_PORT}"
        self._origin = stack.enter_context(OriginProcess(self._chain.last.prefix))
        self._origin.begin([Listener(address=origin)])
        for number, rules in enumerate(self._rules):
            name = f"nginx-{number}-{rules.name}" if rules else "nginx"
            entrance = Entrance(name, FIRST_ENTRANCE + number, origin)
            self._firewalls[rules] = ModSecurityNginx(name, rules, self._lab, host, address, [entrance])
            self._firewalls[rules].start()

    def endpoint(self, arm: PlannedArm) -> Endpoint:
        sent = request(ArmLabSettings.from_arm(arm).body)
        settings = HttpSettings(
            addresses=[self._firewall(arm).entry],
            host=HOST,
            path=sent.path,
            headers=[f"{name}: {value}" for name, value in sent.headers.items()],
            has_secrets=False,
            body=sent.body,
        )
        return Endpoint(
            service=settings.with_settings(arm.settings.service), transport=arm.settings.transport_trusting(None)
        )

    def prefix(self, arm: PlannedArm) -> list[str]:
        return self._chain.client.prefix

    def prepare(self, arms: Sequence[PlannedArm], load: LoadData) -> None: ...

    def writes(self) -> list[str]:
        return ["nothing: the lab's own servers get GET and POST requests and store nothing"]

    def collect_evidence(self, arm: PlannedArm, stage: Stage) -> dict[str, str]:
        """Send a harmless request and attacks. Return the outcome of each, such as '403, logged'.

        If an outcome contradicts the arm's settings at the start of the run, the arm fails. At the end of the run,
        `LAB_FAILED` is raised instead.
        """
        if self.failure_reason(arm) or self.failure_reason():
            return {}
        try:
            facts, mismatch = self._attack(arm)
        except (OSError, http.client.HTTPException, CostofError) as error:
            facts, mismatch = {}, f"its firewall could not be verified: {error}"
        if stage == "start":
            if mismatch is not None:
                self._mismatches[arm.name] = mismatch
            return facts
        if mismatch is not None:
            raise CostofError(ErrorText.LAB_FAILED, detail=f"after the last slice of '{arm.name}', {mismatch}")
        return {f"{name} at the end": outcome for name, outcome in facts.items()}

    def counters(self, server: str) -> Counters:
        firewall = next(each for each in self._firewalls.values() if each.entry == server)
        return firewall.counters(firewall.name)

    def cpu_seconds(self) -> dict[str, float]:
        return self._lab.cpu_seconds() | {ORIGIN_ROLE: self._origin.cpu_seconds()}

    def server_processes(self) -> list[tuple[str, int]]:
        return [*super().server_processes(), (ORIGIN_ROLE, self._origin.pid)]

    def observe(self, arm: PlannedArm) -> Observation | None:
        return Reading(self._firewall(arm).logged_bytes())

    def judge(
        self, arm: PlannedArm, before: Observation | None, after: Observation | None, answer: SliceAnswer
    ) -> Judgement:
        """Return a mismatch if the firewall's log has grown in a slice (measured window).

        All requests of a slice are harmless, so the firewall should log none of them.
        """
        if not isinstance(before, Reading) or not isinstance(after, Reading):
            return Judgement()
        if after.logged > before.logged:
            return Judgement(f"the firewall logged {after.logged - before.logged} bytes about harmless requests")
        return Judgement()

    def failure_reason(self, arm: PlannedArm | None = None) -> str | None:
        if arm is not None:
            return self._mismatches.get(arm.name) or self._firewall(arm).why_dead()
        return ended("origin", self._origin.ended())

    def describe(self) -> Description:
        versions = {ORIGIN_ROLE: f"costof-engine {__version__}"}
        facts: dict[str, str] = {}
        for firewall in self._firewalls.values():
            versions |= firewall.versions
            facts |= firewall.facts()
        return Description(versions=versions, topology=self._chain.words(), facts=facts)

    @property
    def process_ids(self) -> dict[str, int]:
        return super().process_ids | {"origin": self._origin.pid}

    def _firewall(self, arm: PlannedArm) -> ModSecurityNginx:
        return self._firewalls[ArmLabSettings.from_arm(arm).rules]

    def _attack(self, arm: PlannedArm) -> tuple[dict[str, str], str | None]:
        """Send the test requests. Return the outcome of each, and an error text or None.

        The error text names the outcome that contradicts the arm's settings; None if all outcomes are as required.
        """
        settings, firewall = ArmLabSettings.from_arm(arm), self._firewall(arm)
        marks = {secrets.token_hex(8): attack for attack in settings.attacks}
        before = firewall.logged_bytes()
        statuses = {
            mark: self._status(firewall, attack.request.with_parameter(MARK, mark)) for mark, attack in marks.items()
        }
        last = next(reversed(marks))
        if settings.expected(marks[last]) != _outcome(PASSED, logged=False):
            # nginx logs a request only after its answer, so wait. It logs requests in their order, so wait for the last
            # one.
            self._lab.wait_until("logging an attack", lambda: last in firewall.logged(before), only=firewall.process)
        log = firewall.logged(before)
        facts = {attack.name: _outcome(statuses[mark], mark in log) for mark, attack in marks.items()}
        wrong = next((attack for attack in marks.values() if facts[attack.name] != settings.expected(attack)), None)
        if wrong is None:
            return facts, None
        return facts, f"'{wrong.name}' was {facts[wrong.name]}, not {settings.expected(wrong)}"

    def _status(self, firewall: ModSecurityNginx, sent: Request) -> int:
        """Send a request from the client's host. Return the response's status. Raises OSError, HTTPException."""
        connection = HostConnection(self._chain.client, firewall.entry)
        try:
            headers = {**sent.headers, "Host": HOST, "User-Agent": f"costof/{__version__}", "Connection": "close"}
            connection.request(sent.method, sent.path, sent.body, headers)
            response = connection.getresponse()
            response.read()
        finally:
            connection.close()
        return response.status


def attacks(body: Body | None) -> list[Attack]:
    """Return test requests for arms (variants) whose clients send requests with this body, or without one (None)."""
    harmless = request(body)
    in_body = [Attack("attack at the end of the body", request(body, ATTACK), 1, in_body=True)] if body else []
    return [
        Attack("harmless request", harmless, HARMLESS),
        Attack("HTML in the query", harmless.with_parameter(SEARCH, STRICT_ATTACK), STRICT_LEVEL, is_html=True),
        *in_body,
        Attack("attack in the query", harmless.with_parameter(SEARCH, ATTACK), 1),
    ]


def _outcome(status: int, logged: bool) -> str:
    return f"{status}, {'logged' if logged else 'not logged'}"


def service(plan: Plan) -> Service:
    return FirewallLab(plan)
