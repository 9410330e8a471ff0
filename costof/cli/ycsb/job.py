"""Translation of YCSB's properties into the load generator's settings: the workload `ycsb`, its workers, pace and size.

Names and defaults are those of CoreWorkload and Client (YCSB 0.17). The settings leave out properties that the user
does not set, because only the load generator knows the defaults.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Literal

import javaproperties

from costof.errors import CostofError, ErrorText
from costof.format import listed
from costof.messages.plan import Options

Phase = Literal["load", "run"]

WHOLE_NUMBERS = {
    "recordcount": "record_count",
    "operationcount": "operation_count",
    "insertstart": "insert_start",
    "insertcount": "insert_count",
    "zeropadding": "zero_padding",
    "fieldcount": "field_count",
    "fieldlength": "field_length",
    "minfieldlength": "min_field_length",
    "minscanlength": "min_scan_length",
    "maxscanlength": "max_scan_length",
}
FRACTIONS = {
    "readproportion": "read_proportion",
    "updateproportion": "update_proportion",
    "insertproportion": "insert_proportion",
    "scanproportion": "scan_proportion",
    "readmodifywriteproportion": "read_modify_write_proportion",
    "exponential.frac": "exponential_fraction",
    "hotspotdatafraction": "hotspot_data_fraction",
    "hotspotopnfraction": "hotspot_operation_fraction",
}
SWITCHES = {"readallfields": "read_all_fields", "writeallfields": "write_all_fields"}
WORDS = {
    "insertorder": ("insert_order", ("hashed", "ordered")),
    "fieldlengthdistribution": ("field_length_distribution", ("constant", "uniform", "zipfian")),
    "requestdistribution": (
        "request_distribution",
        ("uniform", "zipfian", "latest", "sequential", "exponential", "hotspot"),
    ),
    "scanlengthdistribution": ("scan_length_distribution", ("uniform", "zipfian")),
}
CLIENT_PROPERTIES = frozenset(
    {
        "threadcount",
        "target",
        "maxexecutiontime",
        "status.interval",
        "table",
        "workload",
        "keyprefix",
        "exponential.percentile",
    }
)
#: Properties that have no effect here: they set how YCSB stores and prints measurements, or configure Java's drivers.
WITHOUT_EFFECT = frozenset(
    {
        "measurementtype",
        "measurement.interval",
        "histogram.buckets",
        "timeseries.granularity",
        "hdrhistogram.percentiles",
        "exporter",
        "db",
        "db.driver",
        "jdbc.fetchsize",
        "label",
        "keylengthdistribution",
    }
)
#: Names of YCSB's core workload: the end of its Java class name (its package was renamed in 2019), and go-ycsb's name.
CORE_WORKLOAD, GO_YCSB_CORE_WORKLOAD = ".workloads.CoreWorkload", "core"
MOST = 2**31 - 1
MOST_THREADS = 10_000
STATUS_SECONDS = 10
#: The maximum duration of a job without a limit. It must be below 2**31 ms, the maximum timeout of select().
NO_LIMIT_SECONDS = 14 * 86_400


@dataclass(frozen=True)
class Job:
    """The work of one YCSB command, at most `seconds` long. `ycsb` has the engine's settings for the workload."""

    phase: Phase
    table: str
    workers: int
    operations: int
    seconds: float
    status_seconds: int
    ycsb: Options
    per_second: float | None = None

    @property
    def reads(self) -> bool:
        """Return whether the job reads records that must already exist."""
        return self.phase == "run" and float(self.ycsb.get("insert_proportion", 0.0)) < 1

    @property
    def grows(self) -> bool:
        """Return whether a load adds to existing records, because insertstart is set."""
        return bool(self.ycsb.get("insert_start"))


def make_job(phase: Phase, properties: Properties) -> Job:
    """Return the job that the properties describe.

    Raises `YCSB_BAD_PROPERTY`, `BAD_NUMBER` or `YCSB_NEEDS` for values that YCSB rejects or silently changes.
    """
    workload = properties.get("workload", GO_YCSB_CORE_WORKLOAD)
    if workload != GO_YCSB_CORE_WORKLOAD and not workload.endswith(CORE_WORKLOAD):
        allowed = f"site.ycsb{CORE_WORKLOAD} or {GO_YCSB_CORE_WORKLOAD}"
        raise CostofError(ErrorText.YCSB_BAD_PROPERTY, name="workload", allowed=allowed)
    ycsb: Options = {"phase": phase, **_core(properties)}
    operations = _operations(phase, properties, ycsb)
    per_second = _whole(properties, "target", 0) if "target" in properties else 0
    longest = _whole(properties, "maxexecutiontime", 0) if "maxexecutiontime" in properties else 0
    return Job(
        phase=phase,
        table=properties.get("table", "usertable"),
        workers=min(
            _whole(properties, "threadcount", 1, MOST_THREADS) if "threadcount" in properties else 1, operations
        ),
        operations=operations,
        seconds=float(min(longest or NO_LIMIT_SECONDS, NO_LIMIT_SECONDS)),
        status_seconds=_whole(properties, "status.interval", 1) if "status.interval" in properties else STATUS_SECONDS,
        ycsb=ycsb,
        per_second=float(per_second) or None,
    )


