"""Whole runs of load generators whose output reports failures or lacks a figure.

The report of such a run states no cost, and leaves limits (such as a latency at most 50 % higher) undecided.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from costof.instruments.commands.readers import UnreadableError, reader, reader_names
from costof.report.result import Result
from tests.support.command import Outcome, costof

OUTPUTS = Path(__file__).parent / "outputs"
#: For each reader: a real output, a key figure to remove, and a pattern of the text that holds the figure.
GOOD = {
    "ab": ("ab.txt", "latency_ms", r"^Time per request:.*\n"),
    "benchbase": ("benchbase.json", "latency_ms", r'"Average Latency \(microseconds\)"'),
    "fio": ("fio.json", "read_latency_us", r'"clat_ns"'),
    "go-ycsb": ("go-ycsb.txt", "read_latency_us", r"^READ +-.*\n"),
    "h2load": ("h2load.txt", "latency_ms", r"^time for request:.*\n"),
    "hey": ("hey.txt", "latency_ms", r"^  Average:.*\n"),
    "k6": ("k6.json", "latency_ms", r'"http_req_duration"'),
    "memtier": ("memtier.json", "latency_ms", r'"(Average )?Latency"'),
    "oha": ("oha.json", "latency_ms", r'"average"'),
    "pgbench": ("pgbench.txt", "latency_ms", r"^latency average.*\n"),
    "redis-benchmark": ("redis-benchmark.txt", "set_rps", r'^"SET".*\n'),
    "sysbench": ("sysbench.txt", "latency_ms", r"^ +sum:.*\n"),
    "vegeta": ("vegeta.json", "requests_per_second", r'"(throughput|duration|wait)"'),
    "wrk": ("wrk.txt", "latency_ms", r"^ +Latency  .*\n"),
    "ycsb": ("ycsb.txt", "read_latency_us", r"^\[READ\], AverageLatency.*\n"),
}
#: Readers that refuse an output without its key figures. The run of the program then counts as failed.
REFUSED = {"hey", "oha"}
#: Readers used in whole runs, one of each kind: wrk (text) and k6 (JSON) count failures, hey refuses a report without
#: its headline figure, BenchBase reports only a failure of the whole run.
RUN = ("wrk", "k6", "hey", "benchbase")


def failing(name: str, text: str, share: float) -> str:
    """Return an output changed as if this share of the operations had failed, in the program's own format."""
    match name:
        case "wrk":
            (requests,) = re.findall(r"(\d+) requests in", text)
            failed = round(share * int(requests))
            return text.replace("Requests/sec:", f"  Non-2xx or 3xx responses: {failed}\nRequests/sec:")
        case "k6":
            document = json.loads(text)
            requests = document["metrics"]["http_reqs"]["count"]
            failed = round(share * requests)
            document["metrics"]["http_req_failed"] = {"value": share, "passes": failed, "fails": requests - failed}
            return json.dumps(document)
        case "hey":
            (requests,) = re.findall(r"\[200\]\s+(\d+) responses", text)
            failed = round(share * int(requests))
            left = f"  [200]\t{int(requests) - failed} responses\n" if failed < int(requests) else ""
            return re.sub(r"  \[200\].*\n", f"{left}  [503]\t{failed} responses\n", text)
        case _:
            return text.replace('"EXIT"', '"ERROR"')


def without_figure(name: str, text: str) -> str:
    _, _, pattern = GOOD[name]
    return re.sub(pattern, '"absent"' if pattern.startswith('"') else "", text, flags=re.MULTILINE)


@pytest.mark.parametrize("name", reader_names())
def test_figure_absent_from_an_output_is_reported_as_missing_and_not_as_zero(name: str) -> None:
    output, figure, _ = GOOD[name]
    text = (OUTPUTS / output).read_text()
    assert reader(name).figures[figure].headline
    assert figure in reader(name).read(text).figures
    if name in REFUSED:
        with pytest.raises(UnreadableError):
            reader(name).read(without_figure(name, text))
    else:
        assert figure not in reader(name).read(without_figure(name, text)).figures, "and the others are still there"


Change = Callable[[str, str], str]


def as_it_is(name: str, text: str) -> str:
    return text


def run(folder: Path, before: Change, after: Change) -> tuple[Outcome, Result]:
    """Run a study with the arms `before` and `after`, whose commands print prepared outputs.

    The study has a workload and a limit for each reader in `RUN`. The functions `before` and `after` change the output
    of their arm.
    """
    limits, workloads = [], []
    for name in RUN:
        output, figure, _ = GOOD[name]
        for side, change in (("before", before), ("after", after)):
            (folder / side).mkdir(exist_ok=True)
            (folder / side / name).write_text(change(name, (OUTPUTS / output).read_text()))
        workloads.append(f'[workloads.{name}.command]\nrun = "cat {{side}}/{name}"\nread = "{name}"\nonce = true\n')
        limits += ["--limit", f"{name}.{figure}", "+50%"]
    levels = 'before = { set.side = "before" }\nafter = { set.side = "after" }\n'
    head = f'title = "?"\nservice = "command"\ncontrol.side = "before"\n[factors.side.levels]\n{levels}'
    (folder / "all.toml").write_text(head + "".join(workloads))
    arguments = ["--profile", "quick", "--rounds", "5", "--seed", "1", "--out", "run", "--full", *limits]
    ended = costof("run", "all.toml", *arguments, cwd=folder)
    return ended, Result.model_validate_json((folder / "run" / "result.json").read_bytes())


def check_nothing_is_judged(ended: Outcome, result: Result) -> None:
    headline = {f"{name}.{GOOD[name][1]}" for name in RUN}
    assert not [each for each in result.effects if each.metric in headline], "no cost"
    assert ended.status == 3
    assert "✗ operations failed" in ended.out or "✗ figures missing" in ended.out
    assert not [words for words in ("✓ nothing failed", "limit is kept", "limits are kept") if words in ended.out]
    assert f"{len(RUN)} of {len(RUN)} limits are undecided" in " ".join(ended.out.split())


def test_no_limit_is_exceeded_if_both_arms_print_the_same_output(tmp_path: Path) -> None:
    ended, result = run(tmp_path, as_it_is, as_it_is)
    assert ended.status == 0, ended.err
    assert f"All {len(RUN)} limits are kept" in ended.out
    assert result.failures == []
    silent = [reader(name).silent_on_failures for name in RUN if reader(name).silent_on_failures]
    assert [result.warnings.count(words) for words in silent] == [1]


@pytest.mark.parametrize(("side", "share"), [pytest.param("before", 1.0, marks=pytest.mark.slow), ("after", 0.5)])
def test_limits_are_undecided_if_operations_of_an_arm_failed(tmp_path: Path, side: str, share: float) -> None:
    def failed(name: str, text: str) -> str:
        return failing(name, text, share)

    ended, result = run(tmp_path, *((failed, as_it_is) if side == "before" else (as_it_is, failed)))
    check_nothing_is_judged(ended, result)
    shares = {each.workload: each.share for each in result.failures if each.arm == side}
    assert shares.keys() == {*RUN}
    assert min(shares.values()) >= 0.4


def test_figure_missing_from_the_output_of_one_arm_is_not_compared(tmp_path: Path) -> None:
    ended, result = run(tmp_path, without_figure, as_it_is)
    check_nothing_is_judged(ended, result)
    missing = {(each.metric, each.arm) for each in result.missing if each.entirely}
    assert missing >= {(f"{name}.{GOOD[name][1]}", "before") for name in RUN if name not in REFUSED}
    assert "cannot be compared: the output of" in " ".join(ended.out.split())
