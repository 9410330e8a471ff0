"""The command that repeats a run, with the same study, arms, load, number of rounds and order of measurements."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from costof.studies import study_names
from costof.study.arms import plan_arms
from costof.study.commands import COMMAND
from costof.study.load import Arrivals, Pool
from costof.study.plan import Plan
from costof.study.several_loads import level_of

VERSUS = "versus"
"""The name of the study that `costof versus` makes from its commands."""


def command_line(plan: Plan, rounds: int) -> str:
    """Return the command line, without passwords, that repeats a run with this number of rounds after each start."""
    study = plan.study
    if study.name == VERSUS and study.service.kind == COMMAND:
        words = ["costof", "versus", *_versus(plan)]
    else:
        name = study.name if study.name in study_names() else f"{study.name}.toml"
        words = ["costof", "run", name, "--profile", plan.profile, *_settings(plan)]
    if plan.target is not None:
        words += ["--target", plan.target]
        words += ["--plain-target", plan.plain_target] if plan.plain_target is not None else []
    words += [*_load(plan)]
    words += ["--client", plan.client] if plan.client is not None else []
    words += ["--hosts", plan.hosts] if plan.hosts is not None else []
    # On a target (the user's own servers), leave out --memory, because it needs --server-memory COMMAND. The plan does
    # not store this command completely, since it may contain a password.
    words += ["--memory", str(plan.memory)] if plan.memory and plan.target is None else []
    words += ["--restarts", str(plan.starts)] if plan.starts > 1 else []
    return shlex.join([*words, "--rounds", str(rounds), "--seed", str(plan.seed)])


def _settings(plan: Plan) -> Iterator[str]:
    """Yield `--set` options for the factors whose levels the user changed.

    Yield nothing if the run has the same arms as a run of the profile without options.
    """
    study, profile = plan.study, plan.study.profiles[plan.profile]
    usual = plan_arms(study, profile, {})
    if [(arm.name, arm.levels) for arm in usual] == [(arm.name, arm.levels) for arm in plan.arms]:
        return
    for name in study.factors:
        before, now = (
            [*dict.fromkeys(arm.levels[name] for arm in arms if name in arm.levels)] for arms in (usual, plan.arms)
        )
        if now != before and now:
            yield "--set"
            yield f"{name}={','.join(now)}"


def _versus(plan: Plan) -> Iterator[str]:
    """Yield the compared commands, the commands that run before and after them, and the options for running them."""
    arms = [arm for arm in plan.arms if not arm.replicate]
    (workload,) = plan.study.workloads.values()
    program = workload.command
    assert program is not None
    settings = [arm.settings for arm in arms]
    yield from (each.set.get("command", "") for each in settings)
    if all(arm.label == arm.levels["command"] for arm in arms):
        for arm in arms:
            yield from ("--name", arm.label)
    around = {
        "--prepare": [each.set.get("prepare", "") for each in settings],
        "--conclude": [each.set.get("conclude", "") for each in settings],
        "--setup": ["; ".join([*each.setup, *each.before]) for each in settings],
        "--cleanup": ["; ".join([*each.cleanup, *each.after]) for each in settings],
    }
    for option, commands in around.items():
        for command in commands[:1] if len(set(commands)) == 1 else commands:
            yield from [option, command] if command else []
    yield from ["--setup-each"] if any(each.before for each in settings) else []
    # The plan counts one warm-up run less, because the last one takes place in the warm-up round. Add it again.
    yield from ["--warmup", str(program.first_warmup + 1)] if program.first_warmup else []
    yield from ["--warmup-each", str(program.warmup)] if program.warmup else []
    yield from ["--read", program.read] if program.read else []
    yield from ["--seconds", f"{program.seconds:g}"] if program.seconds else []
    yield from ["--input", str(program.stdin)] if program.stdin else []
    if program.ignore_failure is True:
        yield "--ignore-failure"
    elif program.ignore_failure:
        yield f"--ignore-failure={','.join(map(str, program.ignore_failure))}"


def _load(plan: Plan) -> Iterator[str]:
    load, sweep = plan.load, plan.sweep
    if load is None:
        return
    if isinstance(load, Pool):
        yield from ("--pool", str(load.connections))
        yield from ["--think-time", f"{load.think_ms:g}ms"] if load.think_ms else []
    if sweep is not None:
        yield from ("--load", f"{level_of(sweep.least)}/s..{level_of(sweep.most)}/s")
        yield from (
            "--limit",
            f"p{sweep.limit.percentile:g} of a {sweep.limit.label}",
            f"{sweep.limit.milliseconds:g}ms",
        )
    elif load.per_second is not None:
        yield from ("--load", ",".join(f"{level_of(each)}/s" for each in plan.rates or [load.per_second]))
    if isinstance(load, Arrivals):
        yield from ("--queries-per-connection", str(load.queries_per_connection))