def unused(properties: Properties, database_properties: frozenset[str]) -> tuple[list[str], list[str]]:
    """Return two lists of names: known properties that have no effect here, and unknown properties."""
    known = (
        WHOLE_NUMBERS.keys()
        | FRACTIONS.keys()
        | SWITCHES.keys()
        | WORDS.keys()
        | CLIENT_PROPERTIES
        | database_properties
    )
    idle = [name for name in properties if name in WITHOUT_EFFECT]
    return idle, [name for name in properties if name not in known and name not in WITHOUT_EFFECT]


def _core(properties: Properties) -> Options:
    settings: Options = {
        engine: _whole(properties, name, 0) for name, engine in WHOLE_NUMBERS.items() if name in properties
    }
    settings |= {engine: _fraction(properties, name, 1.0) for name, engine in FRACTIONS.items() if name in properties}
    for name, engine in SWITCHES.items():
        if name in properties:
            settings[engine] = _word(properties, name, ("true", "false")) == "true"
    for name, (engine, allowed) in WORDS.items():
        if name in properties:
            settings[engine] = _word(properties, name, allowed)
    if "exponential.percentile" in properties:
        settings["exponential_percentile"] = _fraction(properties, "exponential.percentile", 100.0)
    if "keyprefix" in properties:
        settings["key_prefix"] = properties["keyprefix"]
    return settings


def _operations(phase: Phase, properties: Properties, ycsb: Options) -> int:
    """Return the number of operations, and set `record_count` in `ycsb`."""
    start, count = int(ycsb.get("insert_start", 0)), int(ycsb.get("insert_count", 0))
    records = int(ycsb.get("record_count", 0)) or (start + count)
    if not records:
        raise CostofError(ErrorText.YCSB_NEEDS, what="the number of records of the table", option="recordcount=1000")
    if records < start + count:
        allowed = f"at least insertstart + insertcount, {start + count}"
        raise CostofError(ErrorText.YCSB_BAD_PROPERTY, name="recordcount", allowed=allowed)
    ycsb["record_count"] = records
    if phase == "load":
        return count or records
    operations = _whole(properties, "operationcount", 0) if "operationcount" in properties else 0
    if not operations and not properties.get("maxexecutiontime", "0").strip("0 "):
        raise CostofError(ErrorText.YCSB_NEEDS, what="the number of operations", option="operationcount=1000")
    return operations or MOST


def _whole(properties: Properties, name: str, low: int, high: int = MOST) -> int:
    text = " ".join(properties[name].split())
    if not text.isascii() or not text.isdigit() or len(text) > 10 or not low <= int(text) <= high:
        raise CostofError(ErrorText.BAD_NUMBER, name=name, text=text, low=low, high=high)
    return int(text)


def _fraction(properties: Properties, name: str, most: float) -> float:
    try:
        value = float(properties[name])
    except ValueError:
        value = math.nan
    if not 0 <= value <= most:
        raise CostofError(ErrorText.YCSB_BAD_PROPERTY, name=name, allowed=f"a number from 0 to {most:g}")
    return value


def _word(properties: Properties, name: str, allowed: tuple[str, ...]) -> str:
    text = properties[name].strip().lower()
    if text not in allowed:
        raise CostofError(ErrorText.YCSB_BAD_PROPERTY, name=name, allowed=" or ".join(allowed))
    return text


Properties = dict[str, str]


def core_workloads() -> dict[str, Properties]:
    """Return YCSB's own workload files, by name: workloada to workloadf."""
    text = (resources.files("costof.cli.ycsb") / "core_workloads.toml").read_text()
    return tomllib.loads(text)


