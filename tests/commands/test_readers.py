"""Readers, the parsers of load generators' output: figures and failures of real runs, and errors for anything else."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costof.errors import CostofError
from costof.instruments.commands.readers import Report, UnreadableError, last_json, reader, reader_names

OUTPUTS = Path(__file__).parent / "outputs"
EXPECTED: dict[str, Any] = tomllib.loads((Path(__file__).parent / "figures.toml").read_text())
FIGURES = {name: each["figures"] for name, each in EXPECTED.items() if "figures" in each}
#: For each output: how many operations were tried and how many failed; None if the program prints no number.
COUNTS = {name: (*each["counts"], None)[:2] for name, each in EXPECTED.items() if "counts" in each}
#: For each output without figures: the expected reason for refusing it.
UNREADABLE = {name: each["refused"] for name, each in EXPECTED.items() if "refused" in each}

UNITS = {"ms", "us", "per_second", "percent", "bytes", "errors", "MB/s", "MiB/s"}
ODD = [
    "",
    "-",
    "NaN",
    "-nan",
    "Infinity",
    "1e999",
    "null",
    "true",
    "0",
    "-1",
    "1.2.3",
    # The first text is too large for a float; the second has more digits than Python converts to an integer.
    "9" * 400,
    "9" * 5000,
    "[]",
    "{}",
    '"',
    "\x00",
]
#: Random texts consist of these characters only, because Hypothesis takes a second to list all characters.
CHARACTERS = "aE0.9-+ :;,\t\n\r\"'%[]{}()\\é…\0"
#: A twelfth of the usual number of random examples, since these tests run once for each reader.
FEW = settings(max_examples=settings().max_examples // 12)
WRITTEN = {name: (OUTPUTS / name).read_text() for name in (*FIGURES, *UNREADABLE)}


def reader_of(output: str) -> str:
    """Return the name of the reader for a file in `outputs/`, such as 'wrk' for 'wrk2.txt'.

    The file's name begins with the reader's name. If several names match, the longest one is right.
    """
    return max((name for name in reader_names() if output.startswith(name)), key=len)


def check(name: str, output: str) -> None:
    """Assert that a reader refuses an output or returns only declared figures with finite values."""
    each, report, refused = reader(name), Report({}), ""
    try:
        report = each.read(output)
    except UnreadableError as error:
        refused = str(error)
    assert bool(report.figures) != bool(refused)
    assert len(refused) < 200
    assert report.figures.keys() <= each.figures.keys()
    assert all(type(figure) is float and math.isfinite(figure) for figure in report.figures.values())
    assert report.missing.keys() <= each.figures.keys() - report.figures.keys()
    assert all(reason and len(reason) < 200 for reason in report.missing.values())
    if report.failed is not None:
        assert report.operations is not None
        assert 0 <= report.failed <= report.operations
        assert math.isfinite(report.operations)
    assert (report.failed is None or not report.operations) == ("failed_percent" not in report.figures)


def read(output: str) -> Report:
    return reader(reader_of(output)).read(WRITTEN[output])


@pytest.mark.parametrize("output", FIGURES)
def test_readers_return_the_exact_figures_of_real_outputs(output: str) -> None:
    report = read(output)
    assert report.figures == pytest.approx(FIGURES[output], rel=1e-12, abs=0)
    assert (report.operations, report.failed) == COUNTS.get(output, (None, None))


@pytest.mark.parametrize("output", UNREADABLE)
def test_output_without_a_completed_operation_is_refused(output: str) -> None:
    with pytest.raises(UnreadableError, match=re.escape(UNREADABLE[output])):
        read(output)


@pytest.mark.parametrize("output", FIGURES)
def test_unrelated_lines_and_windows_line_endings_do_not_change_the_figures(output: str) -> None:
    name, expected = reader_of(output), read(output)
    text = f"[INFO] starting {{x}}\n{WRITTEN[output]}\nbye [1]\n{{x}}\n"
    assert reader(name).read(text) == expected
    assert reader(name).read(text.replace("\n", "\r\n")) == expected


@pytest.mark.parametrize("name", reader_names())
@FEW
@given(data=st.data())
def test_only_the_last_complete_report_in_an_output_is_read(name: str, data: st.DataObject) -> None:
    outputs = [each for each in FIGURES if reader_of(each) == name]
    first = data.draw(st.sampled_from(outputs))
    # The report of an older redis-benchmark has no header, so after another report it is not recognised as a new one.
    last = data.draw(st.sampled_from([each for each in outputs if each != "redis-benchmark-older.txt"]))
    assert reader(name).read(f"{WRITTEN[first]}\n{WRITTEN[last]}") == read(last)
    cut = WRITTEN[last][: data.draw(st.integers(0, len(WRITTEN[last])))]
    allowed: list[Report | str] = [read(first)]
    results: list[Report | str] = []
    for output, into in ((cut, allowed), (f"{WRITTEN[first]}\n{cut}", results)):
        try:
            into.append(reader(name).read(output))
        except UnreadableError as error:
            into.append(str(error))
    assert results[0] in allowed


def test_every_sample_output_is_documented_and_tested() -> None:
    files = {path.name for path in OUTPUTS.iterdir()} - {"README.md"}
    assert files == set(WRITTEN)
    rows = re.findall(r"^\| (`[^|]+`) \|", (OUTPUTS / "README.md").read_text(), re.MULTILINE)
    assert files == set(re.findall(r"`([^`]+)`", "".join(rows)))


@pytest.mark.parametrize("name", reader_names())
def test_every_reader_declares_figures_with_valid_names_and_units(name: str) -> None:
    each = reader(name)
    assert any(reader_of(output) == name for output in FIGURES)
    assert each.hint
    assert any(figure.headline for figure in each.figures.values())
    for called, figure in each.figures.items():
        assert re.fullmatch(r"[a-z][a-z0-9_]*", called)
        assert figure.unit in UNITS
        assert called.endswith(f"_{figure.unit}") or figure.unit not in ("ms", "us", "percent")
        assert not figure.label[0].isspace()
    counts = [COUNTS.get(output, (None, None))[1] for output in FIGURES if reader_of(output) == name]
    assert ("failed_percent" in each.figures) == any(failed is not None for failed in counts)
    assert "failed_percent" in each.figures or each.silent_on_failures.endswith(".")


def test_documentation_of_readers_matches_the_code() -> None:
    page = (Path(__file__).parents[2] / "docs" / "readers.md").read_text()
    rows = {
        row[0]: row[1:]
        for row in re.findall(r"^\| `([a-z0-9-]+)` \| (.+?) \| (.+) \| (`.+) \| (.+) \|$", page, re.MULTILINE)
    }
    assert sorted(rows) == reader_names()
    for name, (_, hint, headlines, _) in rows.items():
        each = reader(name)
        assert hint == each.hint.replace("|", r"\|")
        for called in re.findall(r"`(\w+_\w+|tps)`", headlines):
            assert each.figures[called].headline


@pytest.mark.parametrize("name", reader_names())
@FEW
@given(data=st.data())
def test_damaged_output_is_refused_or_gives_finite_figures(name: str, data: st.DataObject) -> None:
    output = WRITTEN[data.draw(st.sampled_from([each for each in WRITTEN if reader_of(each) == name]))]
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(output))] * 2)))
    check(name, output[:start])
    check(name, output[:start] + data.draw(st.sampled_from(ODD) | st.text(CHARACTERS)) + output[end:])
    numbers = list(re.finditer(r"-?\d+(\.\d+)?", output))
    some = data.draw(st.sets(st.integers(0, len(numbers) - 1), max_size=8))
    for match in (numbers[at] for at in sorted(some, reverse=True)):
        output = output[: match.start()] + data.draw(st.sampled_from(ODD)) + output[match.end() :]
    check(name, output)


@pytest.mark.parametrize("name", reader_names())
def test_output_with_only_invalid_numbers_is_refused_or_gives_finite_figures(name: str) -> None:
    output = next(each for each in FIGURES if reader_of(each) == name)
    for odd in ODD:
        check(name, re.sub(r"\d+(\.\d+)?", lambda _, odd=odd: odd, WRITTEN[output]))


#: A line of ab's report: failed requests by cause. Cases set `Receive` to 0 or to the count of `Length`.
AB = "   (Connect: 0, Receive: {}, Length: 1000, Exceptions: 0)"
#: Each case has a real output, replacements in its text, and the expected numbers of tried and failed operations. The
#: replacements make at least half of the operations fail.
FAILED: list[tuple[str, dict[str, str], tuple[float, float]]] = [
    # Without ab's option -l, a response that is longer or shorter than the first is a failure. ab counts an aborted
    # response under both Receive and Length.
    ("ab.txt", {"requests:        0": f"requests:        1000\n{AB.format(0)}"}, (2000, 1000)),
    ("ab.txt", {"requests:        0": f"requests:        2000\n{AB.format(1000)}"}, (2000, 1000)),
    ("ab.txt", {"Total trans": "Non-2xx responses:      2000\nTotal trans"}, (2000, 2000)),
    ("hey-failed.txt", {"[200]": "[500]"}, (500, 500)),
    ("hey-drop.txt", {"[100]": "[400]"}, (800, 400)),
    ("k6-failed.json", {'"passes": 50,': '"passes": 450,'}, (900, 450)),
    ("k6-failed.json", {'"passes": 50, "fails": 450': '"passes": 500, "fails": 0'}, (500, 500)),
    ("oha-failed.json", {'"200"': '"500"'}, (500, 500)),
    ("oha-drop.json", {'completed": 100': 'completed": 400'}, (800, 400)),
    ("vegeta-failed.json", {'"success":0.9': '"success":0.5'}, (600, 300)),
    ("vegeta-failed.json", {'"success":0.9': '"success":0'}, (600, 600)),
    ("wrk.txt", {"Requests/sec": "  Non-2xx or 3xx responses: 211353\nRequests/sec"}, (211353, 211353)),
    ("wrk-drop.txt", {"read 22925": "read 91699"}, (183398, 91699)),
    ("wrk2.txt", {"Requests/sec": "  Non-2xx or 3xx responses: 751\nRequests/sec"}, (1502, 751)),
    ("fio.json", {'"error": 0,': '"error": 5, "total_err": 56867,'}, (56867, 56867)),
    ("memtier.json", {'"Connection Errors": 0': '"Connection Errors": 4000'}, (8000, 4000)),
    ("pgbench-failed.txt", {"248/800": "0/800", "552 (69.000%)": "800 (100.000%)"}, (800, 800)),
    ("pgbench.txt", {"failed transactions: 0 (0": "failed transactions: 34230 (50"}, (68460, 34230)),
    # If a client of pgbench stops at an error, its remaining transactions count as failed. Transactions that pgbench
    # skips do not count.
    ("pgbench-13.txt", {"10000/10000": "9000/10000"}, (10000, 1000)),
    ("pgbench-rate.txt", {"skipped: 0 (0": "skipped: 38 (4"}, (762, 0)),
    ("sysbench.txt", {"errors:                      9": "errors:                      419"}, (838, 419)),
    ("ycsb.txt", {"Return=OK": "Return=NOT_FOUND"}, (20000, 20000)),
    ("h2load.txt", {"0 failed": "18446744073709551613 failed"}, (2000, 0)),
    ("go-ycsb-failed.txt", {"Count: 444": "Count: 2556"}, (5112, 2556)),
    ("ycsb.txt", {"[UPDATE], Return=OK": "[UPDATE], Return=2"}, (20000, 10035)),
]


@pytest.mark.parametrize(("output", "changes", "counts"), FAILED)
def test_reader_counts_the_failed_operations_in_a_report(
    output: str, changes: dict[str, str], counts: tuple[float, float]
) -> None:
    written = WRITTEN[output]
    for old, new in changes.items():
        assert old in written
        written = written.replace(old, new)
    report = reader(reader_of(output)).read(written)
    assert (report.operations, report.failed) == counts
    assert report.figures["failed_percent"] == pytest.approx(100 * counts[1] / counts[0])


def test_every_reader_that_counts_failures_has_an_example_with_failures() -> None:
    counted = {name for name in reader_names() if "failed_percent" in reader(name).figures}
    assert counted == {reader_of(output) for output, _, _ in FAILED}


def changed(output: str, *changes: Callable[[Any], object]) -> Report:
    """Apply `changes` to a load generator's JSON output, and return the report that the reader finds in it."""
    document = json.loads(WRITTEN[output])
    for change in changes:
        change(document)
    return reader(reader_of(output)).read(json.dumps(document))


