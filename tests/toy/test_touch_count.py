"""What a new thing costs: each toy is laid over a copy of the repository, its files are counted, and it has to work."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.fake_run import fake_run
from tests.support.small_plans import plan_of
from tests.toy.tree import TOYS, Tree
from tests.truths.http_tls_termination import HttpTruth

COSTOF = ("python", "-m", "costof")
RUN = ("--profile", "quick", "--rounds", "2", "--out", "run")
STUDY = "costof/studies/mariadb-tls.toml"
#: What a new protocol's tester writes into the tables of the contracts.
SERVICE = '    "echo-lab": lambda: in_lab(Kind("echo-tls", counted_as="TLSv1.3", records=False)),\n'
PROGRAM = '    "echo": functools.partial(standing_server, "echo"),\n'


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """A protocol with its server program and a study, entered where protocols and contracts are listed."""
    tree = Tree(tmp_path_factory.mktemp("echo"))
    tree.lay("protocol")
    tree.insert("engine/crates/wire/src/lib.rs", "pub mod echo;\n", before="pub mod http;\n")
    tree.insert("engine/crates/wire/src/lib.rs", "    echo::PROTOCOL,\n", before="    http::PROTOCOL,")
    tree.insert("tests/support/programs.py", PROGRAM, before='    "haproxy": ')
    tree.insert("tests/support/services.py", SERVICE, before='    "http-lab": ')
    tree.build_engine()
    return tree


def test_a_protocol_is_four_files_and_a_line_in_each_contract(echo: Tree) -> None:
    assert echo.touched() == [
        "costof/programs/echo.py",
        "costof/studies/echo-tls.toml",
        "engine/crates/wire/src/echo/",
        # Its module, and its entry among all protocols.
        "engine/crates/wire/src/lib.rs +2 -0",
        "tests/support/programs.py +1 -0",
        "tests/support/services.py +1 -0",
    ]


def test_the_rules_of_the_house_hold_for_a_new_protocol(echo: Tree) -> None:
    echo.run("cargo", "fmt", "--all", "--check", cwd=echo.root / "engine")
    echo.run("ruff", "check", ".")
    echo.run("ruff", "format", "--check", ".")
    echo.run("mypy", "costof/programs/echo.py")
    echo.run("lint-imports", "--no-cache")
    echo.run("python", "-m", "pytest", "tests/unit/test_house.py")


@pytest.mark.servers
def test_a_new_protocol_is_asked_as_any_other(echo: Tree, tmp_path: Path) -> None:
    assert "What does TLS cost an echo?" in echo.run(*COSTOF, "list")
    echo.run(*COSTOF, "run", "echo-tls", *RUN, cwd=tmp_path)
    assert_answered(tmp_path / "run")


@pytest.mark.servers
def test_a_new_protocol_keeps_every_contract(echo: Tree) -> None:
    tested = echo.run("python", "-m", "pytest", "tests/contract", "-k", "echo", "-v")
    for contract in ("programs", "service", "studies"):
        assert f"tests/contract/test_{contract}.py ." in tested


@pytest.mark.servers
def test_a_study_is_one_file(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.lay("study")
    assert tree.touched() == [STUDY]
    assert "What does TLS cost a client of MariaDB?" in tree.run(*COSTOF, "list")
    tree.run(*COSTOF, "run", "mariadb-tls", *RUN, cwd=tmp_path)
    assert_answered(tmp_path / "run")


@pytest.mark.servers
def test_a_study_of_the_users_is_one_file_of_the_users(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    shutil.copy(TOYS / "study" / STUDY, tmp_path / "mine.toml")
    assert tree.touched() == []
    tree.run(*COSTOF, "run", "./mine.toml", *RUN, cwd=tmp_path)
    assert_answered(tmp_path / "run")


def test_a_section_is_one_file(tmp_path: Path) -> None:
    """It is in result.json, in the answer, on a console, in Markdown and on the page, between its neighbours."""
    tree = Tree(tmp_path)
    tree.lay("section")
    assert tree.touched() == ["costof/report/sections/slices.py"]
    fake_run(tmp_path / "run", plan_of("http-tls-termination"), HttpTruth(), rounds=5)
    printed = tree.run(*COSTOF, "show", "run", cwd=tmp_path)
    tree.run(*COSTOF, "report", "run", cwd=tmp_path)
    written, markdown, page = (
        (tmp_path / "run" / name).read_text() for name in ("result.json", "report.md", "report.html")
    )
    result = json.loads(written)
    slices = result["sections"]["slices"]["slices"]
    assert slices > 0
    assert f"It took {slices} slices." in [sentence["text"] for sentence in result["answer"]]
    assert f"How often     {slices} slices & no more" in printed
    assert f"## How often\n\n- {slices} slices & no more" in markdown
    assert f"<li>{slices} slices &amp; no more</li>" in page
    assert page.index('id="sizing"') < page.index('id="slices"') < page.index('id="ab"')


def test_a_section_keeps_its_contract_once_the_schema_is_made_anew(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.lay("section")
    schema = tree.run("python", "-m", "costof.report")
    (tree.root / "docs" / "result.schema.json").write_text(schema)
    tree.run("python", "-m", "pytest", "tests/contract/test_sections.py")


def assert_answered(run: Path) -> None:
    """With a figure of each metric, and the word of both ends that plain was plain and TLS was TLS."""
    result = json.loads((run / "result.json").read_text())
    assert result["partial"] is None
    assert {effect["metric"] for effect in result["effects"]} == {metric["name"] for metric in result["metrics"]}
    facts = {arm["name"]: evidence["facts"] for arm in result["arms"] for evidence in arm["evidence"]}
    assert "protocol" not in facts["plain"]
    assert facts["plain"]["TLS connections counted by the server"] == "none"
    assert facts["tls"]["protocol"] == "TLSv1.3"
    assert facts["tls"]["handshakes"] == facts["tls"]["connections"] != "0"
    assert facts["tls"]["TLS connections counted by the server"].endswith(f" {facts['tls']['connections']}")
