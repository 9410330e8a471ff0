"""fio 3: bandwidth, operations a second and completion latency of reads and of writes, and the latency of syncs.

https://fio.readthedocs.io/en/latest/fio_doc.html#json-output: times are in ns. What several jobs did is added up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from costof.commands.readers import Figure, Reader, UnreadableError, json_of, known, number_at, over

FIGURES = {
    "read_mb_per_second": Figure("bandwidth of reads", "MB/s", "higher", headline=True),
    "read_iops": Figure("reads a second", "per_second", "higher"),
    "read_latency_us": Figure("completion latency of a read", "us", headline=True),
    "read_p99_us": Figure("99th percentile of a read's completion latency", "us"),
    "write_mb_per_second": Figure("bandwidth of writes", "MB/s", "higher", headline=True),
    "write_iops": Figure("writes a second", "per_second", "higher"),
    "write_latency_us": Figure("completion latency of a write", "us", headline=True),
    "write_p99_us": Figure("99th percentile of a write's completion latency", "us"),
    "sync_latency_us": Figure("latency of a sync", "us"),
    "sync_p99_us": Figure("99th percentile of a sync's latency", "us"),
    "failed": Figure("operations that failed", "errors"),
}
_NS_PER_US = 1e3
_BYTES_PER_MB = 1e6
_Jobs = Sequence[dict[str, Any]]


def read(output: str) -> dict[str, float]:
    """Latencies in us. Raises `UnreadableError` without jobs, and if none of them read or wrote anything."""
    document = json_of(output)
    listed = document.get("jobs") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise UnreadableError("there are no 'jobs'")
    jobs = [job for job in listed if isinstance(job, dict)]
    moved = {**_moved(jobs, "read"), **_moved(jobs, "write")}
    if not moved:
        raise UnreadableError("its jobs read and wrote nothing")
    syncs = _latencies([job for job in jobs if number_at(job, "sync", "total_ios")], "sync", "lat_ns")
    return known({**moved, **syncs, "failed": float(sum(_failed(job) for job in jobs))})


def _moved(jobs: _Jobs, direction: str) -> dict[str, float | None]:
    """Empty if no job went in this direction."""
    busy = [job for job in jobs if number_at(job, direction, "iops")]
    if not busy:
        return {}
    moved = sum(number_at(job, direction, "bw_bytes") or 0.0 for job in busy)
    return {
        f"{direction}_mb_per_second": over(_BYTES_PER_MB, moved),
        f"{direction}_iops": sum(number_at(job, direction, "iops") or 0.0 for job in busy),
        **_latencies(busy, direction, "clat_ns"),
    }


def _latencies(jobs: _Jobs, direction: str, kind: str) -> dict[str, float | None]:
    """The mean is of all operations. Percentiles of several jobs cannot be put together."""
    counted = [(number_at(job, direction, kind, "N"), number_at(job, direction, kind, "mean")) for job in jobs]
    operations = sum(count or 0.0 for count, _ in counted)
    total = sum((count or 0.0) * (mean or 0.0) for count, mean in counted)
    p99 = number_at(jobs[0], direction, kind, "percentile", "99.000000") if len(jobs) == 1 else None
    return {
        f"{direction}_latency_us": over(_NS_PER_US, total / operations) if operations else None,
        f"{direction}_p99_us": over(_NS_PER_US, p99),
    }


def _failed(job: dict[str, Any]) -> float:
    """With --continue_on_error it counts; else it ends at the first, and gives its number."""
    counted = number_at(job, "total_err")
    return float(bool(number_at(job, "error"))) if counted is None else counted


READER = Reader(
    "fio",
    FIGURES,
    read,
    "with --output-format=json; with several jobs --group_reporting, for percentiles of all of them",
)
