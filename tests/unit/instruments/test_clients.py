"""Tests of load generators that measure the servers of a study as clients."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from costof.errors import CostofError, ErrorText
from costof.instruments.clients import ClientLoad, UnsupportedArmError, client, client_names
from costof.instruments.commands.settings import SECONDS, CommandSettings
from costof.messages.plan import PLAIN, Endpoint, ServiceSettings, Transport
from costof.programs.http import HttpSettings
from costof.programs.mariadb.connection import MysqlSettings
from costof.programs.postgres.connection import PostgresSettings
from costof.programs.redis.connection import RedisSettings
from costof.report.sections.costs import Line, sentence
from costof.studies import study_names
from costof.study.library import load_study
from costof.study.load import RequestedLoad
from costof.study.plan import Options, resolve, with_client
from tests.report.results import result_of

PASSWORD = "correct horse"
WITHOUT_BLANKS = "correct-horse"
CA = Path("/a folder/ca.pem")
TLS = Transport(kind="tls", ca_file=CA, version="1.3")
POSTGRES = PostgresSettings(
    addresses=["[::1]:5433"], username="o'neil", password=SecretStr(PASSWORD), database="shop", statements="extended"
)
IN_A_SCHEMA = POSTGRES.with_settings({"table_schema": "costof_x"})
MYSQL = MysqlSettings(
    addresses=["127.0.0.1:3306"],
    username="u",
    password=SecretStr(WITHOUT_BLANKS),
    database="d",
    table="sbtest1",
    statements="text",
)
REDIS = RedisSettings(
    addresses=["127.0.0.1:6379"],
    tls_addresses=["127.0.0.1:6380"],
    username="u",
    password=SecretStr(PASSWORD),
    visible_login=("visible", "shown"),
    resp=3,
    value_bytes=1024,
)
HTTP = HttpSettings(addresses=["127.0.0.1:8443"], host="shop.test", path="/a?b=c", requests_per_connection=1)


@pytest.fixture(autouse=True)
def programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Put stand-ins for all client programs on PATH, so that tests do not depend on what is installed."""
    for name in client_names():
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))


def client_settings(
    name: str, service: ServiceSettings, transport: Transport = PLAIN, load: ClientLoad | None = None
) -> CommandSettings:
    program = client(name)
    programs = {"w": (program.command, {SECONDS: 2.0})}
    load = load or ClientLoad(next(iter(program.tests)), program.connections)
    return program.settings(Endpoint(service=service, transport=transport), load, programs, Path("folder/out"))


def argv(settings: CommandSettings) -> str:
    return " ".join(settings.programs["w"].argv[1:])


def files(settings: CommandSettings) -> dict[str, str]:
    assert {str(Path(path).parent) for path in settings.files} == {str(settings.programs["w"].directory)}
    return {Path(path).name: content.get_secret_value() for path, content in settings.files.items()}


def environment(settings: CommandSettings) -> Mapping[str, str]:
    return settings.environment | {name: secret.get_secret_value() for name, secret in settings.hidden.items()}


def test_pgbench_gets_its_connection_settings_as_environment_variables() -> None:
    settings = client_settings("pgbench", POSTGRES, TLS)
    assert argv(settings) == "--no-vacuum --select-only --protocol extended --client 8 --jobs 2 --time 2"
    tls = environment(settings)
    assert (tls["PGHOST"], tls["PGPORT"], tls["PGUSER"], tls["PGPASSWORD"]) == ("::1", "5433", "o'neil", PASSWORD)
    assert (tls["PGSSLMODE"], tls["PGSSLROOTCERT"], tls["PGSSLMAXPROTOCOLVERSION"]) == (
        "verify-full",
        str(CA),
        "TLSv1.3",
    )
    plain = environment(client_settings("pgbench", POSTGRES))
    assert (plain["PGSSLMODE"], "PGOPTIONS" in plain) == ("disable", False)
    assert environment(client_settings("pgbench", IN_A_SCHEMA))["PGOPTIONS"] == '-c search_path="costof_x"'
    assert settings.addresses == POSTGRES.addresses, "needed to read the servers' counters"


def test_pgbench_uses_only_existing_rows_even_on_a_single_connection() -> None:
    assert "--define=scale=0.25 " in argv(
        client_settings("pgbench", POSTGRES, load=ClientLoad("select-only", 8, 25_000))
    )
    settings = client_settings("pgbench", POSTGRES.with_settings({"scale": 4}), load=ClientLoad("tpcb-like", 1, 500))
    rows = "--define=accounts=500 --define=branches=4 --define=tellers=40"
    assert f"--file=transaction.sql --protocol extended {rows} --client 1 --jobs 1" in argv(settings)
    assert files(settings)["transaction.sql"].startswith("\\set aid random(1, :accounts)\n")


