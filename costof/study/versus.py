"""The commands that `costof versus` compares, with their parameters filled in, as the content of a study."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from itertools import product, takewhile
from typing import Any

from costof.errors import CostofError, ErrorText
from costof.format import listed
from costof.instruments.commands.passwords import find_passwords, without_passwords
from costof.instruments.commands.settings import DEFAULT_SHELL
from costof.instruments.commands.shell import needs_shell
from costof.model import HIDDEN
from costof.study.commands import COMMAND, DEFAULT_SECONDS, PROFILES, REPEATED_SECONDS

LONGEST_LABEL = 48
#: The maximum number of commands: each is measured in every round.
MOST_COMMANDS = 100
#: The maximum number of rounds if --max-runs is not given and each round runs each command once.
MOST_ROUNDS_OF_RUNS = 1000
WORKLOAD = "run"
_NAME_OF_PARAMETER = re.compile(r"[A-Za-z_]\w*")
#: Matches a name that may be part of the name of an arm (compared configuration). '-copy' at its end is reserved for
#: the control's identical copy.
_NAME_OF_ARM = re.compile(r"(?!.*-copy$)[^@{}]+")


@dataclass(frozen=True)
class Comparison:
    """The options of `costof versus` that say what to run. Texts may contain parameters such as '{threads}'.

    Each of `prepare`, `conclude` and `stdout` is empty, or has one entry for all commands, or one entry for each
    command.

    `shell` is the shell's command line, 'none' for no shell, or 'default' for sh. If it is None, all commands run in sh
    if any of them needs a shell; otherwise they run without a shell.

    With `single_runs`, a round runs each command once. Otherwise a round repeats each command for some time.
    """

    commands: Sequence[str]
    names: Sequence[str] = ()
    parameters: Mapping[str, Sequence[str]] = field(default_factory=dict)
    reference: str | None = None
    reference_name: str | None = None
    shell: str | None = None
    prepare: Sequence[str] = ()
    conclude: Sequence[str] = ()
    setup: str | None = None
    cleanup: str | None = None
    setup_each: bool = False
    stdout: Sequence[str] = ()
    warmup: int = 0
    single_runs: bool = False
    seconds: float | None = None
    program: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the workload's program, such as `read`."""


@dataclass(frozen=True)
class Benchmark:
    """A command to measure, with the values of its parameters filled in.

    `level` is its name as a level of the study's factor. `template` is its command line in the study. There, braces
    that come from values of parameters are doubled, so that they are not taken for placeholders.
    """

    level: str
    command: str
    template: str
    label: str
    name: str | None
    parameters: Mapping[str, str]
    prepare: str = ""
    conclude: str = ""
    stdout: str = ""
    setup: str = ""
    cleanup: str = ""

    @property
    def shown(self) -> str:
        """Return the command's name or, if it has none, the command without probable passwords."""
        return self.name or without_passwords(self.command)

    @property
    def shown_parameters(self) -> dict[str, str]:
        return {
            name: HIDDEN if find_passwords([f"{name}={value}"]) else value for name, value in self.parameters.items()
        }


def benchmarks(comparison: Comparison) -> list[Benchmark]:
    """Return each command with each combination of parameters. The first one is the control.

    The order is hyperfine's: all commands with the first values of all parameters, then all commands with the second
    value of the first parameter, and so on. Parameters do not apply to the reference command (--reference).

    Raises `TOO_FEW_COMMANDS`, `TOO_MANY_COMMANDS`, `COMMAND_NAMES_MISMATCH` and `NOT_ONE_FOR_EACH`.
    """
    names, given = comparison.parameters, comparison.commands
    combinations = [dict(zip(names, values[::-1], strict=True)) for values in product(*[*names.values()][::-1])]
    made = [(command, parameters) for parameters in combinations for command in given]
    named = _names(comparison, len(made))
    if comparison.reference is not None:
        made = [(comparison.reference, {}), *made]
        named = [comparison.reference_name, *named]
    if not given:
        raise CostofError(ErrorText.TOO_FEW_COMMANDS)
    if len(made) > MOST_COMMANDS:
        raise CostofError(ErrorText.TOO_MANY_COMMANDS, commands=len(made), most=MOST_COMMANDS)
    lines = [_filled(command, parameters) for command, parameters in made]
    full_names = [
        name and _with_unused(_filled(name, parameters), name, parameters)
        for name, (_, parameters) in zip(named, made, strict=True)
    ]
    labels = _labels([_with_unused(line, *each) for line, each in zip(lines, made, strict=True)])
    levels = _levels(full_names)
    prepare, conclude, stdout = (
        _one_for_each(option, texts, comparison, len(made))
        for option, texts in (
            ("--prepare", comparison.prepare),
            ("--conclude", comparison.conclude),
            ("--output", comparison.stdout),
        )
    )
    return [
        Benchmark(
            level=levels[at],
            command=lines[at],
            template=_filled(command, {name: _escaped(value) for name, value in parameters.items()}),
            label=full_names[at] or labels[at],
            name=full_names[at],
            parameters=parameters,
            prepare=_filled(prepare[at], parameters),
            conclude=_filled(conclude[at], parameters),
            stdout=stdout[at],
            setup=_filled(comparison.setup or "", parameters),
            cleanup=_filled(comparison.cleanup or "", parameters),
        )
        for at, (command, parameters) in enumerate(made)
    ]


