"""The effort to add a protocol, in files and lines: a copy of the repository gets a toy protocol and measures it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.toy.tree import Tree, assert_answered

#: The lines that a contributor of a protocol adds to the lists of the contract tests.
SERVICE = '    "echo-lab": lambda: in_lab(Kind("echo-tls", counted_as="TLSv1.3", records=False)),\n'
PROGRAM = '    "echo": functools.partial(standing_server, "echo"),\n'


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """Return a copy of the repository with a toy protocol, its server program, a study, and entries in the tests."""
    tree = Tree(tmp_path_factory.mktemp("echo"))
    tree.lay("protocol")
    tree.insert("engine/crates/wire/src/lib.rs", "pub mod echo;\n", before="pub mod http;\n")
    tree.insert("engine/crates/wire/src/lib.rs", "    echo::PROTOCOL,\n", before="    http::PROTOCOL,")
    tree.insert("tests/support/programs.py", PROGRAM, before='    "haproxy": ')
    tree.insert("tests/support/services.py", SERVICE, before='    "http-lab": ')
    tree.build_engine()
    return tree


def test_adding_a_protocol_needs_four_new_files_and_four_new_lines(echo: Tree) -> None:
    assert echo.touched() == [
        "costof/programs/echo.py",
        "costof/studies/echo-tls.toml",
        "engine/crates/wire/src/echo/",
        # The two lines are the module's declaration and its entry in the list of protocols.
        "engine/crates/wire/src/lib.rs +2 -0",
        "tests/support/programs.py +1 -0",
        "tests/support/services.py +1 -0",
    ]


def test_added_protocol_passes_linters_and_project_rules(echo: Tree) -> None:
    echo.run("cargo", "fmt", "--all", "--check", cwd=echo.root / "engine")
    echo.run("ruff", "check", ".")
    echo.run("ruff", "format", "--check", ".")
    echo.run("mypy", "costof/programs/echo.py")
    echo.run("lint-imports", "--no-cache")
    echo.run("python", "-m", "pytest", "tests/unit/test_house.py")


@pytest.mark.servers
def test_added_protocol_can_be_measured(echo: Tree, tmp_path: Path) -> None:
    assert "What does TLS cost an echo?" in echo.costof("list")
    echo.costof("run", "echo-tls", "--profile", "quick", "--rounds", "2", "--out", "run", cwd=tmp_path)
    assert_answered(tmp_path / "run")


@pytest.mark.servers
def test_added_protocol_passes_the_tests_that_every_protocol_must_pass(echo: Tree) -> None:
    tested = echo.run("python", "-m", "pytest", "tests/contract", "-k", "echo", "-v")
    for contract in ("programs", "service", "studies"):
        assert f"tests/contract/test_{contract}.py ." in tested
