"""The cost model predicts the cost of durable commits on a slower disk, simulated by a known delay of each flush."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from costof.report import analyse
from costof.report.how_sure import HIGH
from costof.report.result import Result
from costof.report.sections.cost_model.calculator import Load, added, extras
from costof.results.index import Index
from costof.results.ledger import Ledger
from tests.integration.conftest import COSTOF

pytestmark = [pytest.mark.slow, pytest.mark.servers, pytest.mark.alone]

MORE_MS = 2.0
ATTEMPTS = 3
#: A cost at another time of a flush may differ from its prediction by this share. A flush too few or too many would
#: change it by at least a third.
MODEL_ERROR = 0.1
#: A library for LD_PRELOAD that delays each flush by DELAY_NS.
SHIM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
#include <unistd.h>

static int flush(const char *name, int file) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_nsec += DELAY_NS;
    if (end.tv_nsec >= 1000000000) { end.tv_nsec -= 1000000000; end.tv_sec++; }
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, 0)) {}
    return real(file);
}

int fsync(int file) { return flush("fsync", file); }
int fdatasync(int file) { return flush("fdatasync", file); }
"""
STUDIES = {
    "postgres-durability": "commit=off,local",
    "mariadb-durability": "commit=0-0,1-1",
    "mongodb-durability": "write_concern=w1,w1-journal",
    "redis-durability": "log=memory-only,each-answer",
}


@pytest.fixture(scope="session")
def shim() -> Iterator[Path]:
    """Yield the built library, which makes each flush 2 ms longer, in a folder that the servers' user can read.

    Pytest's own folders are private, and a library that cannot be read is left out without an error.
    """
    with tempfile.TemporaryDirectory(prefix="costof-test-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        source, library = folder / "flush.c", folder / "flush.so"
        source.write_text(SHIM)
        delay = f"-DDELAY_NS={int(MORE_MS * 1e6)}"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", delay, "-o", str(library), str(source), "-ldl"], check=True)
        library.chmod(0o755)
        yield library


def measured_on(folder: Path, study: str, preloaded: Path | None) -> Result:
    """Run the study with one client, and return the result. All processes load the library `preloaded` (None: none).

    A run that says that a round was far from the others, or that a check failed, is repeated.
    """
    chosen = ["--profile", "quick", "--set", STUDIES[study], "--set", "clients=1", "--rounds", "8"]
    variables = {"LD_PRELOAD": str(preloaded)} if preloaded else {}
    for attempt in range(ATTEMPTS):
        out = folder / str(attempt)
        subprocess.run([*COSTOF, "run", study, *chosen, "--out", str(out)], check=True, env={**os.environ, **variables})
        result = analyse(Ledger.open(out))
        if result.summary.sure.startswith(HIGH):
            break
    return result


@pytest.mark.parametrize("study", STUDIES)
def test_cost_of_durable_commits_on_a_slower_disk_is_predicted(study: str, shim: Path, tmp_path: Path) -> None:
    usual = measured_on(tmp_path / "usual", study, None)
    slower = measured_on(tmp_path / "slower", study, shim)
    (model, slow_model) = (each.sections.cost_model for each in (usual, slower))
    assert slow_model.flush_ms.value - model.flush_ms.value == pytest.approx(MORE_MS, rel=0.2)
    (extra,) = extras(Index(usual), model)
    load = Load(0.0, operations=1.0, flush_ms=slow_model.flush_ms.value)
    predicted = added(extra, load).operation_ms
    (effect,) = (each for each in slower.effects if each.metric == "wire.commit")
    off = predicted.value - effect.difference.value
    # Three figures are uncertain: the prediction, the cost on the slower disk, and the time of a flush. `halves` are
    # the half-widths of their intervals.
    halves = [(each.high - each.low) / 2 for each in (predicted, effect.difference, slow_model.flush_ms)]
    halves[2] *= extra.operation.flushes
    # 95 % of predictions by a true model differ by less than the combined half-width, and practically all by less than
    # twice that. The model is not quite true: a server that waits longer does other work meanwhile, such as one more
    # flush in the background.
    allowed = 2 * sum(half**2 for half in halves) ** 0.5 + MODEL_ERROR * predicted.value
    assert abs(off) <= allowed, (predicted, effect.difference, halves)
