"""`costof ab`: what is asked of the engine, and what is refused before anything is."""

from __future__ import annotations

from pathlib import Path

import pytest

from costof.cli import ab as ab_command
from costof.cli.ab import AbOptions, ask
from costof.errors import EXIT_FAILED, EXIT_USAGE, CostofError, Problem
from costof.lab.certificates import Authority
from tests.support.command import costof
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
        ({"cookies": ["a=secret\r\nBad: b"]}, Problem.AB_HEADER),
        ({"url": "http://-shop.example/"}, Problem.AB_URL),
        ({"url": f"http://{'ä' * 64}.example/"}, Problem.AB_URL),
    ],
)
def test_what_cannot_be_asked_is_refused_in_one_line(options: dict[str, object], problem: object) -> None:
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


def test_a_url_in_other_letters_is_asked_in_ascii_as_browsers_ask_it() -> None:
    service = planned(url="http://bücher.example/größe/a%20b?q=ö&r=%2F#part")
    assert (service["addresses"], service["host"]) == (["xn--bcher-kva.example:80"], "xn--bcher-kva.example")
    assert service["path"] == "/gr%C3%B6%C3%9Fe/a%20b?q=%C3%B6&r=%2F"


def test_a_login_and_cookies_are_headers_that_no_message_shows() -> None:
    options = {"login": "me:S3cret", "cookies": ["a=S3cret", "b=2"], "headers": ["Accept: */*"]}
    assert planned(**options)["headers"] == [
        "Accept: */*",
        "Authorization: Basic bWU6UzNjcmV0",
        "Cookie: a=S3cret; b=2",
    ]
    assert "S3cret" not in repr(AbOptions(URL, **options))  # type: ignore[arg-type]
    plan = ab_command._plan(AbOptions(URL, **options), ab_command._checked(AbOptions(URL)))  # type: ignore[arg-type]
    assert not [each for each in ("S3cret", "bWU6") if each in repr(plan) + plan.model_dump_json()]


def test_a_request_times_out_when_abs_would() -> None:
    def timeout_ms(**options: int) -> int:
        made = AbOptions(URL, **options)
        return ab_command._plan(made, ab_command._checked(made)).operation_timeout_ms

    assert timeout_ms() == 30_000
    assert timeout_ms(timeout_seconds=3) == 3_000


def test_a_body_is_refused_with_what_sends_one(tmp_path: Path) -> None:
    told = costof("ab", "-p", "body", "-T", "application/json", "-n", "10", URL, cwd=tmp_path)
    assert (told.status, len(told.told)) == (EXIT_USAGE, 1)
    assert "costof versus --read ab 'ab -p FILE" in told.err


def test_a_host_header_of_the_users_is_the_host() -> None:
    service = planned(headers=["Accept: text/html", "host: other.example"])
    assert service["host"] == "other.example"
    assert service["headers"] == ["Accept: text/html"]
