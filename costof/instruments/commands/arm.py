"""An arm (variant) of a study of commands: the measured programs, and commands that apply, verify and undo settings."""

from __future__ import annotations

import contextlib
import math
import os
import re
import resource
import shutil
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jsonpointer import JsonPointerException, resolve_pointer

from costof.instruments.commands import process
from costof.instruments.commands.readers import Report, UnreadableError, last_json, reader
from costof.instruments.commands.settings import CommandSettings, Program, SecretSource
from costof.instruments.drivers.driver import Errors, Recorder
from costof.messages.answers import LEFT_BEHIND, LEFT_RUNNING, MOST_FAILED, REPORTED_FAILURE
from costof.messages.plan import SliceOrder
from costof.model import HIDDEN

#: The maximum length of a command's output in the results. Longer output is cut at its beginning.
KEPT_CHARACTERS = 2000
#: Environment variables with these names are treated as secrets even if the study does not declare them. PWD and
#: OLDPWD, a shell's working directories, do not match.
_SECRET_NAMES = re.compile(r"^(?!(OLD)?PWD$).*(PASS|PWD$|SECRET|TOKEN|CREDENTIAL|_KEY$|APIKEY)", re.IGNORECASE)
#: Minimum length of a secret that is masked in texts. Shorter values occur inside too many ordinary words.
SHORTEST_SECRET = 4
#: Timeout of a `setup` or `cleanup` command, which may build the programs to measure.
SETUP_SECONDS = 3600.0
#: The environment variable in which a program gets the number of its run, such as '3', or 'warmup-0' if the run is not
#: measured. hyperfine sets the same variable.
ITERATION = "HYPERFINE_ITERATION"
#: Standard input is a pipe from costof, which closes when costof ends. The running command is then ended too.
STDIN = 0
#: Matches error messages of readers (report parsers) about a missing or incomplete report.
_NO_REPORT = re.compile("there (is|are)|it wrote no|its JSON")


class StepError(Exception):
    """An arm (variant) cannot be measured: a program or secret is missing, or a setting was not applied or verified."""

    def __init__(self, error_class: str, detail: str) -> None:
        self.error_class = error_class
        super().__init__(detail)


class NotVerifiedError(StepError):
    """A command that checks the settings of an arm (measured variant) has failed, or has printed unexpected output."""


class AroundError(Exception):
    """A command that runs before or after the measured commands failed: `setup`, `prepare`, `conclude` or `cleanup`."""


class UndoError(Exception):
    """A level (setting) could not be undone, so its changes would affect all later slices (measured windows)."""


@dataclass
class Runs:
    """The results of all runs of one command within one slice (a measured window)."""

    recorder: Recorder = field(default_factory=Recorder)
    figures: dict[str, list[float]] = field(default_factory=dict)
    single: list[dict[str, Any]] = field(default_factory=list)
    cpu_ns: int = 0
    peak_memory_bytes: int = 0
    errors: Errors = field(default_factory=Errors)
    output: str = ""
    failed: int = 0
    reported: int | None = None
    missing: dict[str, str] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)
    killed_children: dict[str, None] = field(default_factory=dict)
    daemons: dict[str, None] = field(default_factory=dict)

    @property
    def succeeded(self) -> int:
        return len(self.recorder.times)

    @property
    def left_behind(self) -> dict[str, list[str]]:
        """Return the names of the processes that the commands of this slice (measured window) left running.

        The key `LEFT_RUNNING` has the processes that costof then killed. The key `LEFT_BEHIND` has daemons, which
        costof did not kill. Keys without processes are left out.
        """
        facts = {LEFT_RUNNING: [*self.killed_children], LEFT_BEHIND: [*self.daemons]}
        return {fact: names for fact, names in facts.items() if names}

    def count_failures(self, program: str, report: Report) -> bool:
        """Add a report's operations and failures to the counts.

        Return whether the report's figures can be used, that is, whether at most the share `MOST_FAILED` of the
        operations failed.
        """
        if report.operations is not None:
            self.reported = (self.reported or 0) + round(report.operations)
        failed, operations = report.failed or 0.0, report.operations or 0.0
        if not failed:
            return True
        counts = f"{failed:,.0f} of {operations:,.0f}" if operations else f"{failed:,.0f}"
        self.errors.add(REPORTED_FAILURE, f"'{program}' reports that {counts} operations failed", max(1, round(failed)))
        return failed <= MOST_FAILED * operations