def test_fio_report_without_some_fields_still_gives_the_remaining_figures() -> None:
    def remove(*names: str) -> Callable[[Any], object]:
        parts = ("read", "write")
        return lambda document: [document["jobs"][0][part].pop(name, None) for part in parts for name in names]

    def without_counts(document: Any) -> None:
        for part in ("read", "write"):
            document["jobs"][0][part]["clat_ns"].pop("N")

    kib = {"read_mb_per_second": 56827 * 1024 / 1e6, "write_mb_per_second": 56849 * 1024 / 1e6}
    assert changed("fio.json", without_counts).figures == pytest.approx(FIGURES["fio.json"])
    report = changed("fio.json", without_counts, remove("bw_bytes"))
    assert report.figures == pytest.approx(FIGURES["fio.json"] | kib)
    nothing = changed("fio.json", remove("bw_bytes", "bw", "clat_ns"))
    assert nothing.figures.keys() == {"read_iops", "write_iops", "failed_percent"}
    assert "measured no completion latency" in nothing.missing["read_latency_us"]


def test_k6_summary_is_read_without_averages_and_k6_event_stream_is_refused() -> None:
    report = read("k6-no-average.json")
    assert report.missing == {"latency_ms": "the summary has no avg; add it to --summary-trend-stats"}
    assert report.figures["p95_ms"] > 0
    with pytest.raises(UnreadableError, match="no whole JSON document with 'metrics'"):
        reader("k6").read('{"type":"Metric","data":{"name":"http_reqs"}}\n{"metric":"vus","type":"Point","data":{}}\n')


