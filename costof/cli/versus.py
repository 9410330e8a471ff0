"""`costof versus`: compare commands without a study file.

Options that hyperfine also has are named like hyperfine's.
"""

from __future__ import annotations

import fcntl
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from costof.cli.gate import limit_option
from costof.cli.options import hosts_options
from costof.cli.output import AnswerForm, answer_form_options, check_json_lines, json_lines_option, write_file
from costof.cli.run import run_study
from costof.errors import CostofError, ErrorText, WarningText
from costof.instruments.commands.passwords import without_passwords
from costof.instruments.commands.process import NULL, PIPE
from costof.instruments.commands.settings import MOST_WARMUP_RUNS
from costof.instruments.commands.shell import needs_shell, shell_sign, split
from costof.study.library import read_study
from costof.study.options import MOST_ROUNDS
from costof.study.plan import Options
from costof.study.versus import (
    Benchmark,
    Comparison,
    benchmarks,
    changes_state,
    measured_shell,
    parse_list,
    parse_scan,
    study_content,
)

if TYPE_CHECKING:
    from costof.messages.plan import HostsSettings
    from costof.report.result import Result
    from costof.results.ledger import Ledger

INHERIT = "inherit"
#: Timeout of the test whether the program of --shell is a shell: the program must run an empty command.
SHELL_SECONDS = 10.0
#: The groups of options in the help, each option by its first name. The help adds a last group with all options that
#: are in no group.
GROUPS = {
    "Names and parameters": ("-n", "--reference", "--reference-name", "-L", "-P", "-D"),
    "Runs": ("-w", "--warmup-each", "-r", "-m", "-M", "--seconds", "--rounds"),
    "Commands around the measured ones": ("-p", "-C", "-s", "-c", "--setup-each"),
    "How commands run": ("-N", "-S", "-i", "--ignore-status", "--input", "--output", "--show-output", "--read"),
    "Exports": ("--export-json", "--export-csv", "--export-markdown"),
}
#: Groups of options that contradict each other. At most one option of each group may be given.
CONTRADICTORY = (
    ("--runs", "--min-runs", "--rounds"),
    ("--runs", "--max-runs", "--rounds"),
    ("-N", "--shell"),
    ("--output", "--show-output", "--read"),
    ("--parameter-list", "--parameter-scan"),
    ("--ignore-failure", "--ignore-failure=…"),
)


