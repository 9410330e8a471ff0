"""The runner: the instrument that runs commands, a process of its own (`python -m costof.instruments.commands.runner`).

It keeps what levels bring into force to the slices that it is meant for: whatever ends a slice, and be it that costof
is killed, the command is ended, the level undone, and nothing that a command started is left. With `--sealed` it is
told its plan by another host (docs/ipc.md).
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

from costof.instruments.commands.arm import Arm, Runs, StepError, UndoError, UnprovedError, own_peak_memory, rates_of
from costof.instruments.commands.process import ParentGoneError
from costof.instruments.commands.settings import CommandSettings
from costof.instruments.drivers.driver import read_plan
from costof.lab.supervisor import PR_SET_CHILD_SUBREAPER, parents
from costof.messages.answers import MISMATCH, MISSING, NOTES, PEAK_MEMORY, REPORTED
from costof.messages.plan import Plan, PrepareOrder, SliceOrder
from costof.messages.sealing import Opener

PHASE = "command"
SEALED = "--sealed"
PR_SET_DUMPABLE = 4
#: As the engine has it: an instant that is further ahead is of another clock.
LONGEST_WAIT_NS = 60_000_000_000


class OrderError(Exception):
    """A plan or an order that is not of the agreed form."""


class Runner:
    """The arms of a plan."""

    def __init__(self, plan: Plan) -> None:
        self.arms: dict[str, Arm] = {}
        self.refused: dict[str, StepError] = {}
        self._prepared: tuple[PrepareOrder, UnprovedError | None] | None = None
        self._last: tuple[CommandSettings, str] | None = None
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

    def prepare(self, order: PrepareOrder) -> dict[str, Any]:
        """Prove the arm of the slice that comes next; that slice tells what came of it."""
        try:
            self.arms[order.arm].prove()
            self._prepared = order, None
        except UnprovedError as error:
            self._prepared = order, error
        return {"id": order.id, "errors": []}

    def slice(self, order: SliceOrder) -> dict[str, Any]:
        """Its runs, if the arm is proved before and after them. Raises `OrderError`."""
        arm = self.arms[order.arm]
        program = arm.settings.programs[order.workload]
        unproved = self._of_prepare(order)
        runs, evidence = Runs(), {}
        started_unix, started = time.time_ns(), time.monotonic_ns()
        elapsed = 0
        try:
            with arm.in_force():
                if unproved is not None:
                    raise unproved
                if self._last != (arm.settings, order.workload):
                    self._last = arm.settings, order.workload
                    arm.warm_up(program)
                if order.opens_ns is None:
                    arm.prove()
                else:
                    time.sleep(max(0, order.opens_ns - time.monotonic_ns()) / 1e9)
                started_unix, started = time.time_ns(), time.monotonic_ns()
                runs = arm.measure(program, order)
                elapsed = time.monotonic_ns() - started
                arm.prove()
        except UnprovedError as error:
            evidence[MISMATCH] = str(error)
        except StepError as error:
            runs.errors.add(error.error_class, str(error))
        figures = {name: fmean(values) for name, values in runs.figures.items()}
        if runs.peak_memory_bytes:
            figures[PEAK_MEMORY] = runs.peak_memory_bytes / 2**20
        window = {}
        if order.opens_ns is not None:
            # Where nothing was run there was no first run, and no last.
            first, last = (started, started + elapsed) if elapsed else (None, None)
            window = {"window": {"opened_ns": started, "first_began_ns": first, "last_ended_ns": last}}
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
            "counts": {} if runs.reported is None else {REPORTED: runs.reported},
            "figures": figures,
            "rates": rates_of(program),
            "evidence": {
                **evidence,
                MISSING: runs.missing,
                NOTES: [*runs.notes],
                **runs.left_behind,
                "output": runs.output,
            },
            **window,
        }

    def _of_prepare(self, order: SliceOrder) -> UnprovedError | None:
        """What came of preparing a slice that was told when to open. Raises `OrderError`."""
        prepared, self._prepared = self._prepared, None
        if order.opens_ns is None:
            return None
        asked = PrepareOrder(id=order.id, arm=order.arm, workload=order.workload, reconnect=order.reconnect)
        if prepared is None or prepared[0] != asked:
            raise OrderError("a slice with opens_ns comes next after the prepare of the same id, arm and workload")
        if order.opens_ns > time.monotonic_ns() + LONGEST_WAIT_NS:
            raise OrderError("opens_ns is more than a minute ahead: it is of this host's CLOCK_MONOTONIC")
        return prepared[1]


def serve(folders: list[Path], opener: Opener | None) -> int:
    """Answer the lines on standard input until it closes. `folders` are told what is to be removed at the end. With an
    `opener` the first line is sealed to it. Raises `OrderError`."""
    runner: Runner | None = None
    for line in sys.stdin:
        try:
            message, opener = json.loads(opener.opened(line) if opener else line), None
            plan = read_plan(message["plan"], CommandSettings) if "plan" in message else None
        except ValueError as error:
            # No error of a model quotes what was read.
            raise OrderError(" ".join(str(error).split())[:300]) from None
        if plan is not None:
            runner = Runner(plan)
            for folder in runner.folders:
                try:
                    folder.mkdir(mode=0o700)
                except FileExistsError:
                    detail = f"{folder} is there: another host of this run has the same file system"
                    raise OrderError(detail) from None
                folders.append(folder)
            _say({"ready": runner.ready(plan)})
        elif runner is not None and "prepare" in message:
            _say({"prepared": runner.prepare(PrepareOrder.model_validate(message["prepare"]))})
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
    is_sealed = SEALED in sys.argv[1:]
    # Be nobody's child: Ray kills the children of a process that ends, and a runner that is killed ends no command.
    if is_sealed and os.fork():
        os._exit(0)
    # A Ctrl-C is the run's business. A handler, since commands would inherit that a signal is ignored.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    folders: list[Path] = []
    try:
        opener = None
        if is_sealed:
            # This process's memory is private from here on; a command's is its own affair.
            ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
            opener = Opener()
            _say(opener.public_key.model_dump())
        return serve(folders, opener)
    except ParentGoneError:
        return 0
    except OrderError as error:
        _say({"error": {"class": "plan", "detail": str(error)}})
        return 1
    except UndoError as error:
        _say({"error": {"class": "not_undone", "detail": f"a level could not be undone: {error}"}})
        return 1
    finally:
        _end_orphans()
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