def read_properties(files: Sequence[str], assignments: Sequence[str], options: Mapping[str, str]) -> Properties:
    """Return the properties that a command line sets, by the rules of YCSB (site.ycsb.Client.parseArguments).

    Later files override earlier files. `assignments` (`-p`) override all files. `options`, the properties set by
    `-threads` and `-target`, override both. Raises `YCSB_FILE_UNREADABLE` and `YCSB_NOT_A_PROPERTY`.
    """
    properties: Properties = {}
    for file in files:
        properties |= _read_file(file)
    for text in assignments:
        name, equals, value = text.partition("=")
        if not equals or not name:
            # Do not quote `text` in the error: if the user forgot the property's name, it may be just a password.
            raise CostofError(ErrorText.YCSB_NOT_A_PROPERTY)
        properties[name] = value
    return properties | dict(options)


def _read_file(name: str) -> Properties:
    path = Path(name)
    built_in = core_workloads()
    if not path.exists() and path.name in built_in:
        return built_in[path.name]
    try:
        with path.open("rb") as file:
            return dict(javaproperties.load(file))
    except OSError as error:
        raise CostofError(ErrorText.YCSB_FILE_UNREADABLE, path=path, detail=error.strerror) from None
    except ValueError as error:
        raise CostofError(ErrorText.YCSB_FILE_UNREADABLE, path=path, detail=str(error)) from None


_JDBC = {"user": "db.user=USER", "password": "db.passwd=PASSWORD"}
_MYSQL = "db.url=jdbc:mysql://HOST:3306/DATABASE"
_POSTGRESQL = "db.url=jdbc:postgresql://HOST:5432/DATABASE"
_REDIS = "redis.host=HOST and -p redis.port=PORT"
_REDIS_LOG_IN = "redis.password=PASSWORD (YCSB's binding logs in as the default user)"
_REDIS_TLS = "redis.host=HOST (YCSB's binding does not support TLS; `costof run redis-tls` measures it)"
_MONGODB_LOG_IN = "mongodb.url=mongodb://USER:PASSWORD@HOST:27017/DATABASE?authSource=admin"
#: Maps go-ycsb's properties to the properties of YCSB that replace them. For 'mysql.host', the first key is 'mysql',
#: and the second key is 'host'.
_REPLACEMENTS = {
    "mysql": {**dict.fromkeys(("host", "port", "db"), _MYSQL), **_JDBC},
    "pg": {**dict.fromkeys(("host", "port", "db"), _POSTGRESQL), "sslmode": f"{_POSTGRESQL}?sslmode=MODE", **_JDBC},
    "redis": {
        "addr": _REDIS,
        "username": _REDIS_LOG_IN,
        "db": f"{_REDIS} (YCSB's binding uses only database 0)",
        **dict.fromkeys(("tls_ca", "tls_cert", "tls_key", "tls_insecure_skip_verify"), _REDIS_TLS),
    },
    "mongodb": {
        **dict.fromkeys(("username", "password", "authdb"), _MONGODB_LOG_IN),
        "namespace": "mongodb.database=DATABASE and table=COLLECTION",
        "tls_ca_file": "mongodb.url=mongodb://HOST/?tls=true&tlsCAFile=FILE",
        "tls_skip_verify": "mongodb.url=mongodb://HOST/?tls=true&tlsInsecure=true",
    },
}
#: For each YCSB binding: prefixes of the names of go-ycsb's properties, such as 'mysql' in 'mysql.host'.
_PREFIXES = {"jdbc": ("mysql", "pg"), "mysql": ("mysql",), "postgresql": ("pg",)}
#: Values with which a property of go-ycsb has no effect.
WITHOUT_MEANING = ("", "0", "false")


def check_names(binding: str, properties: Properties) -> None:
    """Raise `YCSB_GO_NAMES` if the user gave properties of the database by the names that they have in go-ycsb.

    Without this error, costof would ignore such a property, and measure the database at the default address.
    """
    replacements = {
        f"{prefix}.{name}": instead
        for prefix in _PREFIXES.get(binding, (binding,))
        for name, instead in _REPLACEMENTS.get(prefix, {}).items()
        if properties.get(f"{prefix}.{name}", "").strip().lower() not in WITHOUT_MEANING
    }
    if replacements:
        unique = [*dict.fromkeys(replacements.values())]
        # The list may have a URL both alone and with a query parameter, such as ?sslmode=MODE. Suggest only the longer
        # one.
        needed = [each for each in unique if not any(other != each and other.startswith(each) for other in unique)]
        instead = " and ".join(f"-p {each}" for each in needed)
        raise CostofError(ErrorText.YCSB_GO_NAMES, names=listed([*replacements]), instead=instead)