class VersusCommand(click.Command):
    """A command whose help shows its options in groups. It also accepts hyperfine's form `--ignore-failure=1,2`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        for at, arg in enumerate(args[:end]):
            name, assigned, value = arg.partition("=")
            if assigned and name in ("-i", "--ignore-failure"):
                args[at] = f"--ignore-status={value}"
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        grouped: dict[str, list[tuple[str, str]]] = {title: [] for title in [*GROUPS, "The run and its report"]}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                titles = (title for title, names in GROUPS.items() if set(names) & set(parameter.opts))
                grouped[next(titles, [*grouped][-1])].append(record)
        for title, records in grouped.items():
            with formatter.section(title):
                formatter.write_dl(records)


WARMUP_RUNS = click.IntRange(0, MOST_WARMUP_RUNS)
NUMBER_OF_RUNS = click.IntRange(1, MOST_ROUNDS)
FILE = click.Path(path_type=Path, dir_okay=False)


@click.command(cls=VersusCommand)
@click.argument("commands", nargs=-1, metavar="COMMAND COMMAND…")
@click.option(
    "-n",
    "--command-name",
    "--name",
    "names",
    multiple=True,
    metavar="NAME",
    help="Name for a command; give -n once for each command, in the same order. With -L, NAME may contain {VAR}. "
    "Default: the command itself.",
)
@click.option("--reference", metavar="CMD", help="Compare all commands with this one instead of the first one.")
@click.option("--reference-name", metavar="NAME", help="Name for the reference.")
@click.option(
    "-L",
    "--parameter-list",
    "lists",
    nargs=2,
    multiple=True,
    metavar="VAR A,B,…",
    help="Replace {VAR} by each of these values; may be repeated for all combinations.",
)
@click.option(
    "-P", "--parameter-scan", "scan", nargs=3, metavar="VAR MIN MAX", help="Replace {VAR} by each number of this range."
)
@click.option(
    "-D",
    "--parameter-step-size",
    "step",
    metavar="DELTA",
    help="Difference between two successive numbers of --parameter-scan. Default: 1.",
)
@click.option(
    "-w", "--warmup", type=WARMUP_RUNS, default=0, metavar="N", help="Run each command N times before it is measured."
)
@click.option(
    "--warmup-each",
    type=WARMUP_RUNS,
    default=0,
    metavar="N",
    help="Whenever the run changes to another command, run that command N times before measuring it.",
)
@click.option(
    "-r",
    "--runs",
    type=NUMBER_OF_RUNS,
    metavar="N",
    help="Measure each command exactly N times. The first one runs 2N times, because half of its runs count as an "
    "identical copy, which shows the noise.",
)
@click.option("-m", "--min-runs", type=NUMBER_OF_RUNS, metavar="N", help="Measure each command at least N times.")
@click.option("-M", "--max-runs", type=NUMBER_OF_RUNS, metavar="N", help="Measure each command at most N times.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    help="Without -r, -m or -M: seconds for which each command is measured in a round. The number also replaces "
    "{seconds} in a command.",
)
@click.option("--rounds", metavar="N", help="Measure exactly N rounds (2 or more), however long they take.")
@click.option(
    "-p",
    "--prepare",
    multiple=True,
    metavar="CMD",
    help="Run CMD before each run, unmeasured; give it once for all commands, or once for each.",
)
@click.option(
    "-C",
    "--conclude",
    multiple=True,
    metavar="CMD",
    help="Run CMD after each run, unmeasured; give it once for all commands, or once for each.",
)
@click.option("-s", "--setup", metavar="CMD", help="Run CMD once for each command, before all runs.")
@click.option("-c", "--cleanup", metavar="CMD", help="Run CMD once for each command, after all runs.")
@click.option(
    "--setup-each",
    is_flag=True,
    help="Run --setup each time that a command is measured, and --cleanup after it, for commands whose setups "
    "undo each other.",
)
@click.option("-N", "no_shell", is_flag=True, help="Run commands without a shell, as --shell=none.")
@click.option(
    "-S",
    "--shell",
    metavar="SHELL",
    help="Run commands with this shell, such as 'bash --norc'; 'default' is sh. Without -S and -N: sh if a command "
    "contains shell syntax, else no shell.",
)
@click.option(
    "-i",
    "--ignore-failure",
    is_flag=True,
    help="Measure failed runs too. To accept only some exit statuses: -i=1,2 (with '=').",
)
@click.option("--ignore-status", metavar="N,…", hidden=True)
@click.option("--input", "stdin", metavar="FILE|null", help="File that commands read as their input. Default: null.")
@click.option(
    "--output",
    "stdout",
    multiple=True,
    metavar="WHERE",
    help="Where commands write: null, pipe, inherit (standard error), or a FILE; give it once for all commands, or "
    "once for each. Default: the output is kept in memory.",
)
@click.option("--show-output", is_flag=True, help="Print what commands write, as --output=inherit.")
@click.option(
    "--read",
    metavar="PROGRAM",
    help="Read the figures from the commands' output, which is that of PROGRAM, such as wrk. Default: measure the "
    "commands' time.",
)
@click.option("--export-json", "as_hyperfine", type=FILE, help="Write all single runs as hyperfine's JSON.")
@click.option("--export-csv", "as_csv", type=FILE, help="Write mean, median, … of each command as hyperfine's CSV.")
@click.option("--export-markdown", "as_markdown", type=FILE, help="Write a Markdown table of the commands.")
@click.option("--profile", default="quick", help="How much to measure: quick, or default (longer and more precise).")
@click.option("--budget", metavar="TIME", help="Maximum measuring time, such as 45s, 5m or 1h30m.")
@click.option(
    "--precision", metavar="PERCENT", help="Stop when headline costs are known to within this percentage, such as 2%."
)
@limit_option
@hosts_options
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the run. Default: runs/<time>-versus.")
@answer_form_options
@json_lines_option
@click.option("--seed", type=int, help="Seed for the random order of measurements.")
@click.option("--dry-run", is_flag=True, help="Print the plan and all commands, without running them.")
def versus(
    commands: tuple[str, ...],
    names: tuple[str, ...],
    reference: str | None,
    reference_name: str | None,
    lists: tuple[tuple[str, str], ...],
    scan: tuple[str, str, str] | None,
    step: str | None,
    warmup: int,
    warmup_each: int,
    runs: int | None,
    min_runs: int | None,
    max_runs: int | None,
    seconds: float | None,
    rounds: str | None,
    prepare: tuple[str, ...],
    conclude: tuple[str, ...],
    setup: str | None,
    cleanup: str | None,
    setup_each: bool,
    no_shell: bool,
    shell: str | None,
    ignore_failure: bool,
    ignore_status: str | None,
    stdin: str | None,
    stdout: tuple[str, ...],
    show_output: bool,
    read: str | None,
    as_hyperfine: Path | None,
    as_csv: Path | None,
    as_markdown: Path | None,
    hosts: HostsSettings | None,
    out: Path | None,
    answer_form: AnswerForm,
    json_lines: bool,
    dry_run: bool,
    **options: Any,
) -> None:
    """Compare the costs of commands with the first COMMAND.

    The commands are measured in turns, round after round, so that disturbances of the machine affect all of them alike.
    The answer is each difference with its interval. Options that hyperfine also has are named like hyperfine's.
    """
    check_json_lines(json_lines, answer_form, dry_run)
    _check_contradictions(
        {
            "--runs": runs,
            "--min-runs": min_runs,
            "--max-runs": max_runs,
            "--rounds": rounds,
            "-N": no_shell,
            "--shell": shell,
            "--output": stdout,
            "--show-output": show_output,
            "--read": read,
            "--parameter-list": lists,
            "--parameter-scan": scan,
            "--ignore-failure": ignore_failure,
            "--ignore-failure=…": ignore_status,
        }
    )
    if (runs is not None and runs < 2) or (max_runs is not None and max_runs < 2):
        raise CostofError(ErrorText.RUNS_TOO_FEW)
    if min_runs is not None and max_runs is not None and min_runs > max_runs:
        raise CostofError(ErrorText.RUNS_CONTRADICTORY, low=min_runs, high=max_runs)
    for other, value, needed, given in (
        ("--reference-name", reference_name, "--reference", reference),
        ("--parameter-step-size", step, "--parameter-scan", scan),
        ("--setup-each", setup_each, "--setup", setup),
    ):
        if value and not given:
            raise CostofError(ErrorText.LOAD_INCOMPLETE, option=other, other=needed)
    outputs = (INHERIT,) if show_output else stdout
    exports = {"json": as_hyperfine, "csv": as_csv, "markdown": as_markdown}
    comparison = Comparison(
        commands=commands,
        names=names,
        parameters=_parameters(lists, scan, step),
        reference=reference,
        reference_name=reference_name,
        shell="none" if no_shell else _checked_shell(shell, dry_run),
        prepare=prepare,
        conclude=conclude,
        setup=setup,
        cleanup=cleanup,
        setup_each=setup_each,
        stdout=[] if INHERIT in outputs else [_output(each) for each in outputs],
        warmup=warmup,
        single_runs=not (runs is min_runs is max_runs is None),
        seconds=seconds,
        program={
            "read": read,
            "warmup": warmup_each,
            "ignore_failure": _statuses(ignore_status) if ignore_status is not None else ignore_failure,
            "stdin": _input(stdin),
            "shown": _shared_error_output() if INHERIT in outputs else None,
            "keep_runs": any(exports.values()),
        },
    )
    made = benchmarks(comparison)
    for path in filter(None, exports.values()):
        _check_writable(path)
    study = read_study("versus", study_content(comparison, made))
    if changes_state(made) and not setup_each:
        click.echo(f"costof: {WarningText.SETUP_REPEATED.text()}", err=True)
    plan_options = Options(
        hosts=hosts.address if hosts else None,
        rounds=rounds if runs is None else str(runs),
        at_least=min_runs,
        at_most=max_runs,
        **options,
    )

    def finish(result: Result, ledger: Ledger) -> None:
        _print_summary(result, ledger, comparison, made, to_error=json_lines or answer_form == "json")
        _export(result, ledger, made, exports)

    sys.exit(run_study(study, plan_options, None, out, answer_form, dry_run, hosts, json_lines, finish))


def _check_contradictions(values: Mapping[str, object]) -> None:
    """Raise `LOAD_CONTRADICTORY` if two options were given that contradict each other."""
    for options in CONTRADICTORY:
        option, other, *_ = [*(each for each in options if values[each]), None, None]
        if option is not None and other is not None:
            raise CostofError(ErrorText.LOAD_CONTRADICTORY, option=option, other=other)


def _parameters(
    lists: Sequence[tuple[str, str]], scan: tuple[str, str, str] | None, step: str | None
) -> dict[str, list[str]]:
    parameters: dict[str, list[str]] = {}
    for name, values in lists:
        if name in parameters:
            raise CostofError(ErrorText.PARAMETER_TWICE, name=name)
        parameters[name] = parse_list(name, values)
    if scan is not None:
        parameters[scan[0]] = parse_scan(*scan, step)
    return parameters


def _checked_shell(shell: str | None, dry_run: bool) -> str | None:
    """Return the shell's command line. Raises `SHELL_UNUSABLE` if it does not run an empty command with `-c`."""
    if shell is None or shell in ("none", "default"):
        return shell
    shown = without_passwords(shell)
    try:
        argv = split(shell)
    except ValueError as error:
        raise CostofError(ErrorText.SHELL_UNUSABLE, text=shown, detail=str(error)) from None
    if sign := shell_sign(shell):
        raise CostofError(ErrorText.SHELL_UNUSABLE, text=shown, detail=f"it contains '{sign}'")
    if shutil.which(argv[0]) is None:
        raise CostofError(ErrorText.SHELL_UNUSABLE, text=shown, detail="there is no such program")
    if not dry_run:
        try:
            ended = subprocess.run(
                [*argv, "-c", ""], stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=SHELL_SECONDS
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            detail = error.strerror if isinstance(error, OSError) else "it does not end"
            raise CostofError(ErrorText.SHELL_UNUSABLE, text=shown, detail=detail) from None
        if ended.returncode:
            detail = f"it ended with status {ended.returncode}"
            raise CostofError(ErrorText.SHELL_UNUSABLE, text=shown, detail=detail)
    return shlex.join(argv)


def _statuses(text: str) -> list[int]:
    """Return the exit statuses in a text such as '1,2'. Raises `BAD_STATUSES`."""
    numbers = [int(part) if part.strip().isdecimal() else 0 for part in text.split(",")]
    if not all(1 <= number <= 255 for number in numbers):
        raise CostofError(ErrorText.BAD_STATUSES, text=text)
    return numbers


def _input(text: str | None) -> str | None:
    """Return the absolute path of a file that can be read; None for 'null'. Raises `INPUT_UNREADABLE`."""
    if text is None or text == NULL:
        return None
    path = Path(text).absolute()
    try:
        with path.open("rb"):
            return str(path)
    except OSError as error:
        raise CostofError(ErrorText.INPUT_UNREADABLE, path=text, detail=error.strerror) from None


def _shared_error_output() -> str:
    """Return a path at which another process, the command runner, can open this process's standard error.

    The function also sets O_APPEND on standard error. Without O_APPEND, if standard error is a file, each process would
    write at a position of its own, and the two processes would overwrite each other's text.
    """
    descriptor = sys.__stderr__.fileno() if sys.__stderr__ else 2
    fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_APPEND)
    return f"/proc/{os.getpid()}/fd/{descriptor}"


