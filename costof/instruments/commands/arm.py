"""An arm's commands: brought into force, proved, measured and undone."""

from __future__ import annotations

import contextlib
import math
import os
import re
import resource
import shutil
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from jsonpointer import JsonPointerException, resolve_pointer

from costof.instruments.commands import process
from costof.instruments.commands.readers import Report, UnreadableError, json_of, reader
from costof.instruments.commands.settings import CommandSettings, Program, SecretSource
from costof.instruments.drivers.driver import Recorder
from costof.messages.answers import LEFT_BEHIND, LEFT_RUNNING, MOST_FAILED, REPORTED_FAILURE
from costof.messages.plan import SliceOrder
from costof.model import HIDDEN

#: Of a command's output, in the ledger.
KEPT_CHARACTERS = 2000
#: A variable of the environment by these names holds what nobody may read, whether the study says so or not.
#: That a shell calls its working directory PWD is no reason to hide that.
_SECRET_NAMES = re.compile(r"^(?!(OLD)?PWD$).*(PASS|PWD$|SECRET|TOKEN|CREDENTIAL|_KEY$|APIKEY)", re.IGNORECASE)
#: Shorter ones stand in too many other words.
SHORTEST_SECRET = 4
#: Whose other end is closed when nobody wants the command any more.
STDIN = 0
#: How a reader begins to say that it has found no report, or a part of one.
_NO_REPORT = re.compile("there (is|are)|it wrote no|its JSON")


class StepError(Exception):
    """What could not be brought into force, in words."""

    def __init__(self, error_class: str, detail: str) -> None:
        self.error_class = error_class
        super().__init__(detail)


class UnprovedError(StepError):
    """What is not in force, though nothing failed that should bring it into force."""


class UndoError(Exception):
    """A level that could not be undone: what follows would be measured under it."""


@dataclass
class Errors:
    """Of a slice, by class: how many, and the first one's story."""

    found: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, error_class: str, detail: str, count: int = 1) -> None:
        entry = self.found.setdefault(error_class, {"class": error_class, "count": 0, "detail": detail})
        entry["count"] += count


@dataclass
class Runs:
    """What the runs of a slice gave."""

    recorder: Recorder = field(default_factory=Recorder)
    figures: dict[str, list[float]] = field(default_factory=dict)
    cpu_ns: int = 0
    peak_memory_bytes: int = 0
    errors: Errors = field(default_factory=Errors)
    output: str = ""
    failed: int = 0
    reported: int | None = None
    missing: dict[str, str] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)
    left: dict[str, None] = field(default_factory=dict)
    daemons: dict[str, None] = field(default_factory=dict)

    @property
    def succeeded(self) -> int:
        return len(self.recorder.times)

    @property
    def left_behind(self) -> dict[str, list[str]]:
        """Facts of the evidence: which processes the commands left running, by their names."""
        found = {LEFT_RUNNING: [*self.left], LEFT_BEHIND: [*self.daemons]}
        return {name: names for name, names in found.items() if names}

    def count_failures(self, program: str, report: Report) -> bool:
        """Count the operations of a report; return whether so few have failed that its figures count."""
        if report.operations is not None:
            self.reported = (self.reported or 0) + round(report.operations)
        failed, of = report.failed or 0.0, report.operations or 0.0
        if not failed:
            return True
        words = f"{failed:,.0f} of {of:,.0f}" if of else f"{failed:,.0f}"
        self.errors.add(REPORTED_FAILURE, f"'{program}' reports that {words} operations failed", max(1, round(failed)))
        return failed <= MOST_FAILED * of