def test_mean_that_memtier_rounds_to_whole_ms_is_computed_from_all_commands() -> None:
    assert json.loads(WRITTEN["memtier-2.3.0.json"])["ALL STATS"]["Totals"]["Latency"] == 8.0
    assert read("memtier-2.3.0.json").figures["latency_ms"] == pytest.approx(8.3548, abs=1e-4)
    # If two commands have one name, a JSON parser keeps only the last, so the rates do not add up to the total.
    alike = changed("memtier-commands.json", lambda document: document["ALL STATS"]["Sets"].update({"Ops/sec": 10}))
    assert "latency_ms" not in alike.figures
    assert alike.missing == {"latency_ms": "memtier wrote several commands under one name"}


def test_unknown_tests_in_the_output_of_redis_benchmark_are_reported() -> None:
    report = reader("redis-benchmark").read('"PING_BULK","3.0"\n"FCALL","1.0"\n"MGET (10 keys)","2.0"\n')
    assert report.figures == {"ping_mbulk_rps": 3.0}
    assert report.missing == {"command_rps": "these tests are unknown: FCALL, MGET (10 keys)"}
    with pytest.raises(UnreadableError, match="these tests are unknown: FCALL, MGET"):
        reader("redis-benchmark").read('"FCALL","1.0"\n"MGET","2.0"\n')
    assert reader("redis-benchmark").read('"FCALL f 0","1.0"\n').figures == {"command_rps": 1.0}


