"""The canary campaign: servers and gateways for `engine/canary`, which attacks them.

`python -m tests.gateway.campaign [--seconds N]` attacks without end, or so long (`make fuzz`); what it finds is written
to tests/gateway/finds, from where every later test plays it.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from costof.errors import CostofError
from costof.lab.certificates import Authority, write_private
from costof.lab.lab import Lab
from costof.messages.process import Instrument
from costof.programs.gateway import GatewayListener, GatewayProcess
from costof.programs.mariadb.server import MariadbServer

ENGINE = Path(__file__).parents[2] / "engine"
WEAKENED = ENGINE / "target" / "weakened"
FINDS = Path(__file__).with_name("finds")
SHOP, CATALOGUE, ADMIN = "shop", "catalogue", "admin"
PROTECTED = (
    ("people", "name"),
    ("people", "salary"),
    ("owners", "name"),
    ("badges", "holder"),
    ("odd", "number"),
    ("odd", "prénom"),
    ("odd", "hidden"),
    ("moments", "at"),
    ("moments", "bits"),
    ("kinds", "address"),
    ("kinds", "latin"),
    ("kinds", "since"),
    ("kinds", "amount"),
    ("kinds", "padded"),
    ("kinds", "until"),
    ("graded", "cap"),
)

# What both servers must do alike: plans follow counts, which are not renewed. Nothing waits for the disk.
SETTINGS = {
    "innodb-stats-auto-recalc": "OFF",
    "innodb-flush-log-at-trx-commit": "0",
    "debug-no-sync": "ON",
    # Seconds. A join of everything with everything takes minutes; a gateway that hangs is told by a longer wait.
    "max-statement-time": "10",
    # The order in which rows are read is a covering index's, and so tells of protected values: which row of a group a
    # value is of tells the same (docs/column-encryption.md, "What is still seen").
    # A server with other quotes tells expressions with them.
    "sql-mode": "ANSI_QUOTES,ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION",
}


@dataclass(frozen=True)
class Target:
    """Rules, and the database that is attacked through them. Where anything may be compared, two sides cannot be."""

    name: str
    predicates: str
    settings: str
    sides: int = 2

    @property
    def database(self) -> str:
        return f"d_{self.name}"


EQUALITY = Target("equality", "equality", 'predicates = "equality"\nexpressions = "refuse"\n')
STRICT = Target("strict", "refuse", 'predicates = "refuse"\nexpressions = "refuse"\n')
OPEN = Target("open", "allow", 'predicates = "allow"\nexpressions = "encrypt"\n', sides=1)
TARGETS = (EQUALITY, STRICT, OPEN)


@dataclass
class Ground:
    """Two servers, and the logins past gateways."""

    lab: Lab
    servers: list[MariadbServer]
    password: str

    def logins(self) -> list[dict[str, str]]:
        return [_login(f"{server.address}:{server.port}", ADMIN, self.password) for server in self.servers]

    def planned(self, targets: Sequence[Target], addresses: Sequence[str]) -> list[dict[str, Any]]:
        """As the campaign's plan has them; an address for each target and side."""
        rest = iter(addresses)
        return [
            {
                "name": target.name,
                "database": target.database,
                "predicates": target.predicates,
                "gateways": [_login(next(rest), SHOP, self.password) for _ in range(target.sides)],
            }
            for target in targets
        ]

    @contextlib.contextmanager
    def gateways(self, targets: Sequence[Target], weakened: str | None = None) -> Iterator[list[dict[str, Any]]]:
        """A listener for each target and side; `weakened`: a check that the gateway goes without."""
        listeners = []
        for target in targets:
            rules_file = self.lab.folder / f"rules-{target.name}.toml"
            write_private(rules_file, self.rules(target).encode())
            listeners += [
                GatewayListener(address="127.0.0.1:0", rules_file=rules_file, server=f"{server.address}:{server.port}")
                for server in self.servers[: target.sides]
            ]
        with WeakenedGateway(weakened) if weakened else GatewayProcess() as process:
            yield self.planned(targets, process.begin(listeners).listeners)

    def rules(self, target: Target) -> str:
        columns = "".join(
            f'[[columns]]\ndatabase = "{target.database}"\ntable = "{table}"\ncolumn = "{column}"\n'
            for table, column in PROTECTED
        )
        check = f'[check]\nusername = "{CATALOGUE}"\npassword = "{self.password}"\n'
        key = f'[master_keys]\napp = "{secrets.token_hex(16)}"\n'
        accounts = f'[[accounts]]\nname = "{SHOP}"\nrole = "ciphertext"\nmaster_key = "app"\n'
        return 'unknown_clients = "ciphertext"\n' + target.settings + key + accounts + columns + check


