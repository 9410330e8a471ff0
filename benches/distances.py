"""A benchmark of accuracy: delays that costof measures, compared with the delays that simulated links add.

It needs a quiet machine, and root rights because hosts and links are network namespaces. The tests check only what
holds on any machine: counts of round trips, lower bounds and order. This benchmark shows how close the measured delays
come to the delays of the links.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from costof.lab.lab import is_root
from costof.report import analyse
from costof.report.result import Result
from costof.results.ledger import Ledger
from costof.run.experiment import run
from costof.services import Service
from costof.services.open import open_service
from costof.services.replication.lab import ReplicationLab
from costof.services.server.lab import ServerLab
from costof.study.arms import PlannedArm
from costof.study.library import load_study
from costof.study.plan import Options, Plan, resolve

STUDY = "mysql-transport"
ROUNDS = "8"
EXTRA_MS = 5.0
FAR_MS = 20.0


class NoProgress:
    def stage(self, text: str) -> None: ...

    def warn(self, text: str) -> None: ...

    def round(self, done: int, elapsed_seconds: float, reached: float | None) -> None: ...


def delayed_plan() -> Plan:
    """Return a plan of two arms without TLS. The client of the second arm is 5 ms further away from the server."""
    plan = resolve(load_study(STUDY), Options(profile="quick", settings=["records=500", "distance=10"], rounds=ROUNDS))
    control = plan.controls[0]
    levels = {"transport": "plain", "distance": f"{10 + EXTRA_MS:g}"}
    delayed = PlannedArm(name="delayed", label="plain, delayed", levels=levels, control_arm=control.name)
    slices = {name: size.model_copy(update={"operations": 32}) for name, size in plan.slices.items()}
    return plan.model_copy(update={"arms": [control, plan.replicate(control), delayed], "slices": slices})


def far_plan() -> Plan:
    settings = ["records=500", f"distance=lan,{FAR_MS:g}"]
    return resolve(load_study(STUDY), Options(profile="quick", settings=settings, rounds=ROUNDS))


def measure(plan: Plan) -> Result:
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger.create(plan, Path(folder) / "run")
        run(plan, open_service(plan, None, "run"), ledger, NoProgress())
        return analyse(ledger)


def delays(result: Result) -> Iterator[tuple[str, str, str]]:
    for metric, trips in (("wire.query_1", 1), ("wire.connect", 3)):
        difference = next(effect.difference for effect in result.effects if effect.metric == metric)
        text = f"{difference.value:.2f} ms [{difference.low:.2f}, {difference.high:.2f}]"
        yield f"{EXTRA_MS:g} ms on one arm, {metric}", f"{trips * EXTRA_MS:g} ms", text


def distances(result: Result) -> Iterator[tuple[str, str, str]]:
    for link in result.links:
        yield f"link {link.name}, {link.method}", f"{link.nominal_ms:g} ms", f"{link.median_ms:.3f} ms"
    loss = next(
        effect.ratio
        for effect in result.effects
        if (effect.metric, effect.arm) == ("wire.connections_per_second", f"tls@{FAR_MS:g}")
    )
    assert loss is not None
    yield "connections a second under TLS, far", "-25 %", f"{loss.value - 1:+.1%}"
    for each in result.sections.cost_model.predictions:
        if each.measured is not None and not each.local and each.metric in ("wire.connect", "wire.query_1"):
            yield (
                f"the model, {each.metric} {each.arm}",
                f"{each.predicted.value:.2f} ms",
                f"{each.measured.value:.2f} ms",
            )


@contextmanager
def timed(seconds: list[float]) -> Iterator[None]:
    started = time.monotonic()
    yield
    seconds.append(time.monotonic() - started)


def lab_starts() -> Iterator[tuple[str, str, str]]:
    """Start two labs (sets of servers), one after the other, and yield a table row with each lab's start-up time."""
    quick = resolve(load_study(STUDY), Options(profile="quick"))
    settings = ["nodes=15", "sync=star", "write_concern=1", "node_cpu=0.5"]
    fifteen = resolve(load_study("mongodb-chained-replication"), Options(profile="quick", settings=settings))
    labs: dict[str, Service] = {"the quick lab of MySQL": ServerLab(quick), "15 members": ReplicationLab(fifteen)}
    for name, lab in labs.items():
        seconds: list[float] = []
        with timed(seconds):
            lab.__enter__()
        lab.__exit__(None, None, None)
        yield f"start of {name}", "", f"{seconds[0]:.1f} s"


def main() -> None:
    if not is_root():
        sys.exit("needs root, since hosts and links are network namespaces")
    table = Table(title="Known and measured values", title_justify="left", box=None)
    for heading in ("figure", "known", "measured"):
        table.add_column(heading)
    for row in (*delays(measure(delayed_plan())), *distances(measure(far_plan())), *lab_starts()):
        table.add_row(*row)
    Console(highlight=False, width=120).print(table)


if __name__ == "__main__":
    main()
