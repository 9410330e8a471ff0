"""Whether many hosts measure what one does: `python -m truth.many_hosts`, and again to go on where it was ended.

A trial is three runs of the same study at the same load, one after the other in random order: from three hosts of a
CPU each, from one host of three, and from that host without Ray. All say of the same server how long a GET takes, so
their differences are nothing but the way they measure.

Hosts are namespaces (`tests/slow/ray_nodes.py`). The one has as many CPUs as the three, since an engine has a thread
for each: a thread that is asked more often sleeps less, and takes its answers sooner. The server is 20 ms away, and
asked often enough that the caches of three processes stay as warm as those of one, but so seldom that neither it nor a
host nor this machine is near its limits: what is compared is the sharing out and the merging. Arrivals are random: at
equal distances those of one host never meet, and those of three do where their clocks are known less well. It does not
show what more hosts are for, a load that one cannot make; nor hosts that differ; nor clocks of other machines.
"""

from __future__ import annotations

import contextlib
import math
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from pydantic import TypeAdapter

from costof.errors import EXIT_ANSWERED, CostofError, ErrorText
from costof.lab.certificates import Authority
from costof.lab.lab import Lab
from costof.model import Finite, Model
from costof.programs.redis.lab import PORT, USER, RedisServer
from costof.programs.server import Place
from costof.results.ledger import Ledger, SliceRecord
from costof.statistics.histogram import SIGNIFICANT_DIGITS, merged
from costof.statistics.intervals import estimate
from tests.slow.ray_nodes import TMP, Cluster, Node, a_cluster

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "runs" / "truth-many-hosts"
STUDY = Path(__file__).with_name("many-hosts.toml")
TRIALS = 30
SERVER_MS = 20.0
#: Hosts of a CPU each, and the name of the one that has as many CPUs.
LOADS, WHOLE = 3, "whole"
#: What is compared, and how narrow an interval of the difference is to be.
GOALS = {"mean": 0.03, "p50": 0.03, "p99": 0.10}
#: A histogram tells percentiles no finer: of two that are alike one may be a bucket before the other.
BUCKET = 10.0**-SIGNIFICANT_DIGITS
COMPARED = {"three hosts against one": ("three", "one"), "one host over Ray against none": ("one", "none")}
HOSTS = {
    "three": ["--hosts", "auto", "--hosts-where", "pool=load"],
    "one": ["--hosts", "auto", "--hosts-where", f"host={WHOLE}"],
    "none": [],
}


class Row(Model):
    """What a run says of all its GETs, in ms: RESP 2 and RESP 3 answer them alike."""

    trial: int
    way: str
    mean: Finite
    p50: Finite
    p99: Finite
    operations: int
    discarded: int


@click.command()
@click.option("--trials", default=TRIALS, help="So many of each.")
@click.option("--rounds", default=5, help="Of each run.")
def main(trials: int, rounds: int) -> None:
    """Measure what is missing, and tell the differences of what is there."""
    file = FOLDER / "rows.jsonl"
    FOLDER.mkdir(parents=True, exist_ok=True)
    rows = _read(file)
    missing = [number for number in range(trials) if number not in {row.trial for row in rows}]
    if missing:
        with _standing() as (cluster, server):
            for number in missing:
                found = _trial(cluster, server, number, rounds)
                with file.open("a") as lines:
                    lines.write("".join(row.model_dump_json() + "\n" for row in found))
                rows += found
                click.echo(f"trial {number}: " + ", ".join(f"{row.way} {row.mean:.3f} ms" for row in found))
    for line in differences(rows):
        click.echo(line)


