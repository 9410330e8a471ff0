"""The URLs of a user's own balancer, and the service that measures it."""

from __future__ import annotations

import string
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from costof.cli.main import cli
from costof.errors import EXIT_FAILED, EXIT_USAGE, CostofError, ErrorText
from costof.programs.access import Access
from costof.services import Service
from costof.services.http.target import Place, parse_url
from costof.services.open import open_service
from costof.study.library import load_study
from costof.study.plan import Options, Plan, resolve
from tests.support.engines import sent

STUDY = "http-tls-termination"
HTTPS, HTTP = "https://shop.example/a?b=c", "http://shop.example:8080/a?b=c"
BOTH = Access(HTTPS, None, HTTP)


def plan_of(*settings: str) -> Plan:
    return resolve(load_study(STUDY), Options("quick", settings, target=HTTPS, plain_target=HTTP))


def opened(*settings: str, access: Access = BOTH) -> Service:
    return open_service(plan_of(*settings), access, "run")


def parsed(url: str, scheme: str = "https") -> Place:
    return parse_url(url, scheme, STUDY)


def test_protected_arms_use_the_https_url_and_the_control_uses_the_plain_url() -> None:
    plan = plan_of()
    control, protected = (sent(opened().endpoint(plan.arms[place])) for place in (0, 2))
    for end, address, host in (
        (control, "shop.example:8080", "shop.example:8080"),
        (protected, "shop.example:443", "shop.example"),
    ):
        service = end["service"]
        assert (service["addresses"], service["host"], service["path"]) == ([address], host, "/a?b=c")
        assert service["requests_per_connection"] == 1
    assert control["transport"] == {"kind": "plain"}
    assert protected["transport"] == {"kind": "tls", "verify": "full", "resumption": False}


def test_arm_on_a_users_balancer_applies_only_settings_of_the_client() -> None:
    settings = ("keep_alive=10", "suite=aes256-sha", "verify=ca-only", "resumption=on")
    arm = plan_of(*settings).arms[2]
    end = sent(opened(*settings, access=Access(HTTPS, Path("/ca.pem"), HTTP)).endpoint(arm))
    assert end["service"]["requests_per_connection"] == 10
    suite = {"cipher": "AES256-SHA", "security_level": 0}
    tls = {"kind": "tls", "verify": "ca-only", "resumption": True, "ca_file": "/ca.pem"}
    assert end["transport"] == tls | suite
    assert arm.levels["key"] == arm.levels["balancer_cpu"] == "as served"


def test_description_of_an_http_target_says_that_nothing_is_written() -> None:
    shown = [url.replace("b=c", "b=…") for url in (HTTPS, HTTP)]
    assert opened().writes() == [f"nothing: costof only sends GET requests for {shown[0]} and {shown[1]}"]


@pytest.mark.parametrize("level", ["reencrypt", "backend", "direct"])
def test_tls_termination_that_only_a_lab_can_measure_is_refused_on_a_users_balancer(level: str) -> None:
    with pytest.raises(CostofError, match=f"termination={level} can be measured only in a lab") as refused:
        opened(f"termination=none,balancer,{level}")
    assert "--set termination=none,balancer" in str(refused.value)
    assert refused.value.exit_status == EXIT_USAGE


def test_plaintext_control_on_a_target_requires_option_plain_target() -> None:
    with pytest.raises(CostofError, match="--plain-target http://") as refused:
        opened(access=Access(HTTPS))
    assert refused.value.message is ErrorText.PLAIN_TARGET_MISSING


@pytest.mark.parametrize(("study", "target"), [(STUDY, []), ("mysql-transport", ["--target", "mysql://u@h/"])])
def test_option_plain_target_is_refused_if_no_arm_uses_it(study: str, target: list[str]) -> None:
    with pytest.raises(CostofError, match="remove --plain-target"):
        cli.main(["run", study, "--plain-target", HTTP, *target], standalone_mode=False)


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
def test_http_url_is_parsed_into_address_host_and_path(url: str, address: str, host: str, path: str) -> None:
    place = parsed(url)
    assert (place.address, place.host, place.path) == (address, host, path)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        *((url, "write --target as https://host:443/path") for url in ("", "shop.example")),
        ("http://h/", "write --target as https://"),
        *((url, "has no host") for url in ("https://", "https:///path", "https://:443/", "https:user:secret@h/")),
        *((url, "[Pp]ort") for url in ("https://h:0/", "https://h:99999/", "https://h:x/")),
        *((url, "a space") for url in ("https://h h/", "https://h/a b")),
        ("https://h/\r\nX: y", "control character"),
        *((url, "IPv6|[Aa]t least 3 parts") for url in ("https://[::1/", "https://[v1.x]/", "https://[1:2]/")),
        ("https://[fe80::1%25eth0]/", "zone"),
        *((f"https://{name}/", "the host name is not valid") for name in ("a..b", "-a", f"{'a' * 64}.example")),
        *((f"https://{login}@h/", "remove the user and the password") for login in ("user:secret", "user")),
    ],
)
def test_invalid_url_is_reported_in_one_line(url: str, message: str) -> None:
    with pytest.raises(CostofError, match=message) as refused:
        parsed(url)
    assert refused.value.message is ErrorText.BAD_TARGET
    assert not [part for part in ("\n", "\r", "secret") if part in str(refused.value)]


def test_error_about_an_invalid_url_names_option_plain_target() -> None:
    with pytest.raises(CostofError, match="write --plain-target as http://host:80/path"):
        parsed("https://h/", "http")


def place_or_error(url: str) -> tuple[Place | None, str]:
    try:
        return parsed(url), ""
    except CostofError as error:
        return None, str(error)


@given(st.text() | st.text("0a?/=&#:[]%…"))
@example("?0")
def test_any_text_given_as_a_url_is_parsed_or_reported_in_one_line(text: str) -> None:
    for url in (text, f"https://{text}", f"https://h/{text}", f"https://h:{text}"):
        place, error = place_or_error(url)
        if place is None:
            assert len(error.splitlines()) == 1
            continue
        # These parts are sent in the request line and the Host header.
        for part in (place.path, place.host, place.address):
            assert part.isascii()
            assert part.isprintable()
            assert " " not in part
        assert place.path.startswith("/")
        assert 0 < place.port < 65536
        # Parsing the shown URL gives the same address, but without the values of the query.
        shown = parsed(place.url)
        assert shown.url == place.url
        assert (shown.name, shown.port, shown.address, shown.host) == (
            place.name,
            place.port,
            place.address,
            place.host,
        )
        assert shown.path.partition("?")[0] == place.path.partition("?")[0]


NAMES = st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=20)


@given(NAMES, NAMES, st.text(string.ascii_letters + "/:@#?%&", max_size=20))
def test_password_in_a_refused_url_is_not_shown(user: str, password: str, rest: str) -> None:
    secret = f"pw-{password}-{rest}-pw"
    with pytest.raises(CostofError) as refused:
        parsed(f"https://{user}:{secret}@shop.example:x/")
    assert secret not in str(refused.value)


def test_host_that_does_not_resolve_is_reported_in_one_line() -> None:
    access = Access("https://127.0.0.1/", None, "http://shop.invalid/")
    message = r"cannot reach http://shop.invalid/: its name does not resolve"
    with pytest.raises(CostofError, match=message) as refused, opened(access=access):
        pass
    assert refused.value.exit_status == EXIT_FAILED
