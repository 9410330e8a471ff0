"""`costof gate`: check the costs of a run against limits, for example in a CI pipeline."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from xml.etree import ElementTree

import click

from costof.cli.output import write_file
from costof.errors import EXIT_ANSWERED, EXIT_EXCEEDED, EXIT_PARTIAL, CostofError, ErrorText
from costof.results.ledger import Ledger

if TYPE_CHECKING:
    from costof.results.index import Index
    from costof.results.limits import Outcome, State
    from costof.run.events import LimitOutcome

MARKDOWN_HEAD = "| limit | arm | measured | |\n| --- | --- | --- | --- |\n"
F = TypeVar("F", bound=Callable[..., Any])


def limit_option(command: F) -> F:
    """Add `--limit METRIC LIMIT`, which may be repeated."""
    words = "Maximum by which METRIC may get worse: --limit 'connect and first query' +10% (or +2ms)."
    return click.option("--limit", "limits", nargs=2, multiple=True, metavar="METRIC LIMIT", help=words)(command)


@click.command()
@click.argument("folder", metavar="RUN", type=click.Path(path_type=Path))
@limit_option
@click.option(
    "--junit",
    type=click.Path(path_type=Path),
    help="Write JUnit XML to this file, with a test case for each limit and arm.",
)
@click.option(
    "--markdown", type=click.Path(path_type=Path), help="Write a Markdown table to this file, for a pull request."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a line for each limit and arm.")
def gate(
    folder: Path, limits: tuple[tuple[str, str], ...], junit: Path | None, markdown: Path | None, as_json: bool
) -> None:
    """Check the costs of a run against the limits of --limit or, without --limit, the limits stored with the run.

    Exit status: 0 if all limits are kept, 4 if one is exceeded, 3 if an interval is too wide to decide.
    """
    from costof.report import analyse
    from costof.results.index import Index
    from costof.results.limits import outcomes
    from costof.study.options import parse_limits

    ledger = Ledger.open(folder)
    plan = ledger.plan()
    limits_to_check = parse_limits(plan.study, limits) if limits else plan.limits
    if not limits_to_check:
        raise CostofError(ErrorText.NO_LIMITS, path=folder)
    index = Index(analyse(ledger))
    results = [*outcomes(index, limits_to_check)]
    for path, render in ((junit, as_junit), (markdown, as_markdown)):
        if path is not None:
            write_file(path, render(index, results))
    if as_json:
        click.echo(json.dumps([outcome.model_dump() for outcome in limit_outcomes(results)], indent=2))
    else:
        print_outcomes(index, results)
    sys.exit(status(outcome.state for outcome in results))


def limit_outcomes(results: Iterable[Outcome]) -> list[LimitOutcome]:
    """Return the limits' outcomes in the form that `--json` prints and that the last event of a run contains."""
    from costof.report.sections.limits import measured_words
    from costof.run.events import LimitOutcome

    outcomes = []
    for each in results:
        effect = each.effect
        change = None if effect is None else effect.ratio if each.limit.relative else effect.difference
        outcomes.append(
            LimitOutcome(
                metric=each.limit.metric,
                arm=each.arm.name,
                limit=each.limit.text,
                state=each.state.value,
                change=change,
                measured=measured_words(each),
            )
        )
    return outcomes


def print_outcomes(index: Index, results: Sequence[Outcome], to_error: bool = False) -> None:
    from costof.report.sections.limits import limit_words, measured_words

    for outcome in results:
        subject = f"{limit_words(index, outcome)}, {index.label_at(outcome.arm.name)}"
        click.echo(f"{outcome.state.value}: {subject}: {measured_words(outcome)}", err=to_error)


def status(states: Iterable[State]) -> int:
    """Return the exit status for limits in these states: 4 if one is exceeded, else 3 if one is undecided, else 0."""
    from costof.results.limits import State

    states = set(states)
    if State.EXCEEDED in states:
        return EXIT_EXCEEDED
    return EXIT_PARTIAL if State.OPEN in states else EXIT_ANSWERED


def as_junit(index: Index, results: Sequence[Outcome]) -> str:
    """Return a JUnit test suite (testmoapp/junitxml). Exceeded limits are failures, undecided limits are errors."""
    from costof.report.sections.limits import limit_words, measured_words
    from costof.results.limits import State

    kinds = {State.EXCEEDED: "failure", State.OPEN: "error"}
    counts = {f"{kind}s": str(sum(each.state is state for each in results)) for state, kind in kinds.items()}
    suite = ElementTree.Element(
        "testsuite", {"name": f"costof {index.core.study}", "tests": str(len(results)), **counts}
    )
    for outcome in results:
        names = {"classname": index.label_at(outcome.arm.name), "name": limit_words(index, outcome)}
        case = ElementTree.SubElement(suite, "testcase", names)
        if outcome.state in kinds:
            message = f"{outcome.state.value}: {measured_words(outcome)}"
            ElementTree.SubElement(case, kinds[outcome.state], message=message)
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def as_markdown(index: Index, results: Sequence[Outcome]) -> str:
    from costof.report.sections.limits import limit_words, measured_words

    rows = (
        [limit_words(index, each), index.label_at(each.arm.name), measured_words(each), each.state.value]
        for each in results
    )
    return MARKDOWN_HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows)
