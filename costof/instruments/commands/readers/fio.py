"""fio: bandwidth, operations a second and completion latency for reads, writes and trims, and the latency of syncs.

Tested with fio 2.2.0, 2.21, 3.1, 3.17, 3.33 and 3.42 (https://github.com/axboe/fio, stat.c). Latencies are in us in fio
2 and in ns in fio 3. Versions before 3.2 report the bandwidth only as `bw`, in KiB/s. Versions before 3.18 do not
report how many latencies a mean is computed from. If there are several jobs, their rates are added up and their
latencies averaged.

Failed operations are the errors that fio counts with --continue_on_error. Without this option a job ends at its first
error.
"""

from __future__ import annotations

from costof.instruments.commands.readers import (
    Figure,
    Reader,
    Report,
    UnreadableError,
    convert,
    number_at,
    objects_at,
    rate,
)

#: fio's kinds of operations, each with the word for one operation. With --unified_rw_reporting=mixed, fio reports
#: reads, writes and trims only together, as `mixed`; with =both, it reports them together and separately.
DIRECTIONS = {"read": "read", "write": "write", "trim": "trim", "mixed": "mixed operation"}
FIGURES = {
    **{
        f"{direction}_{name}": figure
        for direction, one in DIRECTIONS.items()
        for name, figure in (
            ("mb_per_second", rate(f"bandwidth of {one}s", unit="MB/s", headline=True)),
            ("iops", rate(f"{one}s a second")),
            ("latency_us", Figure(f"completion latency of a {one}", "us", headline=True)),
            ("p99_us", Figure(f"99th percentile of a {one}'s completion latency", "us")),
        )
    },
    "sync_latency_us": Figure("latency of a sync", "us"),
    "sync_p99_us": Figure("99th percentile of a sync's latency", "us"),
    "failed_percent": Figure("operations that failed", "percent"),
}


def _report(document: dict[str, object], _: dict[str, float]) -> Report:
    """Return the report. Raises `UnreadableError` if no job read, wrote or trimmed anything."""
    jobs = objects_at(document, "jobs") or objects_at(document, "client_stats")
    # In client/server mode the entry "All clients" has the sums over the other entries.
    jobs = [job for job in jobs if job.get("jobname") == "All clients"] or jobs
    figures: dict[str, float | None] = {}
    missing: dict[str, str] = {}
    kinds = ["sync"]
    for direction in DIRECTIONS:
        busy = [job[direction] for job in jobs if number_at(job, (direction, "iops"))]
        if busy and not (direction == "mixed" and figures):
            kinds.append(direction)
            in_bytes, in_kib = _total(busy, "bw_bytes"), _total(busy, "bw")
            in_bytes = in_kib * 1024 if in_bytes is None and in_kib is not None else in_bytes
            figures[f"{direction}_mb_per_second"] = None if in_bytes is None else in_bytes / 1e6
            figures[f"{direction}_iops"] = _total(busy, "iops")
            figures |= _latencies(direction, busy, "clat")
            missing[f"{direction}_latency_us"] = "fio measured no completion latency (--gtod_reduce or --disable_clat)"
            if len(busy) > 1:
                missing[f"{direction}_p99_us"] = "fio ran several jobs without --group_reporting"
    if not figures:
        raise UnreadableError("its jobs read, wrote and trimmed nothing")
    figures |= _latencies("sync", [job["sync"] for job in jobs if isinstance(job.get("sync"), dict)], "lat")
    tried = [number_at(job, (kind, "total_ios")) or 0.0 for job in jobs for kind in kinds]
    failed = [number_at(job, ("total_err",)) or bool(number_at(job, ("error",))) for job in jobs]
    return Report.build(figures, sum(tried), float(sum(failed)), missing)


def _total(parts: list[object], key: str) -> float | None:
    values = [number_at(part, (key,)) for part in parts]
    return None if None in values else sum(value for value in values if value is not None)


def _latencies(name: str, parts: list[object], kind: str) -> dict[str, float | None]:
    """Return two figures of the jobs' latencies, in us: the mean and the 99th percentile; None if unknown.

    The 99th percentile is unknown if there are several jobs, since their percentiles cannot be merged.
    """
    timed = []
    for part in parts:
        for key, unit in ((f"{kind}_ns", "ns"), (kind, "us")):
            # A job's mean must be weighted by its number of latencies. Older versions of fio do not report this number,
            # so take the number of operations.
            count = number_at(part, (key, "N")) or number_at(part, ("total_ios",))
            mean, p99 = number_at(part, (key, "mean")), number_at(part, (key, "percentile", "99.000000"))
            if count and mean:
                timed.append((count, convert(mean, unit, "us"), None if p99 is None else convert(p99, unit, "us")))
    total = sum(count for count, _, _ in timed)
    return {
        f"{name}_latency_us": sum(count * mean for count, mean, _ in timed) / total if timed else None,
        f"{name}_p99_us": timed[0][2] if timed and len(parts) == 1 else None,
    }


READER = Reader(
    "fio",
    FIGURES,
    _report,
    "--output-format=json and, for percentiles of several jobs, --group_reporting",
    keys=("jobs", "client_stats"),
)