def test_latency_of_0_in_the_output_of_older_pgbench_counts_as_missing() -> None:
    older = WRITTEN["pgbench-13.txt"].replace("tps = 85.18", "latency average: 11.7 ms\ntps = 85.18")
    assert reader("pgbench").read(older).figures["latency_ms"] == 11.7
    report = reader("pgbench").read(older.replace("11.7", "0.000"))
    assert "latency_ms" not in report.figures
    assert report.missing == {"latency_ms": "pgbench before 9.6 measures it only with -T or -P"}


def test_rate_missing_from_the_output_of_older_vegeta_is_computed() -> None:
    older = changed("vegeta-failed.json", lambda document: document.pop("throughput"))
    assert older.figures == pytest.approx(FIGURES["vegeta-failed.json"])


def test_ycsb_output_is_refused_if_no_thread_could_connect() -> None:
    with pytest.raises(UnreadableError, match="no operation was done"):
        reader("ycsb").read("[OVERALL], RunTime(ms), 104\n[OVERALL], Throughput(ops/sec), 0.0\n")


def test_ycsb_percentiles_in_whole_ms_are_left_out() -> None:
    cut = re.sub(
        r"^(\[READ\], 9[59]thPercentileLatency)\(us\), \d+", r"\1(ms), 1", WRITTEN["ycsb.txt"], flags=re.MULTILINE
    )
    assert cut != WRITTEN["ycsb.txt"]
    left = {name for name in FIGURES["ycsb.txt"] if name not in ("read_p95_us", "read_p99_us")}
    assert reader("ycsb").read(cut).figures.keys() == left


