"""The service for studies that measure the user's own commands.

It starts no servers. A separate process, the command runner, runs the commands and verifies the arms (measured
variants).
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import ExitStack

from costof.errors import WarningText
from costof.format import listed
from costof.instruments.commands.passwords import find_passwords
from costof.instruments.commands.settings import CommandSettings, build_settings, new_output
from costof.lab.lab import Resource
from costof.lab.program import Description
from costof.messages.answers import MISMATCH, SliceAnswer
from costof.messages.plan import Endpoint
from costof.services import Judgement, LoadData, Observation, Service
from costof.study.arms import PlannedArm
from costof.study.plan import Plan


class Commands(Resource, Service):
    """The user's commands as a service. All their placeholders are filled in before the first command runs."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self._output = plan, new_output()
        self._replicates = {arm.name for arm in plan.arms if arm.replicate}
        self.set_host_count(1)

    def set_host_count(self, hosts: int) -> None:
        study = self._plan.study
        levels = [level for factor in study.factors.values() for level in (factor.each, *factor.levels.values())]
        placeholders = {name for level in levels for name in level.set}
        self._arms = {
            arm.name: build_settings(
                arm.settings, self._plan.programs(arm, hosts), study.secrets, self._output, placeholders
            )
            for arm in self._plan.arms
        }

    def _open(self, stack: ExitStack) -> None:
        """Start nothing, because the commands themselves start what they need."""

    def endpoint(self, arm: PlannedArm) -> Endpoint:
        return Endpoint(service=self._arms[arm.name])

    def prepare(self, arms: Sequence[PlannedArm], load: LoadData) -> None: ...

    def writes(self) -> list[str]:
        """Return [], because costof cannot know what the commands write."""
        return []

    def commands(self) -> list[str]:
        return [
            f"{name}: {line}"
            for name, arm in self._arms.items()
            if name not in self._replicates
            for line in _lines(arm)
        ]

    def early_warnings(self) -> list[str]:
        lines = []
        for arm in self._arms.values():
            lines += [*(program.argv for program in arm.programs.values()), *arm.before, *arm.after]
            lines += [*arm.setup, *arm.cleanup]
            lines += [line for program in arm.programs.values() for line in (program.prepare, program.conclude)]
            lines += [command.argv for command in arm.verify]
            lines.append([f"{name}={value}" for name, value in arm.environment.items()])
        places = dict.fromkeys(password.place for line in lines for password in find_passwords(line))
        return [WarningText.EXPOSED_IN_COMMAND.text(places=listed([*places]))] if places else []

    def describe(self) -> Description:
        return Description(versions={}, topology="commands of the user's own")

    def judge(
        self, arm: PlannedArm, before: Observation | None, after: Observation | None, answer: SliceAnswer
    ) -> Judgement:
        commands = self._arms[arm.name].verify
        mismatch = answer.evidence.get(MISMATCH)
        checks = "; ".join(f"{shlex.join(each.argv)} says {each.matches}" for each in commands)
        return Judgement(mismatch=mismatch, facts={"verified": checks} if checks and not mismatch else {})


def _lines(arm: CommandSettings) -> list[str]:
    """Return an arm's commands in the order in which they run. Each text begins with the step: 'setup make build'."""
    programs = arm.programs.values()
    steps = {
        "setup": arm.setup,
        "before": arm.before,
        "verify": [command.argv for command in arm.verify],
        "prepare": [program.prepare for program in programs],
        "run": [program.argv for program in programs],
        "conclude": [program.conclude for program in programs],
        "after": arm.after,
        "cleanup": arm.cleanup,
    }
    return [f"{step} {shlex.join(argv)}" for step, commands in steps.items() for argv in commands if argv]


def service(plan: Plan) -> Service:
    """Return the service for a plan. Raises `UNKNOWN_WORD`, `NOT_A_COMMAND` and `SHELL_SIGN`."""
    return Commands(plan)
