"""`costof selftest`: measure costs of a known size on this machine, and say what this machine can resolve."""

from __future__ import annotations

import sys
import tempfile
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from costof import format as fmt
from costof.errors import EXIT_ANSWERED, EXIT_FAILED, CostofError, ErrorText, WarningText
from costof.results.ledger import INTERRUPTED, EndRecord, Ledger
from costof.services.open import open_service
from costof.study.library import load_study
from costof.study.plan import Options, Plan, resolve

if TYPE_CHECKING:
    from costof.results.selftest import KnownCost, Selftest

#: The self-test's own study. It is not listed among the built-in studies, because it does not examine a protection.
STUDY = Path(__file__).with_name("selftest.toml")
MEASURED, HELD = "wire.request", "server.held"
MINUTE = 60
#: A machine is called too noisy if a self-test of one minute cannot find an effect of this size on it.
NOISY = 0.10


@click.command()
@click.option("--budget", metavar="TIME", help="Maximum measuring time, such as 20s. Default: 60s.")
@click.option("--seed", type=int, help="Seed for the random order of measurements.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Folder in which to keep the run. Default: nothing is kept."
)
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def selftest(budget: str | None, seed: int | None, out: Path | None, as_json: bool) -> None:
    """Measure costs of a known size on this machine, and say whether costof finds them.

    It runs an experiment like any other, on an HTTP server and a relay of costof's own. The relay delays no request,
    every request, a tenth of the requests, or all requests in a tenth of the time, and counts each delay. Then it
    says the smallest effect that this machine can resolve. Needs no server and no root.
    """
    plan = resolve(load_study(str(STUDY)), Options(budget=budget, seed=seed))
    with _folder(out) as folder:
        answer = measure(plan, Ledger.create(plan, Path(folder)), Console(stderr=True, highlight=False))
    if as_json:
        click.echo(answer.model_dump_json(indent=2))
    else:
        for line in rendered(answer, plan.study.metrics[MEASURED].margin):
            click.echo(line)
    if not answer.passed:
        click.echo(f"costof: {WarningText.SELFTEST_WRONG.text()}", err=True)
    sys.exit(EXIT_ANSWERED if answer.passed else EXIT_FAILED)


def _folder(out: Path | None) -> AbstractContextManager[str]:
    return tempfile.TemporaryDirectory(prefix="costof-selftest-") if out is None else nullcontext(str(out))


def measure(plan: Plan, ledger: Ledger, console: Console) -> Selftest:
    """Measure, and return the outcome. Raises `CostofError` for a partial run, and `KeyboardInterrupt` after Ctrl-C."""
    from costof.results.run import read_run
    from costof.results.selftest import judge_selftest
    from costof.run.experiment import run

    with Stages(plan, console) as stages:
        run(plan, open_service(plan, None, ledger.folder.name), ledger, stages)
    partial = next(record.partial for record in ledger.records() if isinstance(record, EndRecord))
    if partial == INTERRUPTED:
        raise KeyboardInterrupt
    if partial is not None:
        raise CostofError(ErrorText.NOTHING_MEASURED, detail=partial)
    answer = judge_selftest(read_run(ledger), MEASURED, HELD)
    if answer is None:
        raise CostofError(ErrorText.SELFTEST_TOO_SHORT)
    return answer.model_copy(update={"conclusion": conclusion(answer)})


class Stages:
    """The progress of a self-test: on a terminal one line that is overwritten, elsewhere a line for each stage.

    The display of other runs cannot be used here: on Ctrl-C it says how many rounds are kept, but a self-test keeps
    none.
    """

    def __init__(self, plan: Plan, console: Console) -> None:
        self._budget_seconds = plan.budget_seconds
        self._console = console
        self._status = console.status("")

    def __enter__(self) -> Stages:
        if self._console.is_terminal:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._status.stop()

    def stage(self, text: str) -> None:
        if self._console.is_terminal:
            self._status.update(text)
        else:
            self._console.print(text)

    def warn(self, text: str) -> None:
        self._console.print(text)

    def round(self, done: int, elapsed_seconds: float, reached: float | None) -> None:
        left = "" if self._budget_seconds is None else f", at most {self._budget_seconds - elapsed_seconds:.0f} s left"
        self._status.update(f"measuring: {fmt.plural(done, 'round')}{left}")


def conclusion(answer: Selftest) -> str:
    """Return a sentence that summarizes the self-test's result."""
    others = f"other programs used {fmt.percent(answer.other_programs)} of the CPU"
    if answer.wrong:
        mistakes = fmt.listed([f"'{each.label}': {each.mistake}" for each in answer.wrong])
        return f"Wrong on this machine: {mistakes}; {others}."
    smallest = answer.smallest_in(MINUTE)
    above = f"effects above {fmt.percent(smallest)} in a minute"
    quieter = "stop other programs and run `costof selftest` again"
    if smallest > NOISY:
        return f"Too noisy: good only for {above}; {others}: {quieter}."
    if answer.hidden:
        hidden = fmt.listed([f"'{each.label}'" for each in answer.hidden])
        return f"Good for {above}, but too noisy to find {hidden}; {others}: {quieter}."
    return f"Good for {above}; {others}."


def rendered(answer: Selftest, margin: float) -> list[str]:
    """Return the result as lines for a terminal. `margin` is the smallest relative difference that counts as a cost."""
    rows = [["", "delay of a request", "known", "measured", "verdict"]]
    rows += [_row(each, margin) for each in answer.known_costs]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    confidence = fmt.share(answer.known_costs[0].confidence)
    sizes = [f"{fmt.percent(each.smallest)} in {fmt.duration(each.seconds)}" for each in answer.smallest_effects]
    discarded = f", {answer.discarded_rounds} of them discarded as disturbed" if answer.discarded_rounds else ""
    whole, held, rest = map(_microseconds, (answer.request_ms, answer.held_ms, answer.request_ms - answer.held_ms))
    return [
        *lines,
        "",
        f"{confidence} intervals in brackets. {fmt.plural(answer.rounds, 'round')}{discarded}.",
        f"The control's request takes {whole}, of which the relay holds it for {held}.",
        f"The smallest effect that 9 of 10 runs find, relative to the other {rest}: {', '.join(sizes)}.",
        "",
        answer.conclusion,
    ]


def _row(cost: KnownCost, margin: float) -> list[str]:
    marks = {"right": "✓", "too small to find": "–", "wrong": "✗"}
    measured = fmt.absolute(cost.estimate.through(lambda ms: ms * 1000), "us", signed=True)
    verdict = cost.verdict.replace("the margin", fmt.share(margin))
    if cost.outcome != "right":
        verdict += f" ({cost.mistake or cost.outcome})"
    known = _microseconds(cost.known) if not cost.identical else "none"
    return [marks[cost.outcome], cost.label, known, str(measured), verdict]


def _microseconds(milliseconds: float) -> str:
    return fmt.with_unit(fmt.number(milliseconds * 1000, 1), "us")
