"""`costof ab`: what is asked of the engine, and what is refused before anything is."""

from __future__ import annotations

from pathlib import Path

import pytest

from costof.cli import ab as ab_command
from costof.cli.ab import AbOptions, ask
from costof.errors import EXIT_FAILED, EXIT_USAGE, CostofError, Problem
from costof.lab.certificates import Authority
from tests.support.engines import sent

URL = "http://shop.example/?wait=200"


def planned(**changes: object) -> dict[str, object]:
    options = AbOptions(**{"url": URL, **changes})  # type: ignore[arg-type]
    plan = sent(ab_command._plan(options, ab_command._checked(options)))
    arm = plan["arms"][0]
    return {**arm["service"], "transport": arm["transport"], "workers": plan["workloads"][0]["workers"]}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"url": "shop.example"}, Problem.AB_URL),
        ({"url": "ftp://shop.example/"}, Problem.AB_URL),
        ({"url": "http://"}, Problem.AB_URL),
        ({"url": "http://shop.example:http/"}, Problem.AB_URL),
        ({"url": "http://shop.example:70000/"}, Problem.AB_URL),
        ({"url": "http://[::1/"}, Problem.AB_URL),
        ({"url": "http://shop.example/a b"}, Problem.AB_URL),
        ({"url": "http://me:secret@shop.example/"}, Problem.AB_URL),
        ({"concurrency": 2}, Problem.AB_CONCURRENCY),
        ({"requests": 9, "concurrency": 10}, Problem.AB_CONCURRENCY),
        ({"headers": ["no colon"]}, Problem.AB_HEADER),
        ({"headers": [": no name"]}, Problem.AB_HEADER),
        ({"headers": ["Good: a\r\nBad: b"]}, Problem.AB_HEADER),
    ],
)
def test_what_cannot_be_asked_is_refused_in_one_line(options: dict[str, object], problem: Problem) -> None:
    with pytest.raises(CostofError) as caught:
        ask(AbOptions(**{"url": URL, **options}))  # type: ignore[arg-type]
    assert caught.value.problem is problem
    assert caught.value.exit_status == EXIT_USAGE
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_ca_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CostofError) as caught:
        ask(AbOptions("https://shop.example/", tls_ca=tmp_path / "none.pem"))
    assert caught.value.problem is Problem.TLS_CA_INVALID
    assert caught.value.exit_status == EXIT_FAILED


def test_abs_defaults() -> None:
    assert AbOptions(URL).operations == 1
    assert AbOptions(URL, seconds=3).operations == 50_000
    assert AbOptions(URL, seconds=3, requests=70_000).operations == 70_000
    assert AbOptions(URL, requests=12).operations == 12


def test_a_request_without_k_has_a_connection_of_its_own() -> None:
    assert planned()["requests_per_connection"] == 1
    assert "requests_per_connection" not in planned(keep_alive=True)


def test_a_url_becomes_address_host_and_path() -> None:
    service = planned(requests=5, concurrency=5)
    assert (service["addresses"], service["host"], service["path"]) == (
        ["shop.example:80"],
        "shop.example",
        "/?wait=200",
    )
    assert service["workers"] == 5
    assert service["transport"] == {"kind": "plain"}
    other = planned(url="https://[::1]:8443")
    assert (other["addresses"], other["host"], other["path"]) == (["[::1]:8443"], "[::1]:8443", "/")


def test_certificates_are_verified_unless_told_not_to(tmp_path: Path) -> None:
    ca = Authority(tmp_path).ca_file
    full = planned(url="https://shop.example/", tls_ca=ca)["transport"]
    assert full == {"kind": "tls", "verify": "full", "resumption": False, "ca_file": str(ca)}
    bare = planned(url="https://shop.example/", verify=False)["transport"]
    assert bare == {"kind": "tls", "verify": "none", "resumption": False}


def test_a_host_header_of_the_users_is_the_host() -> None:
    service = planned(headers=["Accept: text/html", "host: other.example"])
    assert service["host"] == "other.example"
    assert service["headers"] == ["Accept: text/html"]
