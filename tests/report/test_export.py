"""Exports: other programs read the same figures, to the last digit."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from costof.cli.export import export
from costof.errors import CostofError
from costof.report import analyse
from costof.report.export import rows
from costof.results.ledger import Ledger
from costof.results.run import Run, read_run
from costof.statistics.histogram import LONGEST_NS, SIGNIFICANT_DIGITS, merged
from tests.fake_run import fake_run
from tests.support.small_plans import plan_of
from tests.truths.mongodb_tls import MongodbTruth


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    return fake_run(tmp_path_factory.mktemp("export") / "run", plan_of("mongodb-tls"), MongodbTruth(), rounds=6)


@pytest.fixture(scope="module")
def run(ledger: Ledger) -> Run:
    return read_run(ledger)


def exported(ledger: Ledger, form: str, out: Path) -> Path:
    CliRunner().invoke(
        export, [str(ledger.folder), "--to", form, "--out", str(out)], standalone_mode=False, catch_exceptions=False
    )
    return out


def test_csv_has_every_phase_of_every_measurement(ledger: Ledger, run: Run, tmp_path: Path) -> None:
    read = list(csv.DictReader(io.StringIO(exported(ledger, "csv", tmp_path / "run.csv").read_text())))
    assert read == [{name: "" if value is None else str(value) for name, value in row.items()} for row in rows(run)]
    assert len(read) == sum(len(record.answer.phases) for record in run.slices)
    for record in run.slices:
        for name, phase in record.answer.phases.items():
            key = (str(record.round), record.answer.arm, record.workload, name)
            (row,) = (each for each in read if tuple(each[c] for c in ("round", "arm", "workload", "phase")) == key)
            assert (int(row["count"]), int(row["sum_ns"])) == (phase.count, phase.sum_ns)
            assert (row["discarded"] == "") == run.counts(record)
            assert float(row["p99_ns"]) == merged([phase.histogram]).at_percentiles([99.0])[0]


def test_export_has_a_row_for_a_measurement_without_any_successful_operation(ledger: Ledger) -> None:
    run = read_run(ledger)
    run.slices[0] = run.slices[0].model_copy(
        update={"answer": run.slices[0].answer.model_copy(update={"phases": {}, "operations": 0})}
    )
    first = next(rows(run))
    assert (first["phase"], first["count"], first["operations"]) == ("", None, 0)
    assert all(each.keys() == first.keys() for each in rows(run))


def test_pandas_reads_the_exported_parquet_file(ledger: Ledger, run: Run, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.read_parquet(exported(ledger, "parquet", tmp_path / "run.parquet"))
    expected = [*rows(run)]
    assert list(table.columns) == [*expected[0]]
    for name in ("arm", "phase", "count", "sum_ns", "p99_ns", "elapsed_ns", "discarded"):
        assert table[name].tolist() == [row[name] for row in expected], name


def test_hdrhistogram_library_reads_the_exported_log(ledger: Ledger, run: Run, tmp_path: Path) -> None:
    log = exported(ledger, "hdr", tmp_path / "run.hlog")
    reader = HistogramLogReader(str(log), HdrHistogram(1, LONGEST_NS, SIGNIFICANT_DIGITS))
    read = []
    while (histogram := reader.get_next_interval_histogram()) is not None:
        read.append(histogram)
    reader.close()
    records = sorted(run.counted, key=lambda record: record.answer.started_unix_ns)
    expected = [
        (f"{record.answer.arm}/{record.workload}/{name}", phase)
        for record in records
        for name, phase in record.answer.phases.items()
    ]
    assert [histogram.get_tag() for histogram in read] == [tag for tag, _ in expected]
    for histogram, (_, phase) in zip(read, expected, strict=True):
        counts = merged([phase.histogram])
        assert histogram.get_total_count() == counts.total == phase.count
        assert [histogram.get_value_at_percentile(each) for each in (50.0, 99.0)] == counts.at_percentiles([50.0, 99.0])


def test_prometheus_client_parses_the_openmetrics_export(ledger: Ledger, tmp_path: Path) -> None:
    families = text_string_to_metric_families(exported(ledger, "openmetrics", tmp_path / "run.txt").read_text())
    read = {
        (sample.name, sample.labels["metric"], sample.labels["arm"], sample.labels.get("bound")): sample.value
        for family in families
        for sample in family.samples
        if "percentile" not in sample.labels
    }
    result = analyse(ledger)
    for effect in result.effects:
        key = (effect.metric, effect.arm)
        assert read["costof_difference_seconds", *key, "low"] == effect.difference.low * 1e-3
        if effect.ratio:
            assert read["costof_ratio", *key, "estimate"] == effect.ratio.value
    for value in result.values:
        assert read["costof_mean_seconds", value.metric, value.arm, "high"] == value.mean.high * 1e-3


#: Bencher's schema of its format (https://bencher.dev/docs/reference/bencher-metric-format/), which here also rejects
#: unknown keys.
BENCHER_METRIC = {
    "type": "object",
    "properties": {name: {"type": "number"} for name in ("value", "lower_value", "upper_value")},
    "required": ["value"],
    "additionalProperties": False,
}
BENCHER = {
    "$schema": "http://json-schema.org/draft-07/schema",
    "type": "object",
    "patternProperties": {".+": {"type": "object", "patternProperties": {".+": BENCHER_METRIC}}},
}


def test_bencher_export_conforms_to_its_schema_and_has_the_figures_of_the_report(
    ledger: Ledger, tmp_path: Path
) -> None:
    written = json.loads(exported(ledger, "bencher", tmp_path / "run.json").read_text())
    jsonschema.validate(written, BENCHER)
    names = [(benchmark, measure) for benchmark, measures in written.items() for measure in measures]
    assert all(0 < len(benchmark) <= 1024 and len(measure) <= 64 for benchmark, measure in names)
    result = analyse(ledger)
    arms = {arm.name: arm for arm in result.arms if not arm.replicate}
    for value in (each for each in result.values if each.arm in arms):
        unit = next(metric.unit for metric in result.metrics if metric.name == value.metric)
        metric = written[f"mongodb-tls: {value.arm}"][f"{value.metric} ({unit})"]
        assert metric == {"value": value.mean.value, "lower_value": value.mean.low, "upper_value": value.mean.high}
    for effect in (each for each in result.effects if each.arm in arms):
        measures = written[f"mongodb-tls: {effect.arm} minus {arms[effect.arm].control_arm}"]
        assert measures[f"{effect.metric} ({effect.unit})"]["lower_value"] == effect.difference.low
        if effect.ratio:
            assert measures[f"{effect.metric} (percent)"]["value"] == pytest.approx((effect.ratio.value - 1) * 100)
    assert not any("copy" in benchmark for benchmark in written)


@pytest.mark.parametrize(("form", "library"), [("parquet", "pyarrow"), ("openmetrics", "prometheus_client")])
def test_missing_library_is_an_error_with_the_install_command(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, library: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(CostofError, match=rf"--to {form} needs {library}; run pip install 'costof\[export\]'"):
        exported(ledger, form, tmp_path / "run")
    assert [*tmp_path.iterdir()] == []


def test_export_without_a_file_goes_to_standard_output(ledger: Ledger, tmp_path: Path) -> None:
    for form in ("csv", "openmetrics"):
        printed = CliRunner().invoke(export, [str(ledger.folder), "--to", form], catch_exceptions=False).stdout_bytes
        assert printed == exported(ledger, form, tmp_path / form).read_bytes()
