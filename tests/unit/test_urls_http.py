"""URLs of a user's own balancer: what is one, what is not, and what is said of it."""

from __future__ import annotations

import string
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from costof.cli.main import cli
from costof.errors import EXIT_FAILED, EXIT_USAGE, CostofError, Problem
from costof.programs.access import Access
from costof.services.http.target import Place, parse_url
from costof.services.open import open_service
from costof.study.library import load_study
from costof.study.plan import Options, Plan, resolve
from tests.support.engines import sent

HTTPS, HTTP = "https://shop.example/a?b=c", "http://shop.example:8080/a?b=c"


def plan_of(*settings: str) -> Plan:
    return resolve(load_study("http-tls-termination"), Options("quick", settings, target=HTTPS, plain_target=HTTP))


def parsed(url: str, scheme: str = "https") -> Place:
    return parse_url(url, scheme, "http-tls-termination")


def test_each_arm_goes_to_the_url_that_speaks_as_it_does() -> None:
    plan = plan_of()
    target = open_service(plan, Access(HTTPS, None, HTTP), "run")
    control, protected = (sent(target.endpoint(plan.arms[place])) for place in (0, 2))
    assert control["service"]["addresses"] == ["shop.example:8080"]
    assert control["service"]["host"] == "shop.example:8080"
    assert control["transport"] == {"kind": "plain"}
    assert protected["service"]["addresses"] == ["shop.example:443"]
    assert protected["service"]["host"] == "shop.example"
    assert protected["transport"] == {"kind": "tls", "verify": "full", "resumption": False}
    for end in (control, protected):
        assert end["service"]["path"] == "/a?b=c"
        assert end["service"]["requests_per_connection"] == 1


def test_levels_of_the_client_are_its_own_and_those_of_the_servers_as_served() -> None:
    plan = plan_of("keep_alive=10", "suite=aes256-sha", "verify=ca-only", "resumption=on")
    end = sent(open_service(plan, Access(HTTPS, Path("/ca.pem"), HTTP), "run").endpoint(plan.arms[2]))
    assert end["service"]["requests_per_connection"] == 10
    assert end["transport"] == {
        "kind": "tls",
        "verify": "ca-only",
        "resumption": True,
        "ca_file": "/ca.pem",
        "cipher": "AES256-SHA",
        "security_level": 0,
    }
    assert plan.arms[2].levels["key"] == plan.arms[2].levels["balancer_cpu"] == "as served"


def test_it_says_that_nothing_is_written() -> None:
    (told,) = open_service(plan_of(), Access(HTTPS, None, HTTP), "run").writes()
    shown = [url.replace("b=c", "b=…") for url in (HTTPS, HTTP)]
    assert told == f"nothing: only GET requests are made, of {shown[0]} and {shown[1]}"


@pytest.mark.parametrize("level", ["reencrypt", "backend", "direct"])
def test_what_a_client_cannot_know_is_refused_by_name(level: str) -> None:
    with pytest.raises(CostofError, match=f"termination {level} can be had in a lab only") as refused:
        open_service(plan_of(f"termination=none,balancer,{level}"), Access(HTTPS, None, HTTP), "run")
    assert "--set termination=none,balancer" in str(refused.value)
    assert refused.value.exit_status == EXIT_USAGE


def test_the_control_needs_a_url_of_its_own() -> None:
    with pytest.raises(CostofError, match="--plain-target http://") as refused:
        open_service(plan_of(), Access(HTTPS), "run")
    assert refused.value.problem is Problem.PLAIN_TARGET_MISSING


@pytest.mark.parametrize(("study", "target"), [("http-tls-termination", []), ("mysql-transport", ["mysql://u@h/"])])
def test_a_plain_target_that_nobody_asks_is_refused(study: str, target: list[str]) -> None:
    arguments = ["run", study, "--plain-target", HTTP, *(["--target", *target] if target else [])]
    with pytest.raises(CostofError, match="leave it out"):
        cli.main(arguments, standalone_mode=False)