def differences(rows: Sequence[Row]) -> Iterator[str]:
    """Each with its 95 % interval over trials, of percentiles a bucket wider at each end, and whether it keeps to its
    goal."""
    by_trial: dict[int, dict[str, Row]] = {}
    for row in rows:
        by_trial.setdefault(row.trial, {})[row.way] = row
    for words, (way, against) in COMPARED.items():
        for name, goal in GOALS.items():
            logs = [math.log(getattr(each[way], name) / getattr(each[against], name)) for each in by_trial.values()]
            if len(logs) < 2:
                continue
            found = estimate(logs)
            bucket = 0.0 if name == "mean" else BUCKET
            low, high = (100 * math.expm1(each) for each in (found.low - bucket, found.high + bucket))
            kept = low <= 0 <= high and high - low < 100 * goal
            shown = f"{100 * math.expm1(found.value):+.2f} % [{low:+.2f}, {high:+.2f}]"
            yield f"{words}, {name}: {shown} of {len(logs)} trials; {'holds' if kept else 'does not hold'}"


def _read(file: Path) -> list[Row]:
    lines = file.read_text().splitlines(keepends=True) if file.exists() else []
    rows = [TypeAdapter(Row).validate_json(line) for line in lines if line.endswith("\n")]
    ways = {number: {row.way for row in rows if row.trial == number} for number in {row.trial for row in rows}}
    return [row for row in rows if ways[row.trial] == set(HOSTS)]


@contextlib.contextmanager
def _standing() -> Iterator[tuple[Cluster, RedisServer]]:
    with Lab() as lab, a_cluster(lab, loads=LOADS, server_ms=SERVER_MS) as cluster:
        cluster.add(WHOLE)
        cluster.start(WHOLE, f"host={WHOLE}", cpus=LOADS)
        cluster.wait_for(WHOLE)
        address, authority = cluster.server.a_address, Authority(lab.folder / "certificates")
        server = RedisServer(Place(lab, cluster.server.a, authority, ["rsa-2048"], lambda: address))
        with contextlib.closing(server):
            server.start()
            for node in cluster.nodes.values():
                (node.folder / "password").write_text(server.password.get_secret_value())
                shutil.copy(STUDY, node.folder)
            yield cluster, server


def _trial(cluster: Cluster, server: RedisServer, number: int, rounds: int) -> list[Row]:
    ways = list(HOSTS)
    random.Random(number).shuffle(ways)
    return [_run(cluster, server, number, way, rounds) for way in ways]


def _run(cluster: Cluster, server: RedisServer, number: int, way: str, rounds: int) -> Row:
    """Raises `INSTRUMENT_FAILED` of a run without an answer."""
    node: Node = cluster.head if HOSTS[way] else cluster.nodes[WHOLE]
    target = ["--target", f"redis://{USER}@{server.address}:{PORT}", "--password-file", f"{TMP / 'password'}"]
    told = ["--rounds", str(rounds), "--seed", str(number), "--out", f"{TMP / way}", *target, *HOSTS[way]]
    words = [sys.executable, "-m", "costof", "run", f"{TMP / STUDY.name}", *told]
    process = cluster.command(*words, node=node, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    _, said = process.communicate()
    if process.returncode != EXIT_ANSWERED:
        raise CostofError(ErrorText.INSTRUMENT_FAILED, instrument="costof", detail=said[-300:])
    folder = node.folder / way
    row = _row(Ledger.open(folder), number, way)
    shutil.rmtree(folder)
    return row


def _row(ledger: Ledger, number: int, way: str) -> Row:
    slices = [each for each in ledger.records() if isinstance(each, SliceRecord) and not each.warm_up]
    phases = [each.answer.phases["operation"] for each in slices if not each.mismatch]
    count = sum(phase.count for phase in phases)
    p50, p99 = merged(phase.histogram for phase in phases).at_ranks([count // 2, count * 99 // 100])
    return Row(
        trial=number,
        way=way,
        mean=sum(phase.sum_ns for phase in phases) / count / 1e6,
        p50=p50 / 1e6,
        p99=p99 / 1e6,
        operations=count,
        discarded=sum(bool(each.mismatch) for each in slices),
    )


if __name__ == "__main__":
    main()
