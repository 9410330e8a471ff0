"""The command runner: the process that runs and measures the user's commands, on costof's order.

The runner is started as `python -m costof.instruments.commands.runner`. It is a separate process so that it can clean
up if costof is killed: it ends the running command, undoes the arm's levels (changed settings) and kills everything
that the command started. With `--sealed`, the runner is controlled from another host, which encrypts the plan, because
the plan may contain secrets (docs/ipc.md).
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import fmean
from typing import Any

from costof.instruments.commands.arm import (
    Arm,
    AroundError,
    NotVerifiedError,
    Runs,
    StepError,
    UndoError,
    own_peak_memory,
    rate_names,
)
from costof.instruments.commands.process import ParentGoneError
from costof.instruments.commands.settings import CommandSettings
from costof.instruments.drivers.driver import read_plan, write_line
from costof.lab.supervisor import PR_SET_CHILD_SUBREAPER, kill_children
from costof.messages.answers import MISMATCH, MISSING, NOTES, PEAK_MEMORY, REPORTED
from costof.messages.plan import Plan, PrepareOrder, SliceOrder
from costof.messages.sealing import Opener

PHASE = "command"
SEALED = "--sealed"
PR_SET_DUMPABLE = 4
#: The planned beginning of a slice (a measured window) must not be further ahead than this. A later beginning was
#: probably read from another host's clock.
LONGEST_WAIT_NS = 60_000_000_000


class OrderError(Exception):
    """A message from costof is malformed, or came in the wrong order."""


class Runner:
    """The arms (measured variants) of a run. `refused` has the errors of arms that cannot run."""

    def __init__(self, plan: Plan) -> None:
        self.arms: dict[str, Arm] = {}
        self.refused: dict[str, StepError] = {}
        self._prepared: tuple[PrepareOrder, NotVerifiedError | None] | None = None
        self._last: tuple[CommandSettings, str] | None = None
        self._set_up: list[Arm] = []
        for arm in plan.arms:
            assert isinstance(arm.service, CommandSettings)
            try:
                self.arms[arm.name] = Arm(arm.service)
            except StepError as error:
                self.refused[arm.name] = error

    @property
    def folders(self) -> set[Path]:
        return {arm.settings.output.parent for arm in self.arms.values()}

    def ready(self, plan: Plan) -> dict[str, Any]:
        """Set up all arms (measured variants), and test each one: apply, verify and undo its settings.

        Return the answer `ready`, with an error for each arm that does not work. Raises `AroundError` if a `setup`
        command fails.
        """
        for arm in self.arms.values():
            # The control (the arm without the protection) and its identical copy have the same settings and need only
            # one `setup`.
            if arm.settings not in (each.settings for each in self._set_up):
                self._set_up.append(arm)
                arm.set_up()
        for name, arm in self.arms.items():
            try:
                arm.check()
            except StepError as error:
                self.refused[name] = error
        arms: list[dict[str, Any]] = []
        for name in (arm.name for arm in plan.arms):
            if refusal := self.refused.get(name):
                detail = {"class": refusal.error_class, "detail": str(refusal)}
                arms.append({"name": name, "server": None, "error": detail})
            else:
                server = next(iter(self.arms[name].settings.addresses), "this machine")
                arms.append({"name": name, "server": server, "error": None})
        return {"instrument": "the commands of the study", "versions": {}, "arms": arms}

    def clean_up(self) -> list[str]:
        """Clean up the arms (variants) that were set up, at the first call only. Return a sentence for each failure."""
        arms, self._set_up = self._set_up, []
        return [failure for arm in arms for failure in arm.clean_up()]

    def prepare(self, order: PrepareOrder) -> dict[str, Any]:
        """Verify the settings of the arm (variant) that will be measured next, and return the answer.

        This answer never reports an error. If the verification failed, the answer to the next slice (measured window)
        reports it.
        """
        try:
            self.arms[order.arm].verify()
            self._prepared = order, None
        except NotVerifiedError as error:
            self._prepared = order, error
        return {"id": order.id, "errors": []}

    def slice(self, order: SliceOrder) -> dict[str, Any]:
        """Measure a slice (one measured window). Return the answer.

        The arm's settings are verified before and after the measurement. If `opens_ns` is set, `prepare` must already
        have verified them. Raises `OrderError`, and `UndoError` if the settings cannot be undone.
        """
        arm = self.arms[order.arm]
        program = arm.settings.programs[order.workload].at_rate(order.per_second)
        not_verified = self._take_prepared_error(order)
        runs, evidence = Runs(), {}
        arm.unmeasured_cpu_ns = 0
        started_unix, started = time.time_ns(), time.monotonic_ns()
        elapsed = 0
        try:
            with arm.in_force():
                if not_verified is not None:
                    raise not_verified
                follows_another = self._last != (arm.settings, order.workload)
                self._last = arm.settings, order.workload
                arm.warm_up(order.workload, program, follows_another)
                if order.opens_ns is None:
                    arm.verify()
                else:
                    time.sleep(max(0, order.opens_ns - time.monotonic_ns()) / 1e9)
                started_unix, started = time.time_ns(), time.monotonic_ns()
                runs = arm.measure(program, order)
                elapsed = time.monotonic_ns() - started
                arm.verify()
        except NotVerifiedError as error:
            evidence[MISMATCH] = str(error)
        except StepError as error:
            runs.errors.add(error.error_class, str(error))
        figures = {name: fmean(values) for name, values in runs.figures.items()}
        if runs.peak_memory_bytes:
            figures[PEAK_MEMORY] = runs.peak_memory_bytes / 2**20
        window = {}
        if order.opens_ns is not None:
            # No command has run if the settings could not be applied or verified. The times are then None.
            first, last = (started, started + elapsed) if elapsed else (None, None)
            window = {"window": {"opened_ns": started, "first_began_ns": first, "last_ended_ns": last}}
        return {
            "id": order.id,
            "arm": order.arm,
            "workload": order.workload,
            "started_unix_ns": started_unix,
            "elapsed_ns": elapsed,
            "operations": runs.succeeded,
            "errors": [*runs.errors.by_class.values()],
            "phases": {PHASE: runs.recorder.answer()} if runs.succeeded else {},
            "cpu_ns": {PHASE: runs.cpu_ns},
            "unmeasured_cpu_ns": arm.unmeasured_cpu_ns,
            "runs": runs.single,
            "peak_memory_bytes": own_peak_memory(),
            "counts": {} if runs.reported is None else {REPORTED: runs.reported},
            "figures": figures,
            "rates": rate_names(program),
            "evidence": {
                **evidence,
                MISSING: runs.missing,
                NOTES: [*runs.notes],
                **runs.left_behind,
                "output": runs.output,
            },
            **window,
        }

    def _take_prepared_error(self, order: SliceOrder) -> NotVerifiedError | None:
        """Return the error that `prepare` has stored for this slice (measured window), and forget it; None if no error.

        Only a slice with a planned beginning (`opens_ns`) must be preceded by `prepare`. Raises `OrderError` if the
        last `prepare` was for another slice, or if the beginning is too far ahead.
        """
        prepared, self._prepared = self._prepared, None
        if order.opens_ns is None:
            return None
        expected = PrepareOrder(id=order.id, arm=order.arm, workload=order.workload, reconnect=order.reconnect)
        if prepared is None or prepared[0] != expected:
            raise OrderError("a slice with opens_ns must directly follow a prepare with the same id, arm and workload")
        if order.opens_ns > time.monotonic_ns() + LONGEST_WAIT_NS:
            raise OrderError("opens_ns is more than a minute ahead; it must be on this host's CLOCK_MONOTONIC")
        return prepared[1]


def serve(folders: list[Path], opener: Opener | None, ending: ExitStack) -> int:
    """Answer the messages on standard input until it closes. Return the exit status, 0.

    If `opener` is not None, it decrypts the first message. The function adds the folders that it creates to `folders`,
    and the clean-up of the arms (measured variants) to `ending`. The caller must remove the folders and close `ending`.
    Raises `OrderError`.
    """
    runner: Runner | None = None
    for line in sys.stdin:
        try:
            message, opener = json.loads(opener.opened(line) if opener else line), None
            plan = read_plan(message["plan"], CommandSettings) if "plan" in message else None
        except ValueError as error:
            # The text cannot contain secrets: the models' validation errors never quote the input.
            raise OrderError(" ".join(str(error).split())[:300]) from None
        if plan is not None:
            runner = Runner(plan)
            ending.callback(runner.clean_up)
            for folder in runner.folders:
                try:
                    folder.mkdir(mode=0o700)
                except FileExistsError:
                    detail = f"{folder} already exists: another host of this run uses the same file system"
                    raise OrderError(detail) from None
                folders.append(folder)
            write_line({"ready": runner.ready(plan)})
        elif runner is not None and "prepare" in message:
            write_line({"prepared": runner.prepare(PrepareOrder.model_validate(message["prepare"]))})
        elif runner is not None and "finish" in message:
            write_line({"finished": {"failures": runner.clean_up()}})
        elif runner is not None:
            write_line({"slice": runner.slice(SliceOrder.model_validate(message["slice"]))})
    return 0


def main() -> int:
    is_sealed = SEALED in sys.argv[1:]
    # On another host, detach from the parent, a process of Ray. When Ray ends the parent, it also kills the parent's
    # children, and a killed runner could not clean up.
    if is_sealed and os.fork():
        os._exit(0)
    # Ignore these signals, because costof handles Ctrl-C and then closes this process's input. Use an empty handler
    # instead of SIG_IGN: the commands would inherit SIG_IGN.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    folders: list[Path] = []
    ending = ExitStack()
    try:
        opener = None
        if is_sealed:
            # Keep other processes of this user from reading passwords in this process's memory.
            ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
            opener = Opener()
            write_line(opener.public_key.model_dump())
        return serve(folders, opener, ending)
    except ParentGoneError:
        return 0
    except OrderError as error:
        write_line({"error": {"class": "plan", "detail": str(error)}})
        return 1
    except AroundError as error:
        write_line({"error": {"class": "step_failed", "detail": str(error)}})
        return 1
    except UndoError as error:
        write_line({"error": {"class": "not_undone", "detail": f"a level could not be undone: {error}"}})
        return 1
    finally:
        ending.close()
        kill_children()
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