def test_wrk_sends_connection_close_if_the_arm_has_one_request_per_connection() -> None:
    words = client_settings("wrk", HTTP, TLS).programs["w"].argv
    assert words[-5:] == [
        "--header",
        "Host: shop.test",
        "--header",
        "Connection: close",
        "https://127.0.0.1:8443/a?b=c",
    ]


def test_load_generators_send_the_request_body_and_headers_of_the_service() -> None:
    service = HTTP.with_settings({"headers": ["Cookie: a=b"], "body": 'say "x"\n', "has_secrets": False})
    settings = client_settings("wrk", service)
    assert files(settings)["request.lua"].splitlines() == [
        'wrk.method = "POST"',
        'wrk.body = "say \\"x\\"\\n"',
        'wrk.headers["Cookie"] = "a=b"',
    ]
    public = client_settings("h2load", service)
    assert (
        "--requests=2000 --header=:authority: shop.test --header=Cookie: a=b --header=Connection: close --data=body"
        in argv(public)
    )
    assert files(public) == {"body": 'say "x"\n'}


def test_sysbench_reads_its_password_from_a_pipe() -> None:
    settings = client_settings("sysbench", MYSQL, load=ClientLoad("oltp_insert", 3, 500))
    assert "--mysql-ssl=off --db-ps-mode=disable --tables=1 --table-size=500 " in argv(settings)
    assert argv(settings).endswith("--threads=3 --events=0 --time=2 oltp_insert run")
    assert (settings.files, environment(settings)) == ({}, {"SYSBENCH_PASSWORD": WITHOUT_BLANKS})


def test_redis_benchmark_logs_in_with_the_account_whose_password_may_be_visible() -> None:
    words = argv(client_settings("redis-benchmark", REDIS, TLS, ClientLoad("set", 8, 500, 20.0)))
    assert words == (
        f"--csv -t set -h 127.0.0.1 -p 6380 -c 8 -n 400 -r 500 -d 1024 --user visible -a shown -3 --tls --cacert {CA}"
    )


@pytest.mark.parametrize(
    ("name", "service", "transport", "why"),
    [
        ("pgbench", POSTGRES, TLS.model_copy(update={"group": "x25519"}), "cannot offer one group alone"),
        ("pgbench", POSTGRES.with_settings({"negotiation": "direct"}), TLS, "cannot begin TLS with the first byte"),
        ("pgbench", POSTGRES, TLS.model_copy(update={"ca_file": None}), "name a CA file with --tls-ca"),
        ("pgbench", IN_A_SCHEMA.with_settings({"pooled": True}), PLAIN, "a pooler rejects search_path"),
        ("wrk", HTTP, TLS.model_copy(update={"version": "1.2"}), "cannot offer TLS 1.2 alone"),
        ("wrk", HTTP, TLS.model_copy(update={"resumption": True}), "cannot resume TLS sessions"),
        ("wrk", HTTP.with_settings({"requests_per_connection": 10}), PLAIN, "cannot end connections after 10 requests"),
        ("h2load", HTTP.with_settings({"headers": ["Cookie: a"]}), PLAIN, "cannot send your headers"),
        ("wrk", HTTP.with_settings({"headers": ["Cookie: a"]}), PLAIN, "cannot send your headers"),
        ("sysbench", MYSQL.with_settings({"table": None}), PLAIN, "cannot use other tables than sbtest1"),
        ("sysbench", MYSQL.with_settings({"password": PASSWORD}), PLAIN, "cannot read a password with blanks"),
        ("sysbench", MYSQL, Transport(kind="tls"), "name a CA file with --tls-ca"),
        ("sysbench", MYSQL, TLS.model_copy(update={"version": None}), "cannot use TLS without a client certificate"),
        ("sysbench", MYSQL, Transport(kind="tls", security_level=0), "cannot accept keys"),
        ("redis-benchmark", REDIS.with_settings({"visible_login": None}), PLAIN, "cannot log in without showing"),
        ("redis-benchmark", REDIS.with_settings({"wait_replicas": 1}), PLAIN, "cannot wait for a replica"),
        ("redis-benchmark", REDIS.with_settings({"key_prefix": "c:"}), PLAIN, "cannot choose the names of its keys"),
    ],
)
def test_arm_setting_that_a_load_generator_does_not_support_is_an_error(
    name: str, service: ServiceSettings, transport: Transport, why: str
) -> None:
    with pytest.raises(UnsupportedArmError, match=why):
        client_settings(name, service, transport)