def study_content(comparison: Comparison, made: Sequence[Benchmark]) -> dict[str, Any]:
    """Return the content of a study that compares the commands."""
    control, *others = made
    others_label = listed([each.label for each in others])
    title = f"What does {others_label} cost against {control.label}?" if others else f"What does {control.label} take?"
    once = any("{seconds}" in each.template for each in made)
    return {
        "title": title,
        "service": COMMAND,
        "control": {"command": control.level},
        "factors": {"command": {"levels": {each.level: _level(comparison, each, made) for each in made}}},
        "workloads": {WORKLOAD: {"command": _program(comparison, made, once)}},
        **({"profiles": _profiles(comparison, once)} if comparison.single_runs else {}),
    }


def measured_shell(comparison: Comparison, lines: Sequence[str]) -> list[str] | None:
    """Return the shell that runs the measured commands, as arguments; None if they run without a shell.

    All commands have the same shell, so that the shell's start-up makes no difference between them.
    """
    if comparison.shell is None:
        return DEFAULT_SHELL if any(map(needs_shell, lines)) else None
    return _shell(comparison.shell)


def changes_state(made: Sequence[Benchmark]) -> bool:
    """Return whether some commands differ only in their `setup`.

    The setup of one such command undoes that of another, so each setup must run again whenever its command is measured.
    """
    setups: dict[tuple[str, str, str], set[str]] = {}
    for each in made:
        setups.setdefault((each.command, each.prepare, each.conclude), set()).add(each.setup)
    return any(len(different) > 1 for different in setups.values())


def parse_list(name: str, text: str) -> list[str]:
    r"""Return the values of a list 'a,b,c', in which '\,' is a comma. Raises `BAD_PARAMETER`."""
    _check_name("--parameter-list", name)
    values = [""]
    for part in re.findall(r"\\[,\\]|.", text, re.DOTALL):
        if part == ",":
            values.append("")
        else:
            values[-1] += part[-1]
    return values


def parse_scan(name: str, low: str, high: str, step: str | None) -> list[str]:
    """Return the numbers from `low` to `high`. Raises `BAD_PARAMETER`."""
    option = "--parameter-scan"
    _check_name(option, name)
    try:
        first, last, delta = Decimal(low), Decimal(high), Decimal(step or "1")
    except InvalidOperation:
        shown = f"{low} {high}" + (f" -D {step}" if step else "")
        raise CostofError(ErrorText.BAD_PARAMETER, option=option, detail=f"'{shown}' is not a range") from None
    if not all(each.is_finite() for each in (first, last, delta)) or delta <= 0 or last < first:
        raise CostofError(ErrorText.BAD_PARAMETER, option=option, detail=f"{low} to {high} by {step or 1} has no steps")
    if step is None and not all(each == each.to_integral_value() for each in (first, last)):
        detail = f"{low} to {high} needs a step, such as -D 0.1"
        raise CostofError(ErrorText.BAD_PARAMETER, option=option, detail=detail)
    if (last - first) / delta >= MOST_COMMANDS:
        raise CostofError(ErrorText.TOO_MANY_COMMANDS, commands=int((last - first) / delta) + 1, most=MOST_COMMANDS)
    return [f"{first + at * delta:f}" for at in range(int((last - first) / delta) + 1)]


def _check_name(option: str, name: str) -> None:
    if not _NAME_OF_PARAMETER.fullmatch(name):
        raise CostofError(ErrorText.BAD_PARAMETER, option=option, detail=f"'{name}' is not a name like threads")


def _names(comparison: Comparison, number: int) -> list[str | None]:
    """Return the user's name for each command; None for a command without a name.

    If there are parameters, the user may give a single name with placeholders, such as 'make -j{n}', for all commands.
    Raises `COMMAND_NAMES_MISMATCH`.
    """
    names = comparison.names
    whole = not comparison.parameters or len(names) in (0, 1, number)
    if len(names) > number or not whole:
        raise CostofError(ErrorText.COMMAND_NAMES_MISMATCH, names=len(names), commands=number)
    if comparison.parameters and len(names) == 1:
        return [*names] * number
    if len(set(names)) < len(names):
        raise CostofError(ErrorText.COMMAND_NAMES_MISMATCH, names=len(set(names)), commands=number)
    return [*names, *[None] * (number - len(names))]


def _levels(names: Sequence[str | None]) -> list[str]:
    """Return a name for each command that may be part of an arm's name: the user's name, or else a letter."""
    usable = [name if name and _NAME_OF_ARM.fullmatch(name) and names.count(name) == 1 else None for name in names]
    letters = (chr(ord("a") + at) if at < 26 else f"command-{at + 1}" for at in range(2 * len(names)))
    return [name or next(letter for letter in letters if letter not in usable) for name in usable]


