"""Readers of what load generators print: figures and failures of real runs, and an error for all that is no report."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costof.commands.readers import Report, UnreadableError, json_of, reader, reader_names
from costof.errors import CostofError
from tests.commands import figures_of_http, figures_of_storage

OUTPUTS = Path(__file__).parent / "outputs"
FIGURES = figures_of_http.FIGURES | figures_of_storage.FIGURES
COUNTS = figures_of_http.COUNTS | figures_of_storage.COUNTS
#: Why each of these is refused.
UNREADABLE = figures_of_http.UNREADABLE | figures_of_storage.UNREADABLE

#: A unit is one of these, or a word of its own as it is to be printed.
UNITS = {"ms", "us", "per_second", "percent", "bytes", "errors", "MB/s", "MiB/s"}
#: What a program may write where a number is looked for, and a parser may fall over.
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
    # Beyond a float, and beyond what Python reads as an integer.
    "9" * 400,
    "9" * 5000,
    "[]",
    "{}",
    '"',
    "\x00",
]
WRITTEN = {name: (OUTPUTS / name).read_text() for name in (*FIGURES, *UNREADABLE)}


def reader_of(output: str) -> str:
    """The reader whose name the file begins with; wrk2 has that of wrk."""
    return max((name for name in reader_names() if output.startswith(name)), key=len)


def check(name: str, output: str) -> None:
    """Assert that a reader refuses an output, or gives finite numbers of its own figures and plausible counts."""
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
    """Return the report of a file of `outputs/`."""
    return reader(reader_of(output)).read(WRITTEN[output])


@pytest.mark.parametrize("output", FIGURES)
def test_real_output_gives_exactly_its_figures(output: str) -> None:
    report = read(output)
    assert report.figures == pytest.approx(FIGURES[output], rel=1e-12, abs=0)
    assert (report.operations, report.failed) == COUNTS.get(output, (None, None))


@pytest.mark.parametrize("output", UNREADABLE)
def test_a_run_without_an_operation_is_refused(output: str) -> None:
    with pytest.raises(UnreadableError, match=re.escape(UNREADABLE[output])):
        read(output)


@pytest.mark.parametrize("output", FIGURES)
def test_lines_around_a_report_and_of_another_system_change_nothing(output: str) -> None:
    name, expected = reader_of(output), read(output)
    said = f"[INFO] starting {{x}}\n{WRITTEN[output]}\nbye [1]\n{{x}}\n"
    assert reader(name).read(said) == expected
    assert reader(name).read(said.replace("\n", "\r\n")) == expected


@pytest.mark.parametrize("name", reader_names())
@given(data=st.data())
def test_the_last_whole_report_counts_and_reports_are_never_mixed(name: str, data: st.DataObject) -> None:
    outputs = [each for each in FIGURES if reader_of(each) == name]
    first = data.draw(st.sampled_from(outputs))
    # A table without a header is told from another one by a test that comes again alone.
    last = data.draw(st.sampled_from([each for each in outputs if each != "redis-benchmark-older.txt"]))
    assert reader(name).read(f"{WRITTEN[first]}\n{WRITTEN[last]}") == read(last)
    cut = WRITTEN[last][: data.draw(st.integers(0, len(WRITTEN[last])))]
    allowed: list[Report | str] = [read(first)]
    found: list[Report | str] = []
    for output, into in ((cut, allowed), (f"{WRITTEN[first]}\n{cut}", found)):
        try:
            into.append(reader(name).read(output))
        except UnreadableError as error:
            into.append(str(error))
    assert found[0] in allowed


def test_every_output_is_in_the_table_and_read() -> None:
    files = {path.name for path in OUTPUTS.iterdir()} - {"README.md"}
    assert files == set(WRITTEN)
    assert files == set(re.findall(r"^\| `([^`]+)` \|", (OUTPUTS / "README.md").read_text(), re.MULTILINE))


@pytest.mark.parametrize("name", reader_names())
def test_a_reader_declares_its_figures(name: str) -> None:
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


def test_the_page_for_users_has_every_reader_as_it_is() -> None:
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
@given(output=st.text())
def test_any_text_is_refused(name: str, output: str) -> None:
    check(name, output)


@pytest.mark.parametrize("name", reader_names())
@given(data=st.data())
def test_broken_output_is_refused_or_gives_numbers(name: str, data: st.DataObject) -> None:
    output = WRITTEN[data.draw(st.sampled_from([each for each in WRITTEN if reader_of(each) == name]))]
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(output))] * 2)))
    check(name, output[:start])
    check(name, output[:start] + data.draw(st.sampled_from(ODD) | st.text(max_size=20)) + output[end:])


@pytest.mark.parametrize("name", reader_names())
@settings(max_examples=40)
@given(data=st.data())
def test_odd_numbers_are_refused_or_left_out(name: str, data: st.DataObject) -> None:
    output = WRITTEN[data.draw(st.sampled_from([each for each in WRITTEN if reader_of(each) == name]))]
    numbers = list(re.finditer(r"-?\d+(\.\d+)?", output))
    some = data.draw(st.sets(st.integers(0, len(numbers) - 1), max_size=8))
    for match in (numbers[at] for at in sorted(some, reverse=True)):
        output = output[: match.start()] + data.draw(st.sampled_from(ODD)) + output[match.end() :]
    check(name, output)
    check(name, re.sub(r"\d+(\.\d+)?", data.draw(st.sampled_from(ODD)), output))


@pytest.mark.parametrize("opened", ["[", '{"a":', "[\n", '{"jobs":[\n'])
def test_a_document_nested_beyond_measure_is_refused(opened: str) -> None:
    with pytest.raises(UnreadableError, match="JSON is broken"):
        json_of(opened * 100_000)


def test_a_document_is_found_below_what_was_said_first() -> None:
    assert json_of('[INFO] {x}\nfio: a note\n{"a": [1]}\nbye') == {"a": [1]}
    assert json_of('result: {"a": 1}') == {"a": 1}
    with pytest.raises(UnreadableError, match="no JSON"):
        json_of("nothing")


def test_a_row_beyond_measure_is_refused() -> None:
    with pytest.raises(UnreadableError, match="CSV is broken"):
        reader("redis-benchmark").read('"' + "x" * 200_000)


def test_an_unknown_reader_is_refused_with_the_nearest() -> None:
    with pytest.raises(CostofError, match="pgbench"):
        reader("pgbnch")
