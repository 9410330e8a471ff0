"""The sections of the report: found by their files, asked by their tables in a study, and told from each other."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from costof.errors import CostofError, Problem
from costof.report.result import Result
from costof.sections import check, every_section
from costof.study.library import load_study, study_names
from tests.fake_run import fake_run
from tests.support.small_plans import plan_of
from tests.truths.http_tls_termination import HttpTruth

TOY = '''
"""A section that counts what was measured."""

from costof.analysis.section import Section, sentences
from costof.document.blocks import Bullets
from costof.model import Model


class Counted(Model):
    slices: int


class ToySection(Section[None, Counted]):
    name, title, order = "toy", "How often", 55
    data = Counted

    def compute(self, run, core, spec):
        return Counted(slices=len(run.slices))

    def answer(self, index, data):
        return sentences("answer", [f"It took {data.slices} slices."])

    def blocks(self, index, data):
        yield Bullets([f"{data.slices} slices & no more"], label="How often")


SECTION = ToySection()
'''
REPORT = """
import io, sys
from pathlib import Path
import costof.sections
costof.sections.__path__.append(sys.argv[1])
from rich.console import Console
from costof.ledger.ledger import Ledger
from costof.report import analyse, render_html, render_markdown, render_terminal
result = analyse(Ledger.open(Path(sys.argv[2])))
printed = io.StringIO()
render_terminal(result, Console(file=printed, width=100))
import json
print(json.dumps([result.model_dump(mode="json"), printed.getvalue(), render_markdown(result), render_html(result)]))
"""


def test_each_study_asks_what_the_sections_understand() -> None:
    for name in study_names():
        check(load_study(name))


def test_the_schema_is_that_of_the_result() -> None:
    schema = json.loads((Path(__file__).parents[2] / "docs" / "result.schema.json").read_text())
    assert schema == Result.model_json_schema(), "stale: python -m costof.report > docs/result.schema.json"


def test_sections_have_names_and_places_of_their_own() -> None:
    sections = every_section()
    assert len({section.name for section in sections}) == len({section.order for section in sections}) == len(sections)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"mitigation": {}}, "no sections ['mitigation']"),
        (
            {"mitigations": {"metric": "wire.speed", "factors": ["key"]}},
            "sections.mitigations: there are no metrics ['wire.speed']",
        ),
        (
            {"mitigations": {"metric": "wire.request", "factor": ["key"]}},
            "sections.mitigations.factors: Field required",
        ),
        ({"break_even": [{"view": "wire"}]}, "sections.break_even.0.connection: Field required"),
    ],
)
def test_what_no_section_understands_is_a_broken_study(asked: dict[str, object], words: str) -> None:
    study = load_study("http-tls-termination").model_copy(update={"sections": asked})
    with pytest.raises(CostofError) as caught:
        check(study)
    assert caught.value.problem is Problem.BROKEN_STUDY
    assert words in str(caught.value)


def test_a_new_section_is_one_file(tmp_path: Path) -> None:
    """It is in result.json, in the answer, on a console, in Markdown and on the page, between its neighbours."""
    (tmp_path / "sections").mkdir()
    (tmp_path / "sections" / "toy.py").write_text(TOY)
    ledger = fake_run(tmp_path / "run", plan_of("http-tls-termination"), HttpTruth(), rounds=2)
    command = [sys.executable, "-c", REPORT, str(tmp_path / "sections"), str(ledger.folder)]
    result, printed, markdown, page = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    slices = result["sections"]["toy"]["slices"]
    assert slices > 0
    assert f"It took {slices} slices." in [each["text"] for each in result["answer"]]
    assert f"How often     {slices} slices & no more" in printed
    assert f"## How often\n\n- {slices} slices & no more" in markdown
    assert f"<li>{slices} slices &amp; no more</li>" in page
    assert page.index('id="sizing"') < page.index('id="toy"') < page.index('id="ab"')