class Arm:
    """An arm (variant) of a study of commands. Methods apply, verify and undo its settings, and measure programs."""

    def __init__(self, settings: CommandSettings) -> None:
        self.settings = settings
        hidden = {name: secret.get_secret_value() for name, secret in settings.hidden.items()}
        hidden |= {name: _secret(source) for name, source in settings.secrets.items()}
        self.environment = {**os.environ, **settings.environment, **hidden}
        secrets = {*hidden.values(), *(v for n, v in self.environment.items() if _SECRET_NAMES.search(n))}
        #: Pids of processes that earlier slices (measured windows) or the arm's `before` commands left running.
        self._daemons: Collection[int] = ()
        #: CPU time of all unmeasured commands. The runner sets it to 0 at the beginning of each slice (measured
        #: window).
        self.unmeasured_cpu_ns = 0
        self._iterations = {"": 0, "warmup-": 0}
        self._first_warmups_left = {name: program.first_warmup for name, program in settings.programs.items()}
        # Replace the longest secrets first: a short secret may be a part of a long one.
        self._secrets = sorted((each for each in secrets if len(each) >= SHORTEST_SECRET), key=len, reverse=True)

    def check(self) -> None:
        """Raise `StepError` if a program is missing, or if the arm's settings cannot be applied or verified."""
        for program in self.settings.programs.values():
            if shutil.which(program.argv[0], path=self.environment.get("PATH")) is None:
                raise StepError("command_missing", f"there is no program '{program.argv[0]}'")
        with self.in_force():
            self.verify()

    @contextlib.contextmanager
    def in_force(self) -> Iterator[None]:
        """Apply the arm's levels (settings), and undo them when the `with` block ends.

        Raises `StepError` if a level cannot be applied, and `UndoError` if a level cannot be undone.
        """
        try:
            for argv in self.settings.before:
                failure, _ = self._step(argv, STDIN, keep_children=True)
                if failure:
                    raise StepError("not_in_force", failure)
            self._daemons = process.adopted()
            yield
        finally:
            # Run all undo commands, even if one fails. Pass `None` instead of `STDIN`, so that they run even if costof
            # ends.
            results = [self._step(argv, None, keep_children=True) for argv in self.settings.after]
            if failures := "; ".join(failure for failure, _ in results if failure):
                raise UndoError(failures)

    def verify(self) -> None:
        """Run the commands that check the arm's settings. Raises `NotVerifiedError` if a setting is not in effect."""
        for command in self.settings.verify:
            failure, output = self._step(command.argv, STDIN, keep_children=False)
            if failure:
                raise NotVerifiedError("not_verified", failure)
            if not re.fullmatch(command.matches, output, re.DOTALL):
                printed = f"printed '{output[:200]}'" if output else "printed nothing"
                detail = f"'{command.argv[0]}' {printed}, which does not match '{command.matches}'"
                raise NotVerifiedError("not_verified", detail)

    def measure(self, program: Program, order: SliceOrder) -> Runs:
        """Run the program until the slice (measured window) has enough runs (`order.operations`) or its time is over.

        The program runs at least once. A program that itself measures for a fixed time (`once`) runs exactly once.
        """
        runs, deadline = Runs(), time.monotonic() + order.seconds
        most = 1 if program.once else order.operations
        while (done := runs.succeeded + runs.failed) < most and (done == 0 or time.monotonic() < deadline):
            self._run(program, runs)
        runs.daemons |= dict.fromkeys(name for pid, name in process.adopted().items() if pid not in self._daemons)
        return runs

    def hidden(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        return text

    def warm_up(self, workload: str, program: Program, follows_another: bool) -> None:
        """Run a workload's program unmeasured before a slice (measured window).

        Before the program's first slice it runs `first_warmup` times. If another program or arm ran before
        (`follows_another`), it runs `warmup` times. If both apply, it runs the larger number of times.
        """
        unmeasured = Runs()
        first = self._first_warmups_left[workload]
        for _ in range(max(first, program.warmup if follows_another else 0)):
            self._run(program, unmeasured, "warmup-")
        self._first_warmups_left[workload] = 0
        self.unmeasured_cpu_ns += unmeasured.cpu_ns

    def set_up(self) -> None:
        """Write the files of the arm, and run its `setup` commands. Raises `AroundError`."""
        for path, content in self.settings.files.items():
            Path(path).parent.mkdir(mode=0o700, exist_ok=True)
            Path(path).write_text(content.get_secret_value())
        for argv in self.settings.setup:
            self._around("setup", argv, SETUP_SECONDS, STDIN)

    def clean_up(self) -> list[str]:
        """Run all `cleanup` commands, even if costof has ended. Return a sentence for each command that failed."""
        failures = []
        for argv in self.settings.cleanup:
            try:
                self._around("cleanup", argv, SETUP_SECONDS, None)
            except AroundError as error:
                failures.append(str(error))
        return failures

    def _around(self, name: str, argv: list[str], seconds: float, parent: int | None, at: Path | None = None) -> None:
        failure, _ = self._step(argv, parent, True, seconds, at)
        if failure:
            raise AroundError(f"the {name} command failed: {failure}; append '|| true' if it may fail")

    def _run(self, program: Program, runs: Runs, iteration: str = "") -> None:
        """Run `prepare`, the program and `conclude`. Raises `AroundError` if `prepare` or `conclude` fails."""
        if program.prepare:
            self._around("prepare", program.prepare, program.timeout_seconds, STDIN, program.directory)
        self._run_program(program, runs, iteration)
        if program.conclude:
            self._around("conclude", program.conclude, program.timeout_seconds, STDIN, program.directory)

    def _run_program(self, program: Program, runs: Runs, iteration: str) -> None:
        self.settings.output.unlink(missing_ok=True)
        environment = {**self.environment, ITERATION: f"{iteration}{self._iterations[iteration]}"}
        self._iterations[iteration] += 1
        try:
            ended = process.run(
                program.argv,
                environment,
                program.timeout_seconds,
                STDIN,
                directory=program.directory,
                streams=program.streams,
            )
        except process.NotStartedError as error:
            runs.failed += 1
            runs.errors.add("command_missing", f"'{program.argv[0]}': {error}")
            return
        runs.output = self.hidden((ended.output + ended.error_output)[-KEPT_CHARACTERS:])
        runs.cpu_ns += ended.cpu_ns
        runs.killed_children |= dict.fromkeys(ended.killed_children)
        peak_memory = ended.peak_memory_bytes if ended.peak_memory_bytes > own_peak_memory() else 0
        runs.peak_memory_bytes = max(runs.peak_memory_bytes, peak_memory)
        # For some programs, such as k6 with status 99, the report is complete although the exit status is not 0.
        note = reader(program.read).statuses.get(ended.status) if ended.failure and program.read else None
        if ended.failure and note is None and not ended.stopped and program.ignores(ended.status):
            note = f"failed runs were measured (--ignore-failure): '{program.argv[0]}': {ended.failure}"
        if ended.failure and note is None:
            runs.failed += 1
            runs.errors.add("command_failed", self.hidden(f"{ended.failure}{process.last_line(ended)}"))
            return
        try:
            written = self.settings.output
            report = parse_report(program, written.read_text() if written.is_file() else ended.output)
        except (UnreadableError, OSError, UnicodeError) as error:
            runs.failed += 1
            runs.errors.add("unreadable", self.hidden(f"the output of '{program.argv[0]}' cannot be read: {error}"))
            return
        for each in (note, uncounted_failures(program, report)):
            if each is not None:
                runs.notes[each] = None
        if not runs.count_failures(program.argv[0], report):
            runs.failed += 1
            return
        runs.recorder.times.append(ended.elapsed_ns)
        if program.keep_runs:
            runs.single.append(
                {
                    "elapsed_ns": ended.elapsed_ns,
                    "user_ns": ended.user_ns,
                    "system_ns": ended.system_ns,
                    "peak_memory_bytes": peak_memory,
                    "status": ended.status if ended.status >= 0 else None,
                }
            )
        runs.missing |= report.missing
        for name, value in report.figures.items():
            runs.figures.setdefault(name, []).append(value)

    def _step(
        self,
        argv: list[str],
        parent: int | None,
        keep_children: bool,
        seconds: float = process.STEP_SECONDS,
        directory: Path | None = None,
    ) -> tuple[str | None, str]:
        """Run a command that is not measured, such as one that applies, verifies or undoes a level (setting).

        Return why the command failed (None if it succeeded), and its output, both with masked secrets.
        """
        try:
            ended = process.run(argv, self.environment, seconds, parent, directory, keep_children=keep_children)
        except process.NotStartedError as error:
            return f"'{argv[0]}': {error}", ""
        self.unmeasured_cpu_ns += ended.cpu_ns
        failure = f"'{argv[0]}': {ended.failure}{process.last_line(ended)}" if ended.failure else None
        return failure and self.hidden(failure), self.hidden(ended.output.strip())


def own_peak_memory() -> int:
    """Return the peak memory of this process in bytes.

    A command starts as a copy of this process (fork), so the kernel never reports a lower peak for it. A command's own
    peak memory is therefore known only if it is higher than this process's.
    """
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _secret(source: SecretSource) -> str:
    if source.environment is not None:
        if source.environment not in os.environ:
            raise StepError("no_secret", f"the environment variable {source.environment} is not set")
        return os.environ[source.environment]
    assert source.file is not None
    try:
        return source.file.expanduser().read_text().split("\n", 1)[0]
    except (OSError, UnicodeError) as error:
        detail = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise StepError("no_secret", f"{source.file} cannot be read: {detail}") from None


def parse_report(program: Program, written: str) -> Report:
    """Return the figures in a program's output.

    The program's reader (parser) finds figures, and the study may define more with JSON pointers or regular
    expressions. Raises `UnreadableError`. If the program wrote no report, the message names the options that it needs.
    """
    report = Report({})
    if program.read:
        program_reader = reader(program.read)
        try:
            report = program_reader.read(written)
        except UnreadableError as error:
            # A program that wrote a report had the right options, so suggest options only if the report is missing.
            missing = _NO_REPORT.match(str(error))
            hint = f"; call {program_reader.program} with {program_reader.hint}" if missing else ""
            raise UnreadableError(f"{error}{hint}") from None
    document = last_json(written) if any(each.json_pointer for each in program.figures.values()) else None
    for name, source in program.figures.items():
        if source.json_pointer:
            try:
                value = resolve_pointer(document, source.json_pointer)
            except JsonPointerException:
                raise UnreadableError(f"there is nothing at {source.json_pointer}") from None
        else:
            match = re.search(source.regex or "", written, re.MULTILINE)
            if match is None:
                raise UnreadableError(f"nothing matches '{source.regex}'")
            value = match[1]
        report.figures[name] = _number(name, value)
    return report


def rate_names(program: Program) -> list[str]:
    known = reader(program.read).figures if program.read else {}
    known = known | {name: source.as_figure(name) for name, source in program.figures.items()}
    return [name for name, figure in known.items() if figure.is_rate]


def uncounted_failures(program: Program, report: Report) -> str | None:
    """Return a note for the user if a report should contain the number of failures but does not; else None."""
    if program.read is None or report.failed is not None or reader(program.read).silent_on_failures:
        return None
    return f"the report of {reader(program.read).program} does not say how many operations failed"


def _number(name: str, value: Any) -> float:
    try:
        number = float(value) if not isinstance(value, bool) else math.nan
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise UnreadableError(f"{name} is not a number: {str(value)[:50]}")
    return number