class WeakenedGateway(GatewayProcess):
    """One that goes without a check: built for this alone, by a feature that no release has."""

    def __init__(self, check: str) -> None:
        build = ["cargo", "build", "--quiet", "--features", "gateway/weaken", "--target-dir", str(WEAKENED)]
        subprocess.run(build, cwd=ENGINE, check=True)
        argv = ["env", f"COSTOF_WEAKEN={check}", str(WEAKENED / "debug" / "costof-engine"), "gateway"]
        Instrument.__init__(self, f"a gateway without {check}", argv)
        self._threads = 1


@contextlib.contextmanager
def ground() -> Iterator[Ground]:
    with Lab() as lab:
        authority = Authority(lab.folder / "certificates")
        servers = [
            MariadbServer(lab, authority, [lab.address(1 + side)], name=f"mariadb-{side}", settings=SETTINGS)
            for side in range(2)
        ]
        password = secrets.token_urlsafe(24)
        with contextlib.ExitStack() as stack:
            for server in servers:
                stack.enter_context(contextlib.closing(server))
                server.start()
                _add_users(server, password)
            yield Ground(lab, servers, password)


def _login(address: str, user: str, password: str) -> dict[str, str]:
    return {"address": address, "user": user, "password": password}


def _add_users(server: MariadbServer, password: str) -> None:
    for user in (SHOP, CATALOGUE, ADMIN):
        server.ask(f"CREATE USER {user} IDENTIFIED VIA mysql_native_password USING PASSWORD('{password}')")
    # All that can be given: no refusal is to be for want of a privilege. The campaign's own account makes databases.
    server.ask(f"GRANT ALL ON *.* TO {SHOP}")
    server.ask(f"GRANT ALL ON *.* TO {ADMIN} WITH GRANT OPTION")
    server.ask(f"GRANT SELECT, SHOW VIEW ON *.* TO {CATALOGUE}")


def make_databases(ground: Ground, targets: Sequence[Target] = TARGETS) -> None:
    """A gateway looks at what its rules name when it starts: the databases must be there."""
    plan = {"servers": ground.logins(), "targets": [], "seed": 0}
    for target in targets:
        run("make", target.database, plan=plan)


@functools.cache
def program() -> list[str]:
    """Build it, and how it is called."""
    build = ["cargo", "build", "--quiet", "--package", "canary"]
    subprocess.run(build, cwd=ENGINE, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ENGINE / "target"))
    return [str(target / "debug" / "canary")]


def run(*arguments: str, plan: Mapping[str, Any]) -> dict[str, Any]:
    """Its report. The plan holds passwords, and so goes in on standard input."""
    done = subprocess.run([*program(), *arguments], input=json.dumps(plan), capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def attack(
    ground: Ground, targets: Sequence[Target] = TARGETS, *, weakened: str | None = None, **plan: Any
) -> dict[str, Any]:
    """One campaign: `seed`, `statements`, `seconds`, `finds`, `folder`, `twins`."""
    make_databases(ground, targets)
    with ground.gateways(targets, weakened) as attacked:
        return run("campaign", plan={"servers": ground.logins(), "targets": attacked, **plan})


def _crashed(lab: Lab) -> list[str]:
    """Servers that have ended: a client may know of it before the lab is told."""
    with contextlib.suppress(CostofError):
        lab.wait_until("the notice of a crash", lambda: bool(lab.dead()), seconds=5)
    return [process.name for process in lab.dead()]


def main() -> int:
    parser = argparse.ArgumentParser(description="Attack the gateway until Ctrl-C, or for so many seconds.")
    parser.add_argument("--seconds", type=int)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    FINDS.mkdir(exist_ok=True)
    statements = 0
    seed = options.seed if options.seed is not None else secrets.randbelow(1 << 32)
    while True:
        # In pieces, so that there is something to read in the meantime.
        piece = min(options.seconds, 60) if options.seconds is not None else 60
        with ground() as standing:
            report = attack(standing, seed=seed, seconds=piece, finds=20, folder=str(FINDS))
            crashed = _crashed(standing.lab) if report["errors"] else []
        statements += report["statements"]
        sys.stdout.write(f"seed {seed}: {statements} statements, {len(report['finds'])} finds\n")
        if crashed:
            sys.stdout.write(f"seed {seed}: {' and '.join(crashed)} crashed, by a bug of its own\n")
        sys.stdout.flush()
        if report["finds"] or (report["errors"] and not crashed):
            told = {name: report[name] for name in ("finds", "errors", "unrepeated")}
            sys.stdout.write(json.dumps(told, indent=2) + "\n")
            return 1
        seed += 1
        if options.seconds is not None:
            options.seconds -= piece
            if options.seconds <= 0:
                return 0


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
