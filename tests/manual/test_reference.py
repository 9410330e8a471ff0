"""The reference and the manual pages are complete."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import get_args

import click
import pytest

from costof.cli.main import COMMANDS
from costof.report.result import Result
from costof.results.ledger import AnyRecord
from costof.run.events import Event
from costof.studies import study_names
from costof.study.library import load_study
from costof.study.plan import Plan
from costof.study.schema import Study
from manual import costs, llms, processors, published
from manual.__main__ import index, reference
from manual.commands import contexts, write_manual_pages
from manual.reports import ROOT
from tests.manual.command_lines import committed_pages

RECORDS = get_args(AnyRecord)


@functools.cache
def pages() -> dict[str, str]:
    return reference()


def sections(page: str) -> dict[str, str]:
    _, *texts = re.split(r"^## (.+)\n", pages()[page], flags=re.MULTILINE)
    return dict(zip(texts[::2], texts[1::2], strict=True))


def cli_commands() -> dict[str, click.Command]:
    return {context.info_name: context.command for context in contexts() if context.info_name}


def options(command: click.Command) -> set[str]:
    shown = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
    return {name for each in shown for name in (*each.opts, *each.secondary_opts)}


def test_reference_lists_each_command_with_all_its_options() -> None:
    commands = sections("commands")
    assert set(commands) == {f"costof {name}" for name in COMMANDS}
    for context in contexts():
        listed = set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", commands[f"costof {context.info_name}"]))
        assert options(context.command) - listed == set(), context.info_name


@pytest.mark.parametrize(
    ("page", "title", "model"),
    [("study-file", "Study", Study), ("result", "Result", Result), ("ledger", "Plan", Plan)]
    + [("ledger", record.__name__, record) for record in RECORDS]
    + [("events", event.__name__, event) for event in get_args(Event)],
)
def test_reference_lists_each_data_model_with_all_its_fields(page: str, title: str, model: type) -> None:
    listed = set(re.findall(r"^\| `(\w+)` \|", sections(page)[title], re.MULTILINE))
    fields = {field.alias or name for name, field in model.model_fields.items()}
    # The name of a study is the name of its file, not a field in it.
    assert fields - listed == ({"name"} if page == "study-file" else set())


@pytest.mark.parametrize("page", ["study-file", "result", "ledger", "events"])
def test_each_link_from_a_field_leads_to_a_table_on_the_same_page(page: str) -> None:
    tables = {title.lower() for title in sections(page)}
    assert set(re.findall(r"\]\(#(\w+)\)", pages()[page])) - tables == set()


def test_reference_describes_the_output_of_each_command_that_has_option_json() -> None:
    with_json = {name for name, command in cli_commands().items() if "--json" in options(command)}
    assert set(re.findall(r"^\| `(\w+)` \|", sections("result")["Commands"], re.MULTILINE)) == with_json


@pytest.mark.parametrize("name", study_names())
def test_reference_lists_each_study_with_its_factor_levels(name: str) -> None:
    text = sections("studies")[name]
    for factor, spec in load_study(name).factors.items():
        row = next(line for line in text.splitlines() if line.startswith(f"| `{factor}` "))
        assert set(spec.levels) - set(re.findall(r"`([^`]+)`", row)) == set()


def test_each_command_has_a_manual_page_with_all_its_options(tmp_path: Path) -> None:
    write_manual_pages(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"costof.1", *(f"costof-{name}.1" for name in COMMANDS)}
    assert all(rf"\fB{name}\fP" in (tmp_path / "costof.1").read_text() for name in COMMANDS)
    for context in contexts():
        text = (tmp_path / f"costof-{context.info_name}.1").read_text().replace("\\-", "-")
        assert [option for option in options(context.command) if option not in text] == []


def test_each_page_of_the_docs_is_in_the_navigation() -> None:
    listed = [page for _, pages in llms.navigation() for page in pages]
    committed = [str(path.relative_to(ROOT / "docs")) for path in committed_pages()[1:]]
    made = ["index.md", "costs.md", "published.md", "processors.md", *(f"reference/{name}.md" for name in pages())]
    assert sorted(listed) == sorted([*committed, *made])


def test_llms_txt_has_each_page_with_its_first_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Committed pages stand in for the whole site, because making the other pages takes long."""
    for page in committed_pages()[1:]:
        copy = tmp_path / page.relative_to(ROOT / "docs")
        copy.parent.mkdir(exist_ok=True, parents=True)
        copy.write_text(page.read_text())
    generated = {"index": index([]), "costs": costs.HEAD, "published": published.HEAD, "processors": processors.HEAD}
    for name, text in {**generated, **{f"reference/{name}": text for name, text in reference().items()}}.items():
        (tmp_path / "reference").mkdir(exist_ok=True)
        (tmp_path / f"{name}.md").write_text(text)
    monkeypatch.setattr(llms, "DOCS", tmp_path)
    text = llms.llms_text()
    assert re.findall(r"\]\(([^)]+)\)", text) == [
        str(Path(page).with_suffix(".html")) for _, pages in llms.navigation() for page in pages
    ]
    pages_without = [line for line in text.splitlines() if line.startswith("- ") and "): " not in line]
    assert pages_without == []


def test_first_page_does_not_link_to_files_that_are_missing_on_the_site() -> None:
    assert "(`CONTRIBUTING.md`)" in index([])
    assert not re.search(r"\]\([A-Z]+\.md\)", index([]))