def _filled(text: str, parameters: Mapping[str, str]) -> str:
    """Return the text with each '{name}' of a parameter replaced by its value, in one pass."""
    if not parameters:
        return text
    known = re.compile("|".join(re.escape(f"{{{name}}}") for name in parameters))
    return known.sub(lambda match: parameters[match[0][1:-1]], text)


def _escaped(text: str) -> str:
    """Return the text with each '{name}' written as '{{name}}', which is no placeholder of a study."""
    return re.sub(r"\{([A-Za-z_]\w*)\}", r"{{\1}}", text)


def _with_unused(filled: str, pattern: str, parameters: Mapping[str, str]) -> str:
    """Return the text, followed by those parameters that `pattern` does not contain, such as 'make (n = 1)'."""
    unused = [f"{name} = {value}" for name, value in parameters.items() if f"{{{name}}}" not in pattern]
    return f"{filled} ({', '.join(unused)})" if unused else filled


def _one_for_each(option: str, texts: Sequence[str], comparison: Comparison, number: int) -> list[str]:
    """Return a text for each of the `number` measured commands, taken from the texts of an option such as --prepare.

    `texts` has one text for all commands or one for each. With parameters, one command on the command line, such as
    'make -j{n}', becomes several measured commands. `texts` may then also have one text for each command on the command
    line. Raises `NOT_ONE_FOR_EACH`.
    """
    given, references = len(comparison.commands), 0 if comparison.reference is None else 1
    if len(texts) < 2:
        return ([*texts] or [""]) * number
    if len(texts) == number:
        return [*texts]
    if len(texts) == given + references:
        return [*texts[:references], *([*texts[references:]] * ((number - references) // given))]
    raise CostofError(ErrorText.NOT_ONE_FOR_EACH, option=option, times=len(texts), commands=number)


def _level(comparison: Comparison, each: Benchmark, made: Sequence[Benchmark]) -> dict[str, Any]:
    words = {"command": each.template}
    if comparison.prepare:
        words["prepare"] = _step(comparison, each.prepare)
    if comparison.conclude:
        words["conclude"] = _step(comparison, each.conclude)
    if comparison.stdout:
        words["stdout"] = each.stdout
    first, last = ("before", "after") if comparison.setup_each or changes_state(made) else ("setup", "cleanup")
    steps = {first: [_step(comparison, each.setup)] if each.setup else []}
    steps |= {last: [_step(comparison, each.cleanup)] if each.cleanup else []}
    return {"label": each.label.replace("{", "{{").replace("}", "}}"), "set": words, **steps}


def _step(comparison: Comparison, line: str) -> str:
    """Return the command line of an unmeasured step, such as --prepare. It calls a shell unless --shell=none is set."""
    shell = _shell(comparison.shell or "default")
    if not line.strip():
        return ""
    return _escaped(line if shell is None else shlex.join([*shell, "-c", line]))


def _shell(name: str) -> list[str] | None:
    return {"none": None, "default": DEFAULT_SHELL}[name] if name in ("none", "default") else shlex.split(name)


def _program(comparison: Comparison, made: Sequence[Benchmark], once: bool) -> dict[str, Any]:
    shell = measured_shell(comparison, [each.command for each in made])
    # The last warm-up run takes place in the warm-up round, so run one less before the first slice (measured window).
    fields = {
        "run": "{command}",
        "shell": shlex.join(shell) if shell else False,
        "seconds": comparison.seconds,
        "once": once,
        "first_warmup": max(0, comparison.warmup - 1),
        **{name: f"{{{name}}}" for name in ("prepare", "conclude", "stdout") if getattr(comparison, name)},
        **comparison.program,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _profiles(comparison: Comparison, once: bool) -> dict[str, dict[str, Any]]:
    """Return profiles in which each command runs once in a round. Warm-up runs add a warm-up round."""
    seconds = comparison.seconds or (DEFAULT_SECONDS if once else REPEATED_SECONDS)
    return {
        name: {
            **profile,
            "rounds": [profile["rounds"][0], MOST_ROUNDS_OF_RUNS],
            "warm_up_rounds": min(1, comparison.warmup),
            "slices": {WORKLOAD: {"operations": 1, "seconds": seconds}},
        }
        for name, profile in PROFILES.items()
    }


def _labels(commands: Sequence[str]) -> list[str]:
    """Return a label for each command, short enough for a table. Different commands get different labels."""
    texts = [" ".join(command.split()) for command in commands]
    labels = [_shortened(text) for text in texts]
    if len(set(labels)) < len(set(texts)):
        # If all commands begin with the same words, leave these words out.
        words = [text.split() for text in texts]
        shared = len([*takewhile(lambda each: len(set(each)) == 1, zip(*words, strict=False))])
        labels = [_shortened(" ".join(["…", *each[shared:]])) for each in words]
    if len(set(labels)) < len(set(texts)):
        labels = [f"{number} {label}" for number, label in enumerate(labels, 1)]
    return labels


def _shortened(words: str) -> str:
    """Return at most `LONGEST_LABEL` characters of a command in quotes, so that a sentence does not capitalize it."""
    return f"“{words if len(words) <= LONGEST_LABEL else words[: LONGEST_LABEL - 1] + '…'}”"
