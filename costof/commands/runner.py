"""The runner: the instrument that runs commands, a process of its own (`python -m costof.commands.runner`).

It keeps what levels bring into force to the slices that it is meant for: whatever ends a slice, and be it that costof
is killed, the command is ended, the level undone, and nothing that a command started is left.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from statistics import fmean
from typing import Any

from costof.commands.arm import Arm, Runs, StepError, UndoError, UnprovedError, own_peak_memory
from costof.commands.process import ParentGoneError
from costof.commands.settings import CommandSettings
from costof.drivers.driver import read_plan
from costof.ipc.plan import Plan, SliceOrder
from costof.lab.supervisor import PR_SET_CHILD_SUBREAPER, parents

PHASE = "command"


class Runner:
    """The arms of a plan."""

    def __init__(self, plan: Plan) -> None:
        self.arms: dict[str, Arm] = {}
        self.refused: dict[str, StepError] = {}
        for arm in plan.arms:
            assert isinstance(arm.service, CommandSettings)
            try:
                self.arms[arm.name] = Arm(arm.service)
            except StepError as error:
                self.refused[arm.name] = error

    @property
    def folders(self) -> set[Path]:
        """That programs may write their reports to."""
        return {arm.settings.output.parent for arm in self.arms.values()}

    def ready(self, plan: Plan) -> dict[str, Any]:
        """Each arm once in force and proved."""
        for name, arm in self.arms.items():
            try:
                arm.check()
            except StepError as error:
                self.refused[name] = error
        arms = [self._told(arm.name) for arm in plan.arms]
        return {"instrument": "the commands of the study", "versions": {}, "arms": arms}

    def _told(self, name: str) -> dict[str, Any]:
        error = self.refused.get(name)
        if error is None:
            server = next(iter(self.arms[name].settings.addresses), "this machine")
            return {"name": name, "server": server, "error": None}
        return {"name": name, "server": None, "error": {"class": error.error_class, "detail": str(error)}}

    def slice(self, order: SliceOrder) -> dict[str, Any]:
        """Its runs, if the arm is proved before and after them."""
        arm = self.arms[order.arm]
        runs, evidence = Runs(), {}
        started_unix, started = time.time_ns(), time.monotonic_ns()
        elapsed = 0
        try:
            with arm.in_force():
                arm.prove()
                started_unix, started = time.time_ns(), time.monotonic_ns()
                runs = arm.measure(arm.settings.programs[order.workload], order)
                elapsed = time.monotonic_ns() - started
                arm.prove()
        except UnprovedError as error:
            evidence["mismatch"] = str(error)
        except StepError as error:
            runs.errors.add(error.error_class, str(error))
        figures = {name: fmean(values) for name, values in runs.figures.items()}
        if runs.peak_memory_bytes:
            figures["peak_memory"] = runs.peak_memory_bytes / 2**20
        return {
            "id": order.id,
            "arm": order.arm,
            "workload": order.workload,
            "started_unix_ns": started_unix,
            "elapsed_ns": elapsed,
            "operations": runs.succeeded,
            "errors": [*runs.errors.found.values()],
            "phases": {PHASE: runs.recorder.answer()} if runs.succeeded else {},
            "cpu_ns": {PHASE: runs.cpu_ns},
            "peak_memory_bytes": own_peak_memory(),
            "figures": figures,
            "evidence": {**evidence, "output": runs.output},
        }


def serve(folders: list[Path]) -> int:
    """Answer the lines on standard input until it closes. `folders` are told what is to be removed at the end."""
    runner: Runner | None = None
    for line in sys.stdin:
        message = json.loads(line)
        if "plan" in message:
            plan = read_plan(message["plan"], CommandSettings)
            runner = Runner(plan)
            for folder in runner.folders:
                folder.mkdir(mode=0o700)
                folders.append(folder)
            _say({"ready": runner.ready(plan)})
        elif runner is not None:
            _say({"slice": runner.slice(SliceOrder.model_validate(message["slice"]))})
    return 0


def _say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def _end_orphans() -> None:
    """Whatever commands have started and left comes to this process, their reaper."""
    while orphans := [pid for pid, parent in parents().items() if parent == os.getpid()]:
        for pid in orphans:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


def main() -> int:
    # A Ctrl-C is the run's business. A handler, since commands would inherit that a signal is ignored.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    folders: list[Path] = []
    try:
        return serve(folders)
    except ParentGoneError:
        return 0
    except UndoError as error:
        _say({"error": {"class": "not_undone", "detail": f"a level could not be undone: {error}"}})
        return 1
    finally:
        _end_orphans()
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
