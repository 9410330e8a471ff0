"""Simulated runs of `http-firewall`, in which only the CPU time of the firewall's rules differs.

nginx has one thread, in which the rules take CPU time for each request and each byte of its body. The rules take
more at paranoia level 2, and less with exclusions.
"""

from __future__ import annotations

from costof.study.arms import PlannedArm
from costof.study.plan import Plan
from tests.fake_run import Slice, Truth, phase_of
from tests.noise import Chance
from tests.truths.http_tls_termination import counts_of

OPERATIONS = 200
#: Times in ms: CPU time of nginx for a request without a firewall, time of a request outside nginx, time to connect.
NGINX_MS, ELSEWHERE_MS, CONNECT_MS = 0.03, 0.05, 0.06
#: CPU time of the rules in ms: for a request without a body, and for each KB of a body.
RULES_MS, RULES_KB_MS = 0.4, 0.15
#: Multipliers of the time of the rules, for levels of the factors `firewall`, `paranoia` and `tuning`.
SHARES = {
    "firewall": {"off": 0.0, "engine-off": 0.02, "detection": 1.0, "on": 1.0},
    "paranoia": {"2": 1.4},
    "tuning": {"without-languages": 0.8, "by-content-type": 0.6, "field-exclusion": 0.9},
}
BODY_KB = {"no-body": 0, "json-1kb": 1, "json-64kb": 64, "form-1kb": 1, "form-64kb": 64}
#: Size in KB of the largest JSON body that is inspected with the level `json-limit`.
JSON_LIMIT_KB = 8


def rules_ms(arm: PlannedArm) -> float:
    size = BODY_KB[arm.levels["request"]]
    is_limited = arm.levels.get("tuning") == "json-limit" and arm.levels["request"].startswith("json")
    inspected = 0 if is_limited and size > JSON_LIMIT_KB else size
    time = RULES_MS + RULES_KB_MS * inspected
    for factor, shares in SHARES.items():
        time *= shares.get(arm.levels.get(factor, ""), 1.0)
    return time


class FirewallTruth(Truth):
    def versions(self) -> dict[str, str]:
        return {"nginx": "1.22.1", "OWASP core rule set": "3.3.4"}

    def evidence_facts(self, arm: PlannedArm) -> dict[str, str]:
        outcome = {"on": "403, logged", "detection": "200, logged"}.get(arm.levels["firewall"], "200, not logged")
        return {"harmless request": "200, not logged", "attack in the query": outcome}

    def facts_at_end(self, arm: PlannedArm) -> dict[str, str]:
        return {f"{name} at the end": outcome for name, outcome in self.evidence_facts(arm).items()}

    def slice(self, plan: Plan, workload: str, arm: PlannedArm, chance: Chance) -> Slice:
        cpu_ms = NGINX_MS + rules_ms(arm)
        workers = plan.workers(workload, arm)
        # With several workers nginx is always busy, so a request waits for the requests of all other workers.
        waiting = cpu_ms * workers if workers > 1 else cpu_ms + ELSEWHERE_MS
        request = waiting * chance.times
        names = ("first_operation",) if workload == "connect" else ("request", "processing", "waiting")
        size = BODY_KB[arm.levels["request"]] * 1024.0
        phases = {name: phase_of(request, OPERATIONS, 1, 200.0 + size, 140.0) for name in names}
        whole = request
        if workload == "connect":
            connect = CONNECT_MS * chance.times
            whole += connect
            phases |= {name: phase_of(connect, OPERATIONS, 1, 0.0, 0.0) for name in ("tcp", "connect")}
            phases["connect_and_first_operation"] = phase_of(whole, OPERATIONS, 2, 200.0 + size, 140.0)
        opened = OPERATIONS if workload == "connect" else 0
        return Slice(
            operations=OPERATIONS,
            seconds=whole * OPERATIONS / workers / 1e3,
            phases=phases,
            cpu_seconds={
                "client": OPERATIONS * 1.5e-5,
                "nginx": cpu_ms * OPERATIONS / 1e3 * chance.more(0.01),
                "origin": OPERATIONS * 8e-6,
            },
            evidence={"connections": opened, "handshakes": 0, "server": "10.205.0.6:8000", "body_length": 2},
            tls=None,
            counts=counts_of(OPERATIONS, OPERATIONS - opened),
        )


TRUTHS = {"http-firewall": FirewallTruth()}
SMALL = {"http-firewall": ("request=json-1kb",)}