class Arm:
    """An arm's commands, and the environment that they run in."""

    def __init__(self, settings: CommandSettings) -> None:
        self.settings = settings
        hidden = {name: secret.get_secret_value() for name, secret in settings.hidden.items()}
        hidden |= {name: _secret(source) for name, source in settings.secrets.items()}
        self.environment = {**os.environ, **settings.environment, **hidden}
        secrets = {*hidden.values(), *(v for n, v in self.environment.items() if _SECRET_NAMES.search(n))}
        #: Those that brought it into force, and those of earlier slices.
        self._daemons: Collection[int] = ()
        # The longest first: one may be a part of another.
        self._secrets = sorted((each for each in secrets if len(each) >= SHORTEST_SECRET), key=len, reverse=True)

    def check(self) -> None:
        """Whether its programs are there, and it can be brought into force and proved. Raises `StepError`."""
        for program in self.settings.programs.values():
            if shutil.which(program.argv[0], path=self.environment.get("PATH")) is None:
                raise StepError("command_missing", f"there is no program '{program.argv[0]}'")
        with self.in_force():
            self.prove()

    @contextlib.contextmanager
    def in_force(self) -> Iterator[None]:
        """Raises `StepError`, and `UndoError` at its end."""
        try:
            for argv in self.settings.before:
                wrong, _ = self._step(argv, STDIN, leaves=True)
                if wrong:
                    raise StepError("not_in_force", wrong)
            self._daemons = process.adopted()
            yield
        finally:
            # All of them, whichever fails, and with nobody to end them but their time-out.
            found = [self._step(argv, None, leaves=True) for argv in self.settings.after]
            if wrong := "; ".join(each for each, _ in found if each):
                raise UndoError(wrong)

    def prove(self) -> None:
        """Raises `UnprovedError`."""
        for proof in self.settings.proofs:
            wrong, said = self._step(proof.argv, STDIN, leaves=False)
            if wrong:
                raise UnprovedError("unproved", wrong)
            if not re.fullmatch(proof.matches, said, re.DOTALL):
                told = f"'{proof.argv[0]}' said '{said[:200]}'" if said else f"'{proof.argv[0]}' said nothing"
                raise UnprovedError("unproved", f"{told}, which does not match '{proof.matches}'")

    def measure(self, program: Program, order: SliceOrder) -> Runs:
        """Run it until the slice has its operations or its seconds, and at least once."""
        runs, deadline = Runs(), time.monotonic() + order.seconds
        most = 1 if program.once else order.operations
        while (done := runs.succeeded + runs.failed) < most and (done == 0 or time.monotonic() < deadline):
            self._run(program, runs)
        runs.daemons |= dict.fromkeys(name for pid, name in process.adopted().items() if pid not in self._daemons)
        return runs

    def hidden(self, text: str) -> str:
        """Without secrets."""
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        return text

    def warm_up(self, program: Program) -> None:
        """Run it as often as its study asks, unmeasured."""
        for _ in range(program.warmup):
            self._run(program, Runs())

    def _run(self, program: Program, runs: Runs) -> None:
        self.settings.output.unlink(missing_ok=True)
        try:
            ended = process.run(
                program.argv, self.environment, program.timeout_seconds, STDIN, directory=program.directory
            )
        except process.NotStartedError as error:
            runs.failed += 1
            runs.errors.add("command_missing", f"'{program.argv[0]}': {error}")
            return
        runs.output = self.hidden((ended.output + ended.error_output)[-KEPT_CHARACTERS:])
        runs.cpu_ns += ended.cpu_ns
        runs.left |= dict.fromkeys(ended.left)
        if ended.peak_memory_bytes > own_peak_memory():
            runs.peak_memory_bytes = max(runs.peak_memory_bytes, ended.peak_memory_bytes)
        note = statuses_with_a_report(program).get(ended.status) if ended.wrong else None
        if ended.wrong and note is None:
            runs.failed += 1
            runs.errors.add("command_failed", self.hidden(f"{ended.wrong}{process.last_line(ended)}"))
            return
        try:
            written = self.settings.output
            report = report_of(program, written.read_text() if written.is_file() else ended.output)
        except (UnreadableError, OSError, UnicodeError) as error:
            runs.failed += 1
            runs.errors.add("unreadable", self.hidden(f"what '{program.argv[0]}' wrote cannot be read: {error}"))
            return
        for each in (note, uncounted_failures(program, report)):
            if each is not None:
                runs.notes[each] = None
        if not runs.count_failures(program.argv[0], report):
            runs.failed += 1
            return
        runs.recorder.times.append(ended.elapsed_ns)
        runs.missing |= report.missing
        for name, value in report.figures.items():
            runs.figures.setdefault(name, []).append(value)

    def _step(self, argv: list[str], parent: int | None, leaves: bool) -> tuple[str | None, str]:
        """Why it failed, and what it said."""
        try:
            ended = process.run(argv, self.environment, process.STEP_SECONDS, parent, leaves=leaves)
        except process.NotStartedError as error:
            return f"'{argv[0]}': {error}", ""
        wrong = f"'{argv[0]}': {ended.wrong}{process.last_line(ended)}" if ended.wrong else None
        return wrong and self.hidden(wrong), self.hidden(ended.output.strip())


def own_peak_memory() -> int:
    """Of this process, bytes: a child's peak begins as what it shared with us before it was another program."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _secret(source: SecretSource) -> str:
    """Raises `StepError`."""
    if source.environment is not None:
        if source.environment not in os.environ:
            raise StepError("no_secret", f"the environment variable {source.environment} is not set")
        return os.environ[source.environment]
    assert source.file is not None
    try:
        return source.file.expanduser().read_text().split("\n", 1)[0]
    except (OSError, UnicodeError) as error:
        detail = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
        raise StepError("no_secret", f"{source.file} cannot be read: {detail}") from None


def report_of(program: Program, written: str) -> Report:
    """Return what the program's reader finds, and the figures that its study defines by a pointer or an expression.

    Raises `UnreadableError`, where its reader cannot read it with the options that the program needs.
    """
    report = Report({})
    if program.read:
        found = reader(program.read)
        try:
            report = found.read(written)
        except UnreadableError as error:
            # A report that says that nothing was answered was made with the right options.
            hint = f"; call {found.program} with {found.hint}" if _NO_REPORT.match(str(error)) else ""
            raise UnreadableError(f"{error}{hint}") from None
    document = json_of(written) if any(each.json_pointer for each in program.figures.values()) else None
    for name, asked in program.figures.items():
        if asked.json_pointer:
            try:
                value = resolve_pointer(document, asked.json_pointer)
            except JsonPointerException:
                raise UnreadableError(f"there is nothing at {asked.json_pointer}") from None
        else:
            match = re.search(asked.regex or "", written, re.MULTILINE)
            if match is None:
                raise UnreadableError(f"nothing matches '{asked.regex}'")
            value = match[1]
        report.figures[name] = _number(name, value)
    return report


def rates_of(program: Program) -> list[str]:
    """Of its figures."""
    known = reader(program.read).figures if program.read else {}
    known = known | {name: asked.as_figure(name) for name, asked in program.figures.items()}
    return [name for name, figure in known.items() if figure.is_rate]


def statuses_with_a_report(program: Program) -> Mapping[int, str]:
    """Return the exit statuses other than 0 with which the program has written a whole report, and what each means."""
    return reader(program.read).statuses if program.read else {}


def uncounted_failures(program: Program, report: Report) -> str | None:
    """Return a note where a program that usually counts failed operations has not counted them."""
    if program.read is None or report.failed is not None or reader(program.read).silent_on_failures:
        return None
    return f"the report of {reader(program.read).program} does not say how many operations failed"


def _number(name: str, found: Any) -> float:
    try:
        number = float(found) if not isinstance(found, bool) else math.nan
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise UnreadableError(f"{name} is no number: {str(found)[:50]}")
    return number
