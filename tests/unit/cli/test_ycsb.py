"""YCSB's command line: its properties, its databases, the engine's plan, and its output."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import javaproperties
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costof.cli.ycsb.client import Tally, make_plan, results, slice_size, status_line
from costof.cli.ycsb.databases import open_database
from costof.cli.ycsb.databases.mongodb import MongodbDatabase
from costof.cli.ycsb.databases.mysql import MysqlDatabase
from costof.cli.ycsb.databases.postgresql import PostgresqlDatabase
from costof.cli.ycsb.job import Job, Phase, check_names, core_workloads, make_job, read_properties, unused
from costof.datasets.ycsb import key_name
from costof.errors import CostofError, ErrorText
from costof.messages.answers import ClassifiedError, SliceAnswer
from costof.messages.plan import Endpoint, Pace, ServiceSettings
from tests.fake_run import Slice, answer_of, error_of, phase_of
from tests.support.engines import sent

GOLDEN = Path(__file__).parents[1] / "golden" / "ycsb.txt"
# Each workload: its shares of read, update, insert, scan and read-modify-write, and its request distribution (Cooper et
# al., SoCC 2010, table 2, and the files of YCSB 0.17).
PUBLISHED = {
    "workloada": (0.5, 0.5, 0, 0, 0, "zipfian"),
    "workloadb": (0.95, 0.05, 0, 0, 0, "zipfian"),
    "workloadc": (1, 0, 0, 0, 0, "zipfian"),
    "workloadd": (0.95, 0, 0.05, 0, 0, "latest"),
    "workloade": (0, 0, 0.05, 0.95, 0, "zipfian"),
    "workloadf": (0.5, 0, 0, 0, 0.5, "zipfian"),
}
KINDS = ("read", "update", "insert", "scan", "read_modify_write")


@pytest.mark.parametrize("name", PUBLISHED)
def test_built_in_core_workloads_equal_those_that_ycsb_publishes(name: str) -> None:
    *proportions, distribution = PUBLISHED[name]
    job = make_job("run", read_properties([f"workloads/{name}"], [], {}))
    # Only F sets the share of read-modify-write; YCSB's default is 0.
    shares = [job.ycsb.get(f"{kind}_proportion", 0.0) for kind in KINDS]
    assert (shares, job.ycsb["request_distribution"]) == (proportions, distribution)
    assert (job.operations, job.ycsb["record_count"]) == (1000, 1000)
    assert job.ycsb.get("max_scan_length") == (100 if name == "workloade" else None)
    assert core_workloads().keys() == PUBLISHED.keys()


NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="="), min_size=1)
VALUES = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ycsb") / "a.properties"


@given(written=st.dictionaries(NAMES, VALUES), more=st.dictionaries(NAMES, VALUES))
def test_option_p_overrides_the_properties_of_a_file(written: dict[str, str], more: dict[str, str], file: Path) -> None:
    file.write_bytes(javaproperties.dumps(written).encode("latin-1"))
    assignments = [f"{name}={value}" for name, value in more.items()]
    assert read_properties([str(file)], assignments, {}) == {**written, **more}


def refusal(call: Callable[[], object]) -> CostofError | None:
    try:
        call()
    except CostofError as error:
        return error
    return None


@given(content=st.binary())
def test_property_file_of_arbitrary_bytes_is_parsed_or_refused_with_one_error(content: bytes, file: Path) -> None:
    file.write_bytes(content)
    refused = refusal(lambda: read_properties([str(file)], [], {}))
    assert refused is None or refused.message is ErrorText.YCSB_FILE_UNREADABLE


@given(st.dictionaries(st.sampled_from(["recordcount", "insertstart", "readproportion", "target", "w"]), VALUES))
def test_arbitrary_property_values_are_accepted_or_refused_with_a_one_line_error(properties: dict[str, str]) -> None:
    refused = refusal(lambda: make_job("load", properties))
    assert refused is None or len(str(refused).splitlines()) == 1


def test_property_file_has_java_syntax_and_overrides_a_built_in_workload(tmp_path: Path) -> None:
    file = tmp_path / "workloada"
    file.write_bytes(
        b"# a comment\n  recordcount : 5\ntable=user\\\n   table\n! too\nfieldcount 3\nkeyprefix=\\u0041\xe9\n"
    )
    properties = read_properties([str(file)], ["fieldcount=4", "threadcount=9"], {"threadcount": "2"})
    expected = {"recordcount": "5", "table": "usertable", "fieldcount": "4", "keyprefix": "Aé", "threadcount": "2"}
    assert properties == expected


def job_for(phase: Phase, *assignments: str) -> Job:
    return make_job(phase, read_properties(["workloada"], assignments, {}))


def test_every_ycsb_property_is_translated_for_the_engine() -> None:
    translations = {
        "recordcount": ("20", "record_count", 20),
        "insertstart": ("2", "insert_start", 2),
        "insertcount": ("9", "insert_count", 9),
        "insertorder": ("ordered", "insert_order", "ordered"),
        "zeropadding": ("12", "zero_padding", 12),
        "fieldcount": ("3", "field_count", 3),
        "fieldlength": ("8", "field_length", 8),
        "minfieldlength": ("4", "min_field_length", 4),
        "fieldlengthdistribution": ("uniform", "field_length_distribution", "uniform"),
        "readproportion": ("0.1", "read_proportion", 0.1),
        "updateproportion": ("0.2", "update_proportion", 0.2),
        "insertproportion": ("0.3", "insert_proportion", 0.3),
        "scanproportion": ("0.15", "scan_proportion", 0.15),
        "readmodifywriteproportion": ("0.25", "read_modify_write_proportion", 0.25),
        "requestdistribution": ("exponential", "request_distribution", "exponential"),
        "exponential.percentile": ("90", "exponential_percentile", 90.0),
        "exponential.frac": ("0.5", "exponential_fraction", 0.5),
        "hotspotdatafraction": ("0.3", "hotspot_data_fraction", 0.3),
        "hotspotopnfraction": ("0.7", "hotspot_operation_fraction", 0.7),
        "minscanlength": ("2", "min_scan_length", 2),
        "maxscanlength": ("50", "max_scan_length", 50),
        "scanlengthdistribution": ("zipfian", "scan_length_distribution", "zipfian"),
        "readallfields": ("false", "read_all_fields", False),
        "writeallfields": ("TRUE", "write_all_fields", True),
        "keyprefix": ("k", "key_prefix", "k"),
    }
    job = make_job("load", {name: text for name, (text, _, _) in translations.items()})
    assert job.ycsb == {"phase": "load"} | {name: value for _, name, value in translations.values()}


def test_ycsb_properties_set_workers_operations_rate_and_duration_of_the_run() -> None:
    job = job_for(
        "run", "threadcount=8", "target=400", "maxexecutiontime=60", "operationcount=5000", "status.interval=2"
    )
    assert (job.workers, job.per_second, job.seconds, job.operations) == (8, 400.0, 60.0, 5000)
    end = Endpoint(service=ServiceSettings(protocol="none", addresses=[]))
    assert make_plan(job, end).workloads[0].pace == Pace(per_second=400.0, arrivals="constant")
    assert make_plan(job_for("run"), end).workloads[0].pace is None
    assert slice_size(job, Tally()) == 800
    endless = job_for("run", "operationcount=0", "maxexecutiontime=5")
    assert (endless.seconds, endless.operations) == (5.0, 2**31 - 1)


@pytest.mark.parametrize(
    ("assignments", "operations"),
    [
        (["recordcount=50"], 50),
        (["recordcount=50", "insertcount=20"], 20),
        (["recordcount=70", "insertstart=50", "insertcount=20"], 20),
    ],
)
def test_load_phase_has_the_same_number_of_operations_as_in_ycsb(assignments: list[str], operations: int) -> None:
    assert job_for("load", *assignments).operations == operations
    assert job_for("load", *assignments, "threadcount=100").workers == operations


@pytest.mark.parametrize(
    ("assignments", "expected", "text"),
    [
        (["recordcount=many"], ErrorText.BAD_NUMBER, "recordcount"),
        (
            ["recordcount=10", "insertstart=5", "insertcount=6"],
            ErrorText.YCSB_BAD_PROPERTY,
            "insertstart + insertcount",
        ),
        (["recordcount=0"], ErrorText.YCSB_NEEDS, "-p recordcount=1000"),
        (["operationcount=0"], ErrorText.YCSB_NEEDS, "-p operationcount=1000"),
        (["readproportion=1.5"], ErrorText.YCSB_BAD_PROPERTY, "from 0 to 1"),
        (["readproportion=nan"], ErrorText.YCSB_BAD_PROPERTY, "readproportion"),
        (["requestdistribution=gauss"], ErrorText.YCSB_BAD_PROPERTY, "zipfian or latest"),
        (["fieldlengthdistribution=histogram"], ErrorText.YCSB_BAD_PROPERTY, "constant"),
        (["threadcount=0"], ErrorText.BAD_NUMBER, "threadcount"),
        (["target=-1"], ErrorText.BAD_NUMBER, "target"),
        (["readallfields=yes"], ErrorText.YCSB_BAD_PROPERTY, "true or false"),
        (["workload=site.ycsb.workloads.TimeSeriesWorkload"], ErrorText.YCSB_BAD_PROPERTY, "CoreWorkload or core"),
        (["s3cret"], ErrorText.YCSB_NOT_A_PROPERTY, "name=value"),
    ],
)
def test_invalid_property_is_refused_in_one_line(assignments: list[str], expected: object, text: str) -> None:
    with pytest.raises(CostofError) as caught:
        job_for("run", *assignments)
    assert caught.value.message is expected
    assert text in str(caught.value)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("name", ["site.ycsb.workloads.CoreWorkload", "com.yahoo.ycsb.workloads.CoreWorkload", "core"])
def test_core_workload_can_be_given_by_each_of_its_three_names(name: str) -> None:
    assert job_for("run", f"workload={name}") == job_for("run")


def test_unknown_properties_and_properties_without_effect_are_listed_separately() -> None:
    properties = {"recordcount": "1", "measurementtype": "raw", "batchsize": "10", "mongodb.url": "x"}
    assert unused(properties, MongodbDatabase.PROPERTIES) == (["measurementtype"], ["batchsize"])


@pytest.mark.parametrize(
    ("binding", "properties", "text"),
    [
        (
            "mysql",
            {"mysql.host": "h", "mysql.port": "3307", "mysql.user": "s3cret"},
            "replace mysql.host, mysql.port and mysql.user by -p db.url=jdbc:mysql://HOST:3306/DATABASE and "
            "-p db.user=USER",
        ),
        ("jdbc", {"mysql.password": "s3cret"}, "replace mysql.password by -p db.passwd=PASSWORD"),
        (
            "postgresql",
            {"pg.host": "h", "pg.sslmode": "require"},
            "replace pg.host and pg.sslmode by -p db.url=jdbc:postgresql://HOST:5432/DATABASE?sslmode=MODE",
        ),
        ("redis", {"redis.addr": "h:6379"}, "replace redis.addr by -p redis.host=HOST and -p redis.port=PORT"),
        ("redis", {"redis.tls_ca": "ca.pem"}, "does not support TLS"),
        ("mongodb", {"mongodb.password": "s3cret"}, "by -p mongodb.url=mongodb://USER:PASSWORD@HOST:27017/DATABASE"),
    ],
)
def test_database_and_property_names_of_go_ycsb_are_refused_with_a_suggestion(
    binding: str, properties: dict[str, str], text: str
) -> None:
    with pytest.raises(CostofError) as caught:
        check_names(binding, properties)
    assert caught.value.message is ErrorText.YCSB_GO_NAMES
    assert text in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_go_ycsb_properties_of_a_database_that_is_not_used_are_accepted() -> None:
    check_names("redis", {"redis.password": "p", "redis.db": "0", "mongodb.url": "x"})
    check_names("mysql", {"pg.host": "h", "redis.addr": "h"})


def mongodb(url: str | None, **properties: str) -> dict[str, Any]:
    given = {"mongodb.url": url, **properties} if url else properties
    return sent(MongodbDatabase(given, "usertable").endpoint())


def test_mongodb_url_and_properties_determine_the_settings_of_the_engine() -> None:
    endpoint = mongodb("mongodb://u:p%40ss@a:1,b/data?replicaSet=rs&w=majority&readPreference=nearest&authSource=admin")
    place = {"protocol": "mongodb", "addresses": ["a:1", "b:27017"], "replica_set": "rs", "read_preference": "nearest"}
    login = {"username": "u", "password": "p@ss", "auth_source": "admin"}
    data = {"database": "data", "collection": "usertable", "write_concern": "majority"}
    assert endpoint == {"service": {**place, **login, **data}, "transport": {"kind": "plain"}}
    plain = mongodb(None)["service"]
    assert (plain["addresses"], plain["database"], plain["write_concern"]) == (["localhost:27017"], "ycsb", 1)
    assert mongodb("mongodb://h/admin")["service"]["database"] == "ycsb"
    assert "write_concern" not in mongodb("mongodb://h/")["service"]
    old = {"mongodb.writeConcern": "replica_acknowledged", "mongodb.readPreference": "secondary_preferred"}
    service = mongodb("mongodb://h/", **old)["service"]
    assert (service["write_concern"], service["read_preference"]) == (2, "secondaryPreferred")
    assert mongodb("mongodb://h/?w=3", **old)["service"]["write_concern"] == 3


def jdbc(url: str, table: str = "usertable") -> dict[str, Any]:
    return sent(open_database("jdbc", {"db.url": f"jdbc:{url}", "db.user": "u", "db.passwd": "p"}, table).endpoint())


@pytest.mark.parametrize(
    ("endpoint", "verify"),
    [
        (mongodb("mongodb://h/?tls=true&tlsAllowInvalidHostnames=true"), "ca-only"),
        (mongodb("mongodb://h/?ssl=true"), "full"),
        (mongodb("mongodb://h/?tls=true&tlsInsecure=true"), "none"),
        (jdbc("mysql://h/d?useSSL=true&verifyServerCertificate=true"), "ca-only"),
        (jdbc("mysql://h/d?sslMode=VERIFY_IDENTITY"), "full"),
        (jdbc("postgresql://h/d?ssl=true"), "full"),
        (jdbc("postgresql://h/d?sslmode=require"), "none"),
        (jdbc("postgresql://h/d?sslmode=prefer"), None),
        (jdbc("mysql://h/d?useSSL=false"), None),
    ],
)
def test_url_options_set_tls_and_its_verification(endpoint: dict[str, Any], verify: str | None) -> None:
    assert endpoint["transport"].get("verify") == verify
    assert (endpoint["transport"]["kind"] == "tls") == (verify is not None)


def test_jdbc_url_and_properties_determine_the_settings_of_the_engine() -> None:
    login = {"username": "u", "password": "p", "database": "ycsb"}
    mysql = {"protocol": "mysql", "addresses": ["h:3307"], "table": "usertable", "statements": "prepared"}
    assert jdbc("mysql://h:3307/ycsb?useSSL=false")["service"] == {**login, **mysql}
    postgres = {
        "protocol": "postgres",
        "addresses": ["h:5432"],
        "table": "usertable",
        "session": {"search_path": "mine"},
    }
    endpoint = jdbc("postgresql://h/ycsb?sslmode=verify-ca&sslrootcert=/ca.pem&currentSchema=mine", "UserTable")
    transport = {"kind": "tls", "ca_file": "/ca.pem", "verify": "ca-only", "resumption": False}
    assert endpoint == {"service": {**login, **postgres}, "transport": transport}


@pytest.mark.parametrize(
    "refuses",
    [
        lambda: mongodb("mongodb://u:s3cret@h/?w=0"),
        lambda: mongodb("mongodb://u:s3cret@h/?journal=true"),
        lambda: mongodb("http://u:s3cret@h"),
        lambda: MysqlDatabase({"db.url": "jdbc:postgresql://h/d"}, "t"),
        lambda: MysqlDatabase({"db.url": "jdbc:mysql://h/"}, "t"),
        lambda: MysqlDatabase({"db.url": "jdbc:mysql://h/d"}, "t; DROP TABLE t"),
        lambda: MysqlDatabase({"db.url": ""}, "t"),
        lambda: PostgresqlDatabase({"db.url": "jdbc:mysql://h/d"}, "t"),
    ],
)
def test_invalid_url_or_table_is_refused_without_showing_the_password(refuses: Callable[[], object]) -> None:
    with pytest.raises(CostofError) as caught:
        refuses()
    assert "s3cret" not in str(caught.value)


def answer(operations: int, *errors: ClassifiedError, **phases: float) -> SliceAnswer:
    measured = {name: phase_of(milliseconds, 20, spread=0.0) for name, milliseconds in phases.items()}
    return answer_of(Slice(operations, 2.0, measured, {}, {}, errors=list(errors)), "run", "ycsb")


def test_output_has_the_layout_of_ycsb(request: pytest.FixtureRequest) -> None:
    tally, first = Tally(), Tally()
    tally.add(answer(40, read=0.5, update=1.25))
    tally.add(answer(40, read=0.7, update=1.5))
    late = [
        error_of("timeout", "10 s", count).model_copy(update={"phase": phase})
        for phase, count in (("insert", 3), ("scan", 2))
    ]
    first.add(answer(20, *late, insert=0.8))
    now = datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC)
    status = status_line(job_for("run", "recordcount=9"), tally, answer(40, read=0.7, update=1.5), now)
    text = "\n".join([*results(tally), "", *results(first), "", status, ""])
    if request.config.getoption("--update-golden"):
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()


def test_generated_record_keys_equal_those_of_the_original_ycsb() -> None:
    assert [key_name(number) for number in (0, 1)] == ["user6284781860667377211", "user8517097267634966620"]