@pytest.mark.parametrize(
    ("url", "address", "host", "path"),
    [
        ("https://h", "h:443", "h", "/"),
        ("HTTPS://H.Example:443/", "h.example:443", "h.example", "/"),
        ("https://h:8443?x=1", "h:8443", "h:8443", "/?x=1"),
        ("https://[::1]:8443/a", "[::1]:8443", "[::1]:8443", "/a"),
        ("https://bücher.example/ä?q=ö", "xn--bcher-kva.example:443", "xn--bcher-kva.example", "/%C3%A4?q=%C3%B6"),
        ("https://h/a%20b?c=%2F#part", "h:443", "h", "/a%20b?c=%2F"),
        ("https://h/@user", "h:443", "h", "/@user"),
        ("https://my_service:1/", "my_service:1", "my_service:1", "/"),
    ],
)
def test_urls(url: str, address: str, host: str, path: str) -> None:
    place = parsed(url)
    assert (place.address, place.host, place.path) == (address, host, path)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("", "written as https://host:443/path"),
        ("shop.example", "written as https://host:443/path"),
        ("http://h/", "--target is written as https://"),
        ("https://", "names no host"),
        ("https:///path", "names no host"),
        ("https://:443/", "names no host"),
        ("https://h:0/", "port 0"),
        ("https://h:99999/", "[Pp]ort"),
        ("https://h:x/", "[Pp]ort"),
        ("https://h h/", "a space"),
        ("https://h/a b", "a space"),
        ("https://h/\r\nX: y", "control character"),
        ("https://[::1/", "IPv6"),
        ("https://[v1.x]/", "no IPv6 address"),
        ("https://[1:2]/", "[Aa]t least 3 parts|IPv6"),
        ("https://[fe80::1%25eth0]/", "zone"),
        ("https:user:secret@h/", "names no host"),
        ("https://a..b/", "cannot be the name of a host"),
        ("https://-a/", "cannot be the name of a host"),
        (f"https://{'a' * 64}.example/", "cannot be the name of a host"),
        ("https://user:secret@h/", "leave the user and password out"),
        ("https://user@h/", "leave the user and password out"),
    ],
)
def test_what_is_no_url_is_told_in_one_line(url: str, told: str) -> None:
    with pytest.raises(CostofError, match=told) as refused:
        parsed(url)
    assert refused.value.problem is Problem.BAD_TARGET
    assert "\n" not in str(refused.value)
    assert "\r" not in str(refused.value)
    assert "secret" not in str(refused.value)


def test_the_plain_url_is_called_by_its_own_option() -> None:
    with pytest.raises(CostofError, match="--plain-target is written as http://host:80/path"):
        parsed("https://h/", "http")


def place_or_problem(url: str) -> tuple[Place | None, str]:
    try:
        return parsed(url), ""
    except CostofError as error:
        return None, str(error)


@given(st.text() | st.text("0a?/=&#:[]%…"))
@example("?0")
def test_any_text_is_a_place_or_one_line(text: str) -> None:
    for url in (text, f"https://{text}", f"https://h/{text}", f"https://h:{text}"):
        place, told = place_or_problem(url)
        if place is None:
            assert len(told.splitlines()) == 1
            continue
        # What goes into the request's first line and its Host header.
        for part in (place.path, place.host, place.address):
            assert part.isascii()
            assert part.isprintable()
            assert " " not in part
        assert place.path.startswith("/")
        assert 0 < place.port < 65536
        # It shows no value of a query, and else the same place.
        seen = parsed(place.url)
        assert seen.url == place.url
        assert (seen.name, seen.port, seen.address, seen.host) == (place.name, place.port, place.address, place.host)
        assert seen.path.partition("?")[0] == place.path.partition("?")[0]


NAMES = st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=20)


@given(NAMES, NAMES, st.text(string.ascii_letters + "/:@#?%&", max_size=20))
def test_no_password_of_a_refused_url_is_shown(user: str, password: str, rest: str) -> None:
    secret = f"pw-{password}-{rest}-pw"
    with pytest.raises(CostofError) as refused:
        parsed(f"https://{user}:{secret}@shop.example:x/")
    assert secret not in str(refused.value)


def test_a_host_that_does_not_resolve_is_told_in_one_line() -> None:
    with (
        pytest.raises(CostofError, match=r"cannot reach http://shop.invalid/: its name does not resolve") as refused,
        open_service(plan_of(), Access("https://127.0.0.1/", None, "http://shop.invalid/"), "run"),
    ):
        pass
    assert refused.value.exit_status == EXIT_FAILED


def test_a_ca_file_that_is_none_is_told(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("no certificate")
    with (
        pytest.raises(CostofError, match="holds no certificate"),
        open_service(plan_of(), Access("https://127.0.0.1/", file, "http://127.0.0.1/"), "run"),
    ):
        pass
