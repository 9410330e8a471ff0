"""Tests of opening services, by the program that a study names: in a lab, or on a user's own servers."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from costof.errors import CostofError, ErrorText
from costof.lab.program import Counters, Description
from costof.messages.plan import ServiceSettings
from costof.programs.access import Access
from costof.programs.nginx import MODULE, find_stream_module
from costof.programs.server import LabServer, Place
from costof.services.http.lab import Route, route_mismatch
from costof.services.open import lacking_levels, offered_levels, open_service, shown_urls
from costof.study.library import load_study
from costof.study.plan import Options, levels_not_offered, resolve
from costof.study.schema import Study
from tests.support.small_plans import plan_of

ECHO_TLS = """
title = "What does TLS cost an echo?"
question = "What does TLS cost?"
protection = "TLS"
service = { kind = "server", program = "echo" }
control = { transport = "plain" }
[factors.transport]
label = "transport"
default = ["plain", "tls"]
levels.plain = { label = "plain", transport.kind = "plain" }
levels.tls = { label = "TLS", transport.kind = "tls", service.shout = "yes" }
[workloads.query]
label = "queries"
view = "wire"
kind = "query"
[metrics]
[profiles.default]
description = ""
budget = "10s"
precision = 0.05
rounds = [3, 9]
slices.query = { operations = 10, seconds = 1 }
"""


class EchoSettings(ServiceSettings):
    protocol: str = "echo"
    shout: bool = False


class EchoServer(LabServer):
    writes = ["nothing"]

    def __init__(self, place: Place) -> None: ...

    def start(self) -> None: ...

    def client_settings(self) -> EchoSettings:
        return EchoSettings(addresses=["echo:7"])

    def counters(self, server: str) -> Counters:
        return Counters()

    def describe(self) -> Description:
        return Description({}, "one server")


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    module = ModuleType("costof.programs.echo")
    module.lab_server = EchoServer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    (tmp_path / "echo-tls.toml").write_text(ECHO_TLS)
    return load_study(str(tmp_path / "echo-tls.toml"))


def test_lab_starts_the_program_that_the_study_names(study: Study) -> None:
    assert open_service(resolve(study, Options()), None, "run").writes() == ["nothing"]


def test_target_is_refused_for_a_program_without_support_for_targets(study: Study) -> None:
    for open_target in (
        lambda: shown_urls(study, Access("echo://h")),
        lambda: open_service(resolve(study, Options(target="echo://h")), Access("echo://h"), "run"),
    ):
        with pytest.raises(CostofError, match="echo-tls can be measured only in a lab, because it") as refused:
            open_target()
        assert refused.value.message is ErrorText.LAB_ONLY_PROGRAM


def test_unknown_or_invalid_service_setting_of_an_arm_is_refused() -> None:
    settings = EchoSettings(addresses=["echo:7"])
    assert settings.with_settings({"shout": "yes"}).shout
    for wrong in ({"shuot": "yes"}, {"shout": "loud"}):
        with pytest.raises(CostofError) as refused:
            settings.with_settings(wrong)
        assert refused.value.message is ErrorText.UNKNOWN_SERVICE_SETTING
        assert next(iter(wrong)) in str(refused.value)
        assert "loud" not in str(refused.value)


def test_error_for_a_lab_pooler_in_front_of_a_target_suggests_other_settings() -> None:
    url = "postgresql://somebody:secret@db.example/"
    with pytest.raises(CostofError, match="--set path=plain,tls") as caught:
        open_service(plan_of("postgres-pooling", target=url), Access(url), "run")
    assert caught.value.message is ErrorText.NO_ENTRANCE_TO_TARGET
    assert "transaction-both" in str(caught.value)


@pytest.mark.parametrize(
    ("study", "url", "levels", "left_out"),
    [
        ("mysql-transport", "mysql://somebody@db.example/", ["plain", "tls"], ["ssh-aes256-ctr", "ssh-aes256-cbc"]),
        ("redis-tls", "redis://db.example/", ["plain", "tls"], ["stunnel-server", "stunnel-both"]),
        ("http-tls-termination", "https://shop.example/", ["none", "balancer"], ["reencrypt", "backend", "direct"]),
        ("mongodb-tls", "mongodb://db.example/", ["plain", "tls"], []),
    ],
)
def test_factor_levels_that_a_users_server_does_not_support_are_not_planned(
    study: str, url: str, levels: list[str], left_out: list[str]
) -> None:
    access = Access(url, plain_url="http://shop.example/" if url.startswith("https") else None)
    loaded = load_study(study)
    offered = offered_levels(loaded, access)
    missing = levels_not_offered(loaded, offered)
    assert set(missing) <= set(left_out)
    assert bool(missing) == bool(left_out)
    for profile in loaded.profiles:
        plan = resolve(loaded, Options(profile=profile, target=url, offered=offered))
        assert list(dict.fromkeys(arm.levels[loaded.main_factor] for arm in plan.arms)) == levels
        open_service(plan, access, "run")
    assert offered_levels(loaded, None) is None


def test_arm_that_needs_a_setting_of_the_whole_server_is_refused_on_a_users_server() -> None:
    url = "postgresql://somebody:secret@db.example/"
    with pytest.raises(CostofError, match="give --set commit=off, or remove --target") as caught:
        open_service(plan_of("postgres-durability", "quick", "commit=off,unsafe", target=url), Access(url), "run")
    assert caught.value.message is ErrorText.LAB_ONLY_LEVEL
    with pytest.raises(CostofError) as caught:
        plan_of("postgres-durability", "quick", "commit=off,local", "commit_delay=0,100", target=url)
    assert caught.value.message is ErrorText.LAB_ONLY_FACTOR


@pytest.mark.parametrize(
    ("service", "named"), [({"kind": "server", "program": "none_such"}, "none_such"), ({"kind": "none_such"}, "kind")]
)
def test_unknown_program_or_kind_of_service_is_reported(service: dict[str, str], named: str) -> None:
    plan = plan_of("mysql-transport")
    fields = plan.model_dump() | {"study": plan.study.model_dump() | {"service": service}}
    with pytest.raises(CostofError, match=named) as refused:
        open_service(type(plan).model_validate(fields), None, "run")
    assert refused.value.message is ErrorText.NO_SERVICE


@pytest.mark.parametrize("service", [{"kind": "server"}, {"kind": "http", "program": "mariadb"}, {"kind": "../server"}])
def test_study_must_name_a_program_if_and_only_if_its_service_has_kind_server(service: dict[str, str]) -> None:
    fields = load_study("mysql-transport").model_dump() | {"service": service}
    with pytest.raises(ValueError, match=r"kind 'server' needs a program|string_pattern|should match"):
        Study.model_validate(fields)


def test_nginx_is_accepted_with_a_built_in_or_a_separate_stream_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    binary, modules = tmp_path / "nginx", tmp_path / "modules"
    monkeypatch.setattr("costof.programs.nginx.UNPACKED", tmp_path)

    def find(*arguments: str) -> Path | None:
        binary.write_text(f"#!/bin/sh\necho 'configure arguments: {' '.join(arguments)}' >&2\n")
        binary.chmod(0o755)
        return find_stream_module(binary)

    assert find("--with-stream", "--with-stream_ssl_module") is None
    assert find("--with-stream_ssl_module", "--with-stream") is None
    with pytest.raises(CostofError, match=r"the lab needs ngx_stream_module.so .*apt-get install libnginx-mod-stream"):
        find()
    modules.mkdir()
    (modules / MODULE).touch()
    arguments = (f"--modules-path={modules}", "--with-stream_ssl_module", "--with-stream=dynamic")
    assert find(*arguments) == modules / MODULE


@pytest.mark.parametrize(
    ("route", "at_balancer", "to_origin"),
    [
        (Route(False, False, False, None), "", "plain"),
        (Route(False, True, False, "rsa-2048"), "TLSv1.3 X", "plain"),
        (Route(False, True, True, "rsa-2048"), "TLSv1.3 X", "TLS"),
        (Route(False, False, True, "rsa-2048"), "", "TLS"),
        (Route(True, False, False, None), "", "plain"),
    ],
)
def test_evidence_of_tls_on_other_connections_than_the_arm_requires_is_reported_as_a_mismatch(
    route: Route, at_balancer: str, to_origin: str
) -> None:
    assert route_mismatch(route, at_balancer, to_origin) is None
    assert route_mismatch(route, "" if at_balancer else "TLSv1.3 X", to_origin) is not None
    for other in {"plain", "TLS", "nothing"} - {to_origin}:
        assert route_mismatch(route, at_balancer, other) is not None


@pytest.mark.parametrize(
    ("options", "left_out"), [("", {"majority", "w2", "majority-no-j"}), ("?replicaSet=rs0", set())]
)
def test_dry_run_believes_that_a_url_with_replica_set_has_one(options: str, left_out: set[str]) -> None:
    access = Access(f"mongodb://somebody:secret@db.example/{options}")
    assert lacking_levels(load_study("mongodb-durability"), access, connect=False).keys() == left_out