def _output(text: str) -> str:
    if text in (NULL, PIPE):
        return text
    _check_writable(Path(text))
    return str(Path(text).absolute())


def _check_writable(path: Path) -> None:
    """Raise `FILE_NOT_WRITABLE` if the file cannot be created or written. Call this before anything is measured."""
    folder = path.absolute().parent
    detail = None
    if path.is_dir():
        detail = "it is a folder"
    elif not folder.is_dir():
        detail = "its folder does not exist"
    elif not os.access(path if path.exists() else folder, os.W_OK):
        detail = "it may not be written"
    if detail is not None:
        raise CostofError(ErrorText.FILE_NOT_WRITABLE, path=path, detail=detail)


TWICE_AS_OFTEN = "The control runs twice as often as the other commands, since its identical copy shows the noise."


def _print_summary(
    result: Result, ledger: Ledger, comparison: Comparison, made: Sequence[Benchmark], to_error: bool
) -> None:
    """Print a line for each difference between commands, and warnings; on standard error if `to_error` is true."""
    from costof.report.versus import Tried, differences, warnings
    from costof.results.run import read_run

    names = {each.level: each.shown for each in made}
    lines = [each.command for each in made]
    tried = Tried(
        in_shell=measured_shell(comparison, lines) is not None,
        shell_needed=any(map(needs_shell, lines)),
        warmup=bool(comparison.warmup),
        prepare=bool(comparison.prepare),
        single_runs=comparison.single_runs,
    )
    click.echo(err=to_error)
    if tried.single_runs and len(made) > 1:
        click.echo(TWICE_AS_OFTEN, err=to_error)
    for line in differences(result, names):
        click.echo(line, err=to_error)
    for text in warnings(read_run(ledger), names, tried):
        click.echo(f"costof: {text}", err=True)


def _export(result: Result, ledger: Ledger, made: Sequence[Benchmark], exports: Mapping[str, Path | None]) -> None:
    from costof.report import hyperfine
    from costof.results.run import read_run

    if not any(exports.values()):
        return
    rows = hyperfine.rows(read_run(ledger), {each.level: (each.shown, each.shown_parameters) for each in made})
    for form, path in exports.items():
        if path is None:
            continue
        match form:
            case "json":
                text = hyperfine.as_json(rows, result)
            case "csv":
                text = hyperfine.as_csv(rows)
            case _:
                text = hyperfine.as_markdown(rows, result)
        if str(path) == "-":
            click.echo(text, nl=False)
        else:
            write_file(path, text)
