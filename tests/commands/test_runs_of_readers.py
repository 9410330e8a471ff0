"""Whole runs whose programs report failures, or lack a figure: no tick, no cost, and no limit that is kept."""

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
#: By reader, the real output that is changed, the headline figure that is taken away, and what holds it there.
GOOD = {
    "ab": ("ab.txt", "latency_ms", r"^Time per request:.*\n"),
    "benchbase": ("benchbase.json", "latency_ms", r'"Average Latency \(microseconds\)"'),
    "fio": ("fio.json", "read_latency_us", r'"clat_ns"'),
    "go-ycsb": ("go-ycsb.txt", "read_latency_us", r"^READ +-.*\n"),
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
#: Readers that refuse an output without its headline figures, and so count a failed run.
REFUSED = {"hey", "oha"}
#: By reader, its good output with a share of failed operations, as the program itself would write it.
Failing = Callable[[str, float], str]


def _number(text: str, pattern: str) -> int:
    match = re.search(pattern, text, re.MULTILINE)
    assert match, pattern
    return int(match[1])


def _wrk(text: str, share: float) -> str:
    failed = round(share * _number(text, r"(\d+) requests in"))
    return text.replace("Requests/sec:", f"  Non-2xx or 3xx responses: {failed}\nRequests/sec:")


def _ab(text: str, share: float) -> str:
    failed = round(share * _number(text, r"^Complete requests: +(\d+)"))
    return text.replace("Total transferred:", f"Non-2xx responses:      {failed}\nTotal transferred:")


def _hey(text: str, share: float) -> str:
    requests = _number(text, r"\[200\]\s+(\d+) responses")
    failed = round(share * requests)
    left = f"  [200]\t{requests - failed} responses\n" if failed < requests else ""
    return re.sub(r"  \[200\].*\n", f"{left}  [503]\t{failed} responses\n", text)


def _pgbench(text: str, share: float) -> str:
    processed = _number(text, r"actually processed: (\d+)")
    failed = round(processed * share / (1 - share)) if share < 1 else processed
    if share == 1:
        text = re.sub(r"actually processed: \d+", "actually processed: 0", text)
    return text.replace("failed transactions: 0 (0.000%)", f"failed transactions: {failed} ({100 * share:.3f}%)")


def _sysbench(text: str, share: float) -> str:
    events = _number(text, r"total number of events: +(\d+)")
    # An event that fails is begun again until it succeeds: not all can fail.
    failed = round(events * min(share, 0.999) / (1 - min(share, 0.999)))
    return re.sub(r"ignored errors: +\d+", f"ignored errors:                      {failed}", text)


def _ycsb(text: str, share: float) -> str:
    def split(match: re.Match[str]) -> str:
        failed = round(share * int(match[2]))
        ok = f"[{match[1]}], Return=OK, {int(match[2]) - failed}\n" if failed < int(match[2]) else ""
        return f"{ok}[{match[1]}], Return=ERROR, {failed}"

    return re.sub(r"\[(READ|UPDATE)\], Return=OK, (\d+)", split, text)


def _go_ycsb(text: str, share: float) -> str:
    start, end = text.split("Run finished", 1)
    lines = end.split("\n")
    succeeded = _number(end, r"^TOTAL.* Count: (\d+)")
    if share == 1:
        kept = [line.replace("UPDATE ", "UPDATE_ERROR ") for line in lines if not line.startswith(("READ", "TOTAL"))]
    else:
        failed = round(succeeded * share / (1 - share))
        kept = [*lines[:-1], f"READ_ERROR - Takes(s): 4.4, Count: {failed}, OPS: 9.0, Avg(us): 9", ""]
    return start + "Run finished" + "\n".join(kept)


def _k6(text: str, share: float) -> str:
    document = json.loads(text)
    requests = document["metrics"]["http_reqs"]["count"]
    failed = round(share * requests)
    document["metrics"]["http_req_failed"] = {"value": share, "passes": failed, "fails": requests - failed}
    return json.dumps(document)


def _oha(text: str, share: float) -> str:
    document = json.loads(text)
    requests = sum(document["statusCodeDistribution"].values())
    failed = round(share * requests)
    document["statusCodeDistribution"] = {"200": requests - failed, "500": failed}
    return json.dumps(document)


def _vegeta(text: str, share: float) -> str:
    document = json.loads(text)
    failed = round(share * document["requests"])
    document |= {"success": 1 - share, "status_codes": {"200": document["requests"] - failed, "500": failed}}
    return json.dumps(document)


def _fio(text: str, share: float) -> str:
    document = json.loads(text)
    for job in document["jobs"]:
        job["total_err"] = round(share * sum(job[way]["total_ios"] for way in ("read", "write")))
    return json.dumps(document)


def _memtier(text: str, share: float) -> str:
    document = json.loads(text)
    totals = document["ALL STATS"]["Totals"]
    totals["Connection Errors"] = round(totals["Count"] * share / (1 - share)) if share < 1 else 10**9
    return json.dumps(document)


FAILING: dict[str, Failing] = {
    "ab": _ab,
    "fio": _fio,
    "go-ycsb": _go_ycsb,
    "hey": _hey,
    "k6": _k6,
    "memtier": _memtier,
    "oha": _oha,
    "pgbench": _pgbench,
    "sysbench": _sysbench,
    "vegeta": _vegeta,
    "wrk": _wrk,
    "ycsb": _ycsb,
    # These two count no failures: the program ends, or says, that it failed.
    "benchbase": lambda text, _: text.replace('"EXIT"', '"ERROR"'),
    "redis-benchmark": lambda text, _: "",
}


def _without(name: str, text: str) -> str:
    _, _, pattern = GOOD[name]
    return re.sub(pattern, '"absent"' if pattern.startswith('"') else "", text, flags=re.MULTILINE)


def test_every_reader_is_here() -> None:
    assert set(GOOD) == set(FAILING) == set(reader_names())
    for name, (output, figure, _) in GOOD.items():
        text = (OUTPUTS / output).read_text()
        assert reader(name).figures[figure].headline
        assert figure in reader(name).read(text).figures
        if name in REFUSED:
            with pytest.raises(UnreadableError):
                reader(name).read(_without(name, text))
        else:
            assert figure not in reader(name).read(_without(name, text)).figures, "and the others are still there"


def _run(tmp_path: Path, control: Callable[[str, str], str], arm: Callable[[str, str], str]) -> tuple[Outcome, Result]:
    """A run with a workload for each reader, whose commands write prepared outputs; a limit on each headline figure."""
    limits, workloads = [], []
    for side, change in (("before", control), ("after", arm)):
        (tmp_path / side).mkdir()
        for name, (output, _, _) in GOOD.items():
            (tmp_path / side / name).write_text(change(name, (OUTPUTS / output).read_text()))
    for name, (_, figure, _) in GOOD.items():
        called = name.replace("-", "_")
        workloads.append(f'[workloads.{called}.command]\nrun = "cat {{side}}/{name}"\nread = "{name}"\nonce = true\n')
        limits += [
            "--limit",
            f"{called}.{figure}",
            "-50%" if reader(name).figures[figure].better == "higher" else "+50%",
        ]
    levels = 'before = { set.side = "before" }\nafter = { set.side = "after" }\n'
    head = f'title = "?"\nservice = "command"\ncontrol.side = "before"\n[factors.side.levels]\n{levels}'
    (tmp_path / "all.toml").write_text(head + "".join(workloads))
    arguments = ["--profile", "quick", "--rounds", "5", "--seed", "1", "--out", "run", *limits]
    ended = costof("run", "all.toml", *arguments, cwd=tmp_path)
    return ended, Result.model_validate_json((tmp_path / "run" / "result.json").read_bytes())


def as_it_is(name: str, text: str) -> str:
    return text


def _judged(ended: Outcome, result: Result) -> None:
    """What holds in each of the runs below, for every reader."""
    headline = {f"{name.replace('-', '_')}.{figure}" for name, (_, figure, _) in GOOD.items()}
    assert not [each for each in result.effects if each.metric in headline], "no cost"
    assert ended.status == 3
    assert "✗ nothing failed" in ended.out
    assert "✓ nothing failed" not in ended.out
    assert "limit is kept" not in ended.out
    assert "limits are kept" not in ended.out
    assert f"Of {len(GOOD)} limits {len(GOOD)} cannot be told yet" in " ".join(ended.out.split())


def test_good_outputs_keep_every_limit(tmp_path: Path) -> None:
    ended, result = _run(tmp_path, as_it_is, as_it_is)
    assert ended.status == 0, ended.err
    assert f"All {len(GOOD)} limits are kept" in ended.out
    # Nine errors that sysbench ignored, of 428 transactions, in each of ten slices that are compared.
    assert {each.workload for each in result.failures} == {"sysbench"}
    silent = [reader(name).silent_on_failures for name in reader_names() if reader(name).silent_on_failures]
    assert all(result.warnings.count(words) == 1 for words in silent)


@pytest.mark.parametrize(
    ("fails", "share"),
    [
        ("arm", 0.5),
        pytest.param("control", 1.0, marks=pytest.mark.slow),
        pytest.param("control", 0.5, marks=pytest.mark.slow),
        pytest.param("arm", 1.0, marks=pytest.mark.slow),
    ],
)
def test_failed_operations_leave_no_figure(tmp_path: Path, share: float, fails: str) -> None:
    def failing(name: str, text: str) -> str:
        return FAILING[name](text, share)

    ended, result = _run(tmp_path, *((failing, as_it_is) if fails == "control" else (as_it_is, failing)))
    _judged(ended, result)
    shares = {
        each.workload: each.share
        for each in result.failures
        if each.arm == ("before" if fails == "control" else "after")
    }
    assert all(share >= 0.4 for share in shares.values())
    assert shares.keys() == {name.replace("-", "_") for name in GOOD}


@pytest.mark.parametrize("lacks", ["control", pytest.param("arm", marks=pytest.mark.slow)])
def test_a_figure_that_one_side_lacks_is_missing_and_not_0(tmp_path: Path, lacks: str) -> None:
    ended, result = _run(tmp_path, *((_without, as_it_is) if lacks == "control" else (as_it_is, _without)))
    _judged(ended, result)
    arm = "before" if lacks == "control" else "after"
    missing = {(each.metric, each.arm) for each in result.missing if each.wholly}
    lacking = {name: figure for name, (_, figure, _) in GOOD.items() if name not in REFUSED}
    assert missing >= {(f"{name.replace('-', '_')}.{figure}", arm) for name, figure in lacking.items()}
    assert "cannot be compared: the output of" in " ".join(ended.out.split())
