"""Comparison of measurements from several hosts with measurements from one host: `python -m truth.many_hosts`.

A trial is three runs of the same study at the same load, in random order: from three hosts with one CPU each, from one
host with three CPUs, and from this one host without Ray. All measure the time of a GET on the same server, so that
differences come only from the way of measuring. The same command continues an interrupted comparison.

The comparison is meant to show only effects of distributing the load and of merging the results:

- Hosts are network namespaces (`tests/slow/ray_nodes.py`) at 20 ms from the server.
- The single host has as many CPUs as the three together. The engine has a thread for each CPU, and with fewer threads
  each one would be busier, sleep less, and read its answers sooner.
- The load is high enough to keep the caches of three processes as warm as the caches of one, and far below the limits
  of server, hosts and machine.
- Requests arrive at random. Equally spaced requests would never coincide if one host sent them, but sometimes would if
  three hosts with imprecise clocks sent them.

The comparison does not cover loads that one host cannot make, hosts that differ from each other, or several machines.
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
#: The number of hosts with one CPU, and the name of the single host, which has as many CPUs as all of them.
LOADS, WHOLE = 3, "whole"
#: The compared figures, and the goal for each: the 95 % interval of its relative difference must contain 0 and be
#: narrower than this number.
GOALS = {"mean": 0.03, "p50": 0.03, "p99": 0.10}
#: The relative width of a histogram's bucket. Two equal times may be counted in neighbouring buckets.
BUCKET = 10.0**-SIGNIFICANT_DIGITS
COMPARED = {"three hosts against one": ("three", "one"), "one host over Ray against none": ("one", "none")}
HOSTS = {
    "three": ["--hosts", "auto", "--hosts-where", "pool=load"],
    "one": ["--hosts", "auto", "--hosts-where", f"host={WHOLE}"],
    "none": [],
}


class Row(Model):
    """The result of one run: mean and percentiles of all GETs in ms, over RESP 2 and RESP 3 together."""

    trial: int
    way: str
    mean: Finite
    p50: Finite
    p99: Finite
    operations: int
    discarded: int


@click.command()
@click.option("--trials", default=TRIALS, help="Number of trials, including those that have run already.")
@click.option("--rounds", default=5, help="Number of rounds of each run.")
def main(trials: int, rounds: int) -> None:
    """Run the missing trials, and print the differences over all trials."""
    file = FOLDER / "rows.jsonl"
    FOLDER.mkdir(parents=True, exist_ok=True)
    rows = _read(file)
    missing = [number for number in range(trials) if number not in {row.trial for row in rows}]
    if missing:
        with _cluster_and_server() as (cluster, server):
            for number in missing:
                new_rows = _trial(cluster, server, number, rounds)
                with file.open("a") as lines:
                    lines.write("".join(row.model_dump_json() + "\n" for row in new_rows))
                rows += new_rows
                click.echo(f"trial {number}: " + ", ".join(f"{row.way} {row.mean:.3f} ms" for row in new_rows))
    for line in differences(rows):
        click.echo(line)


def differences(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a line for each comparison: the difference, its 95 % interval over trials, and whether it meets its goal.

    A percentile's interval is extended by the width of a histogram's bucket at each end.
    """
    by_trial: dict[int, dict[str, Row]] = {}
    for row in rows:
        by_trial.setdefault(row.trial, {})[row.way] = row
    for words, (way, against) in COMPARED.items():
        for name, goal in GOALS.items():
            logs = [math.log(getattr(each[way], name) / getattr(each[against], name)) for each in by_trial.values()]
            if len(logs) < 2:
                continue
            difference = estimate(logs)
            bucket = 0.0 if name == "mean" else BUCKET
            low, high = (100 * math.expm1(each) for each in (difference.low - bucket, difference.high + bucket))
            met = low <= 0 <= high and high - low < 100 * goal
            shown = f"{100 * math.expm1(difference.value):+.2f} % [{low:+.2f}, {high:+.2f}]"
            yield f"{words}, {name}: {shown} of {len(logs)} trials; {'goal met' if met else 'goal missed'}"


def _read(file: Path) -> list[Row]:
    lines = file.read_text().splitlines(keepends=True) if file.exists() else []
    rows = [TypeAdapter(Row).validate_json(line) for line in lines if line.endswith("\n")]
    ways = {number: {row.way for row in rows if row.trial == number} for number in {row.trial for row in rows}}
    return [row for row in rows if ways[row.trial] == set(HOSTS)]


@contextlib.contextmanager
def _cluster_and_server() -> Iterator[tuple[Cluster, RedisServer]]:
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
    """Run costof once against the server, and return the run as a row. Raises `INSTRUMENT_FAILED` if costof fails."""
    node: Node = cluster.head if HOSTS[way] else cluster.nodes[WHOLE]
    target = ["--target", f"redis://{USER}@{server.address}:{PORT}", "--password-file", f"{TMP / 'password'}"]
    options = ["--rounds", str(rounds), "--seed", str(number), "--out", f"{TMP / way}", *target, *HOSTS[way]]
    words = [sys.executable, "-m", "costof", "run", f"{TMP / STUDY.name}", *options]
    process = cluster.command(*words, node=node, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    _, stderr = process.communicate()
    if process.returncode != EXIT_ANSWERED:
        raise CostofError(ErrorText.INSTRUMENT_FAILED, instrument="costof", detail=stderr[-300:])
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