def test_ycsb_operation_that_never_succeeded_has_no_figures() -> None:
    none = "[READ], Operations, 0\n[READ], AverageLatency(us), NaN\n[READ], 99thPercentileLatency(us), 0\n"
    rest = "[READ], Return=ERROR, 9\n"
    rest += "[READ-MODIFY-WRITE], AverageLatency(us), 5.0\n[UPDATE], Return=OK, 1\n"
    report = reader("ycsb").read(f"[OVERALL], RunTime(ms), 9\n[OVERALL], Throughput(ops/sec), 8.0\n{none}{rest}")
    assert report.figures == {"ops_per_second": 8.0, "read_modify_write_latency_us": 5.0, "failed_percent": 90.0}
    assert report.missing == {"read_latency_us": "every READ failed"}


def test_wrk_output_has_no_latency_if_every_response_came_after_the_timeout() -> None:
    assert read("wrk-slow.txt").missing == {"latency_ms": "every answer came after wrk's timeout"}


@pytest.mark.parametrize("output", ["wrk.txt", "pgbench.txt", "sysbench.txt", "hey.txt", "ab.txt", "ycsb.txt"])
def test_output_with_two_reports_is_refused_if_their_first_lines_are_missing(output: str) -> None:
    name = reader_of(output)
    whole = WRITTEN[output]
    begun = re.search(reader(name).begins, whole, re.MULTILINE)
    assert begun
    rest = whole[whole.index("\n", begun.start()) :]
    if name != "ycsb":
        assert reader(name).read(rest) == read(output)
    with pytest.raises(UnreadableError, match="no line that begins each report"):
        reader(name).read(rest + rest)


@pytest.mark.parametrize("opened", ["[", '{"a":', "[\n", '{"jobs":[\n'])
def test_too_deeply_nested_json_is_refused(opened: str) -> None:
    with pytest.raises(UnreadableError, match="JSON is broken"):
        last_json(opened * 100_000)


def test_last_json_document_among_unrelated_lines_is_read() -> None:
    assert last_json('[INFO] {x}\nfio: a note\n{"a": [1]}\nbye') == {"a": [1]}
    assert last_json('result: {"a": 1}') == {"a": 1}
    assert last_json('{"a": 1}\n{"a": 2}\n[3]\n{"a": ') == {"a": 2}
    assert last_json("[INFO]\n" * 1000 + '[{"a": 1}]\n') == [{"a": 1}]
    with pytest.raises(UnreadableError, match="no JSON"):
        last_json("nothing")


def test_csv_row_that_is_too_long_is_refused() -> None:
    with pytest.raises(UnreadableError, match="CSV is broken"):
        reader("redis-benchmark").read('"' + "x" * 200_000)


def test_error_for_an_unknown_output_reader_suggests_the_nearest_name() -> None:
    with pytest.raises(CostofError, match="pgbench"):
        reader("pgbnch")
