"""The corpus of attacks before a real MariaDB: as text and prepared, in plain and under TLS."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from costof.lab.lab import Lab
from costof.programs.gateway import GatewayProcess
from tests.gateway import site as sites
from tests.gateway.canaries import Canaries
from tests.gateway.corpus import CASES, NAMES, OPEN_CASES, SALARIES, STRICT_CASES, Case, Step
from tests.gateway.site import Site
from tests.support.programs import running_mariadb
from tests.support.raw_mysql import Answer, Client

pytestmark = pytest.mark.servers

OPEN = 'predicates = "allow"\nexpressions = "encrypt"\n'
STRICT = 'predicates = "refuse"\n'
SETTINGS = [("", ""), ("open", OPEN), ("strict", STRICT)]
CANARIES = Canaries(NAMES, SALARIES)

# What no server of this kind knows ends there as a syntax error, and what it cannot prepare as a refusal of its own. A
# name in another case is another name to some servers.
SYNTAX_ERROR, NOT_PREPARED, NO_SUCH_TABLE, NO_SUCH_COLUMN, NO_SUCH_FUNCTION = 1064, 1295, 1146, 1054, 1305
DATA_THAT_STAYS = (b"SELECT", b"SHOW", b"SET", b"USE", b"WITH", b"(")


@pytest.fixture(scope="module")
def site(lab: Lab) -> Iterator[Site]:
    with running_mariadb(lab) as server, GatewayProcess() as process:
        sites.make_database(server)
        yield sites.begin(process, lab, server, SETTINGS)


def is_refused(answer: Answer) -> bool:
    if answer.error is None:
        return False
    number, words = answer.error
    return not answer.rows and ("the gateway" in words or number in (SYNTAX_ERROR, NO_SUCH_COLUMN))


def check(step: Step, answer: Answer, *, is_open: bool) -> None:
    """Whether a step ended as it should."""
    expects = step.expects
    if expects == "R" and is_open:
        expects = "RS"
    context = f"{step.statement!r}: {answer}"
    assert not answer.over, context
    if is_refused(answer) and "R" in expects:
        return
    if expects == "RS" and answer.error is not None and answer.error[0] in (NO_SUCH_TABLE, NO_SUCH_FUNCTION):
        return
    if expects == "E":
        assert answer.error is not None, context
        assert answer.error[0] == step.error, context
        return
    assert expects != "R", f"not refused: {context}"
    assert answer.error is None, context
    if step.expects in ("R", "RS"):
        assert any(answer.is_sealed(place) for place in range(len(answer.columns))), f"nothing is sealed: {context}"
    if "S" in expects and step.expects != "R":
        assert all(answer.is_sealed(place) for place in step.sealed), f"not sealed: {context}"
    if step.rows is not None:
        assert len(answer.rows) == len(step.rows), context
        texts = all(column.type not in (3, 8) for column in answer.columns)
        assert answer.rows == step.rows or not texts, context


def play(site: Site, client: Client, case: Case, *, prepared: bool, is_open: bool) -> None:
    for step in case.steps:
        answer = client.prepared(step.statement) if prepared else client.query(step.statement)
        assert not CANARIES.found(bytes(client.received)), f"{step.statement!r}: {answer}"
        if prepared and step.expects == "P" and answer.error and answer.error[0] == NOT_PREPARED:
            continue
        check(step, answer, is_open=is_open)


def run(site: Site, case: Case, settings: str, *, prepared: bool, secured: bool) -> None:
    try:
        with site.client(settings, secured=secured) as client:
            assert client.refusal is None
            play(site, client, case, prepared=prepared, is_open=settings == "open")
    finally:
        if not all(step.statement.startswith(DATA_THAT_STAYS) for step in case.steps):
            site.fill()


def named(cases: list[Case]) -> list[object]:
    return [pytest.param(case, id=f"{case.number}-{place}") for place, case in enumerate(cases)]


@pytest.mark.parametrize("secured", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("prepared", [False, True], ids=["text", "prepared"])
class TestCorpus:
    @pytest.mark.parametrize("case", named(CASES))
    def test_by_default(self, site: Site, case: Case, prepared: bool, secured: bool) -> None:
        run(site, case, "", prepared=prepared, secured=secured)

    @pytest.mark.parametrize("case", named(OPEN_CASES))
    def test_where_all_is_allowed_and_encrypted(self, site: Site, case: Case, prepared: bool, secured: bool) -> None:
        run(site, case, "open", prepared=prepared, secured=secured)

    @pytest.mark.parametrize("case", named(STRICT_CASES))
    def test_where_nothing_is_compared(self, site: Site, case: Case, prepared: bool, secured: bool) -> None:
        run(site, case, "strict", prepared=prepared, secured=secured)


@pytest.mark.parametrize("prepared", [False, True], ids=["text", "prepared"])
def test_without_a_gateway_the_oracle_finds_what_leaks(site: Site, prepared: bool) -> None:
    """Else it could not tell that there is nothing to find behind one."""
    leaks = 0
    for case in CASES:
        with site.direct() as client:
            for step in case.steps:
                # Only what answers from tables: nothing here may change them, or wait.
                if step.statement.startswith((b"SELECT", b"(", b"WITH")) and b"INTO" not in step.statement:
                    client.prepared(step.statement) if prepared else client.query(step.statement)
            leaks += bool(CANARIES.found(bytes(client.received)))
    assert leaks >= 45, leaks
    with site.client(user=sites.USER) as client:
        client.query(b"SELECT name FROM people WHERE id = 2")
        assert CANARIES.found(bytes(client.received)), "an account with plaintext gets it"
