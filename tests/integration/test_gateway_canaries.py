"""Statements by a grammar against the gateway: nothing protected comes out, and two sides cannot be told apart.

The seeds are fixed and it ends by count, so that what lands does not hang on chance or on the machine; `make fuzz`
goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from costof.lab.certificates import write_private
from tests.gateway.campaign import EQUALITY, FINDS, OPEN, TARGETS, Ground, attack, ground, make_databases, run

pytestmark = pytest.mark.servers

# Each check that is switched off is missed within some 8,000 (`make fuzz-self-test`).
STATEMENTS = 15_000
# Noise comes rarely, and is the same for all rules.
STATEMENTS_OF_TWINS = 5_000
PRINTED = 1500
# Of what the generator takes for the subset that passes. More, and the attack would be hollow.
MOST_REFUSED = 0.35


@pytest.fixture(scope="module")
def standing() -> Iterator[Ground]:
    with ground() as made:
        yield made


def assert_nothing_came_out(report: dict[str, Any]) -> None:
    assert report["finds"] == []
    assert report["errors"] == []
    # Plans of two servers may differ by chance; a protected value does not come by chance.
    assert [what for what in report["unrepeated"] if not what.startswith("answers differ")] == []


def test_nothing_protected_comes_out(standing: Ground) -> None:
    report = attack(standing, seed=1, statements=STATEMENTS, finds=3)
    assert_nothing_came_out(report)
    assert report["statements"] >= STATEMENTS
    for target in TARGETS:
        sent, refused = (report[kind][f"{target.name} Subset"] for kind in ("sent", "refused"))
        assert refused <= MOST_REFUSED * sent, f"{target.name}: {refused} of {sent} are refused: {report['reasons']}"


def test_what_was_found_once_is_closed(standing: Ground) -> None:
    make_databases(standing)
    with standing.gateways(TARGETS) as attacked:
        plan = {"servers": standing.logins(), "targets": attacked, "seed": 0}
        assert run("replay", str(FINDS), plan=plan)["finds"] == []


def test_two_sides_with_the_same_data_answer_the_same(standing: Ground) -> None:
    """Else a difference would be the attack's own noise, and the second oracle worth nothing."""
    assert_nothing_came_out(attack(standing, [EQUALITY], seed=2, statements=STATEMENTS_OF_TWINS, twins=True))


def test_without_a_gateway_it_is_found_at_once(standing: Ground) -> None:
    make_databases(standing, [EQUALITY])
    addresses = [f"{server.address}:{server.port}" for server in standing.servers]
    plan = {"servers": standing.logins(), "targets": standing.planned([EQUALITY], addresses)}
    # A seed whose first statements change no table: past a gateway nothing refuses ALTER.
    report = run("campaign", plan={**plan, "seed": 1, "statements": 500})
    assert len(report["finds"]) == 1
    assert report["finds"][0]["after"] < 100


# Of vitess and others: see engine/canary/src/differential.rs.
WRONG_PRINTERS = ["without-parentheses", "without-escapes", "without-distinct", "swapped", "double-quotes"]


def test_what_is_printed_of_a_statement_is_the_statement(standing: Ground) -> None:
    """To the server, which keeps a view of either, and to another parser."""
    make_databases(standing, [OPEN])
    rules_file = standing.lab.folder / "printed.toml"
    write_private(rules_file, standing.rules(OPEN).encode())
    report = run("differential", OPEN.database, str(PRINTED), str(rules_file), plan=differential_plan(standing))
    assert report["differences"] == []
    assert report["printed"] >= 0.9 * PRINTED, report["refused"]
    assert min(report["compared"], report["read_twice"]) >= 0.7 * PRINTED


def differences(standing: Ground, printer: str) -> set[str]:
    make_databases(standing, [OPEN])
    return set(run("differential", OPEN.database, "400", printer, plan=differential_plan(standing))["differences"])


@pytest.fixture(scope="module")
def of_no_printer(standing: Ground) -> set[str]:
    """What is not printed anew is itself read in another way under some modes."""
    return differences(standing, "same")


@pytest.mark.parametrize("printer", WRONG_PRINTERS)
def test_wrong_printers_are_told(standing: Ground, of_no_printer: set[str], printer: str) -> None:
    assert differences(standing, printer) - of_no_printer


def differential_plan(standing: Ground) -> dict[str, Any]:
    return {"servers": standing.logins(), "targets": [], "seed": 4}
