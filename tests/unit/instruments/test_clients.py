"""Load generators as clients of a study's servers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from costof.errors import CostofError, ErrorText
from costof.instruments.clients import UnsupportedArmError, client, client_names
from costof.instruments.commands.readers import reader
from costof.instruments.commands.settings import SECONDS, CommandSettings
from costof.messages.plan import PLAIN, Endpoint, ServiceSettings, Transport
from costof.programs.http import HttpSettings
from costof.programs.postgres.connection import PostgresSettings
from costof.report.sections.costs import Line, sentence
from costof.study.library import load_study
from costof.study.load import RequestedLoad
from costof.study.plan import Options, resolve, with_client
from tests.report.results import result_of

PASSWORD = "correct horse"
CA = Path("/a folder/ca.pem")
TLS = Transport(kind="tls", ca_file=CA, version="1.3")
POSTGRES = PostgresSettings(
    addresses=["[::1]:5433"], username="o'neil", password=SecretStr(PASSWORD), database="shop", statements="extended"
)
IN_A_SCHEMA = POSTGRES.with_settings({"table_schema": "costof_x"})
HTTP = HttpSettings(addresses=["127.0.0.1:8443"], host="shop.test", path="/a?b=c", requests_per_connection=1)


@pytest.fixture(autouse=True)
def programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Put stand-ins for all client programs on PATH, so that tests do not depend on what is installed."""
    for name in client_names():
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))


def client_settings(name: str, service: ServiceSettings, transport: Transport = PLAIN) -> CommandSettings:
    programs = {"w": (client(name).command, {SECONDS: 2.0})}
    return client(name).settings(Endpoint(service=service, transport=transport), programs, Path("out"))


def environment(settings: CommandSettings) -> Mapping[str, str]:
    return settings.environment | {name: secret.get_secret_value() for name, secret in settings.hidden.items()}


def test_pgbench_gets_its_connection_settings_as_environment_variables() -> None:
    settings = client_settings("pgbench", POSTGRES, TLS)
    argv = settings.programs["w"].argv
    assert " ".join(argv[1:]) == "--no-vacuum --select-only --protocol extended --client 8 --jobs 2 --time 2"
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


def test_wrk_sends_connection_close_if_the_arm_has_one_request_per_connection() -> None:
    argv = client_settings("wrk", HTTP, TLS).programs["w"].argv
    assert argv[-5:] == ["--header", "Host: shop.test", "--header", "Connection: close", "https://127.0.0.1:8443/a?b=c"]


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
        ("wrk", HTTP.with_settings({"headers": ["Cookie: a"]}), PLAIN, "cannot send your headers"),
    ],
)
def test_setting_of_an_arm_that_a_client_does_not_support_is_an_error(
    name: str, service: ServiceSettings, transport: Transport, why: str
) -> None:
    with pytest.raises(UnsupportedArmError, match=why):
        client_settings(name, service, transport)


@pytest.mark.parametrize("name", client_names())
def test_client_settings_hide_secrets_and_name_figures_that_their_output_parser_knows(name: str) -> None:
    service = {"pgbench": POSTGRES, "wrk": HTTP}[name]
    settings = client_settings(name, service)
    assert PASSWORD not in settings.model_dump_json() + repr(settings) + str(settings.programs)
    assert set(client(name).headline) <= set(reader(name).figures)


def test_study_with_a_client_has_its_workload_and_its_figures_as_metrics() -> None:
    plan = resolve(load_study("postgres-tls"), Options(profile="quick", client="pgbench"))
    assert plan.client == "pgbench"
    assert plan.study.metrics["client.tps"].headline
    assert not plan.study.metrics["client.latency_ms"].headline
    assert all(plan.size("client", arm).seconds == 2.0 for arm in plan.arms)
    assert plan.study.workloads["client"].keeps_its_length


@pytest.mark.parametrize(
    ("study", "options", "error"),
    [
        ("redis-tls", {"client": "pgbench"}, ErrorText.CLIENT_FOR_OTHER_SERVICE),
        ("postgres-tls", {"client": "pgbnch"}, ErrorText.UNKNOWN_CLIENT),
        ("postgres-tls", {"client": "pgbench", "load": RequestedLoad("5/s")}, ErrorText.CLIENT_WITHOUT_LOAD),
    ],
)
def test_client_program_that_does_not_suit_the_study_or_options_is_rejected(
    study: str, options: dict[str, Any], error: object
) -> None:
    with pytest.raises(CostofError) as caught:
        resolve(load_study(study), Options(**options))
    assert caught.value.problem is error


def test_client_whose_program_is_missing_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    monkeypatch.setattr("costof.lab.program.FOLDERS", ())
    with pytest.raises(CostofError) as caught:
        with_client(load_study("http-tls-termination"), client("wrk"))
    assert caught.value.problem is ErrorText.PROGRAM_MISSING


def test_sentence_about_a_figure_of_a_command_does_not_mention_the_wire_or_an_application() -> None:
    result = result_of("postgres-tls")
    metric = next(each for each in result.metrics if each.headline)
    effect = next(each for each in result.effects if each.metric == metric.name)
    arm = next(each for each in result.arms if each.name == effect.arm)
    views = [Line(view, metric, [(arm, effect)]) for view in ("wire", "command")]
    assert [sentence(line, views).endswith(" on the wire.") for line in views] == [True, False]