@pytest.mark.parametrize("name", client_names())
def test_load_generator_settings_show_no_secret(name: str) -> None:
    services = {"pgbench": POSTGRES, "sysbench": MYSQL, "redis-benchmark": REDIS}
    settings = client_settings(name, services.get(name, HTTP))
    shown = settings.model_dump_json() + repr(settings) + str(settings.programs)
    assert PASSWORD not in shown
    assert WITHOUT_BLANKS not in shown
    for test in client(name).tests:
        assert set(client(name).test(test).headline) <= set(client(name).figures(test))


def test_figures_that_pgbench_prints_become_metrics_of_a_study_measured_by_pgbench() -> None:
    plan = resolve(load_study("postgres-tls"), Options(profile="quick", client="pgbench"))
    assert plan.client == "pgbench"
    assert plan.study.metrics["client.tps"].headline
    assert not plan.study.metrics["client.latency_ms"].headline
    assert all(plan.size("client", arm).seconds == 2.0 for arm in plan.arms)
    assert plan.study.workloads["client"].keeps_its_length


def test_study_determines_which_test_a_load_generator_runs_and_with_how_many_connections() -> None:
    plan = resolve(load_study("mariadb-durability"), Options("quick", ["clients=1,32"], client="sysbench"))
    assert {plan.client_load(arm) for arm in plan.arms if arm.levels["clients"] == "32"} == {
        ClientLoad("oltp_insert", 32)
    }
    repeated = resolve(load_study("redis-durability"), Options("quick", client="redis-benchmark"))
    assert {name for name in repeated.study.metrics if name.startswith("client.")} == {
        f"client.set_{figure}" for figure in ("rps", "latency_ms", "p50_ms", "p95_ms", "p99_ms", "max_ms")
    }
    assert all(repeated.size("client", arm).operations > 1 for arm in repeated.arms)


@pytest.mark.parametrize("study", study_names())
def test_each_study_uses_only_tests_and_services_that_its_load_generators_support(study: str) -> None:
    for name, use in load_study(study).clients.items():
        assert resolve(load_study(study), Options("quick", client=name)).client == name
        assert client(name).test(use.test).headline


@pytest.mark.parametrize(
    ("study", "options", "error"),
    [
        ("redis-tls", {"client": "pgbench"}, ErrorText.CLIENT_FOR_OTHER_SERVICE),
        ("mysql-column-encryption", {"client": "sysbench"}, ErrorText.CLIENT_FOR_OTHER_SERVICE),
        ("postgres-tls", {"client": "pgbnch"}, ErrorText.UNKNOWN_CLIENT),
        ("postgres-tls", {"client": "pgbench", "load": RequestedLoad("5/s")}, ErrorText.CLIENT_WITHOUT_LOAD),
    ],
)
def test_load_generator_that_does_not_suit_the_study_or_its_options_is_rejected(
    study: str, options: dict[str, Any], error: object
) -> None:
    with pytest.raises(CostofError) as caught:
        resolve(load_study(study), Options(**options))
    assert caught.value.message is error


def test_error_for_an_unknown_test_of_a_load_generator_suggests_the_nearest_name() -> None:
    study = load_study("mariadb-durability")
    use = study.clients["sysbench"].model_copy(update={"test": "oltp_inserts"})
    changed = study.model_copy(update={"clients": {"sysbench": use}})
    with pytest.raises(CostofError, match=r"no test 'oltp_inserts' \(did you mean 'oltp_insert'\?\)") as caught:
        resolve(changed, Options("quick", client="sysbench"))
    assert caught.value.message is ErrorText.UNKNOWN_CLIENT_TEST


def test_missing_load_generator_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    monkeypatch.setattr("costof.lab.program.FOLDERS", ())
    with pytest.raises(CostofError) as caught:
        with_client(load_study("http-tls-termination"), client("wrk"))
    assert caught.value.message is ErrorText.PROGRAM_MISSING


def test_sentence_about_a_figure_begins_with_on_the_wire_only_if_the_engine_measured_it() -> None:
    result = result_of("postgres-tls")
    metric = next(each for each in result.metrics if each.headline)
    effect = next(each for each in result.effects if each.metric == metric.name)
    arm = next(each for each in result.arms if each.name == effect.arm)
    views = [Line(view, metric, [(arm, effect)]) for view in ("wire", "command")]
    assert [sentence(line, views).startswith("On the wire, ") for line in views] == [True, False]
