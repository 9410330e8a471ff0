"""What the balancers of the HTTP lab are started with: read as text, started nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from costof.errors import CostofError
from costof.lab.host import Host
from costof.lab.lab import Lab
from costof.programs.balancer import Balancer, Entrance
from costof.programs.haproxy import Haproxy
from costof.programs.nginx import MODULE, Nginx, find_stream_module
from costof.services.http.lab import Route, contradiction

PEM, CA = Path("/lab/server.pem"), Path("/lab/ca.pem")
ENTRANCES = [
    Entrance("none", 8000, "10.0.0.9:9000"),
    Entrance("balancer-rsa-2048", 8001, "10.0.0.9:9001", PEM),
    Entrance("reencrypt-rsa-2048", 8002, "10.0.0.9:9002", PEM, reencrypts=True),
    Entrance("backend-rsa-2048", 8003, "10.0.0.9:9003", passes_through=True),
]


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    lab = Lab()
    lab.folder = tmp_path
    return lab


def configuration(lab: Lab, kind: type[Balancer]) -> str:
    return kind(lab, Host("balancer", None, "127.0.0.9"), "127.0.0.9", ENTRANCES, CA).configuration()


def test_haproxy_ends_tls_where_an_entrance_says(lab: Lab) -> None:
    sections = configuration(lab, Haproxy).split("\nfrontend ")[1:]
    assert len(sections) == len(ENTRANCES)
    for entrance, section in zip(ENTRANCES, sections, strict=True):
        assert section.startswith(f"{entrance.name}\n")
        assert f"bind 127.0.0.9:{entrance.port}" in section
        assert f"server origin {entrance.onward}" in section
        assert (f"ssl crt {PEM}" in section) == (entrance.certificate is not None)
        assert (f"ssl verify required ca-file {CA} sni str(origin)" in section) == entrance.reencrypts
        assert section.count("mode tcp") == (2 if entrance.passes_through else 0)


def test_nginx_ends_tls_where_an_entrance_says(lab: Lab) -> None:
    http, _, stream = configuration(lab, Nginx).partition("\nstream {")
    for entrance in ENTRANCES:
        assert (f"listen 127.0.0.9:{entrance.port} " in stream) == entrance.passes_through
        assert (f"listen 127.0.0.9:{entrance.port} " in http) != entrance.passes_through
        assert (f"proxy_pass https://to-{entrance.name};" in http) == entrance.reencrypts
    assert http.count(f"ssl_certificate {PEM};") == http.count(" ssl;") == 2
    assert "proxy_ssl_verify on;" in http
    assert "proxy_pass 10.0.0.9:9003;" in stream


def test_nginx_finds_how_it_passes_connections_through(tmp_path: Path) -> None:
    binary, modules = tmp_path / "nginx", tmp_path / "modules"

    def built(*arguments: str) -> None:
        binary.write_text(f"#!/bin/sh\necho 'configure arguments: {' '.join(arguments)}' >&2\n")
        binary.chmod(0o755)

    built("--with-stream", "--with-stream_ssl_module")
    assert find_stream_module(binary) is None
    built("--with-stream_ssl_module", "--with-stream")
    assert find_stream_module(binary) is None
    modules.mkdir()
    (modules / MODULE).touch()
    built(f"--modules-path={modules}", "--with-stream_ssl_module", "--with-stream=dynamic")
    assert find_stream_module(binary) == modules / MODULE


def test_a_missing_module_is_named_with_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    binary = tmp_path / "nginx"
    binary.write_text("#!/bin/sh\n")
    binary.chmod(0o755)
    monkeypatch.setattr("costof.programs.nginx.UNPACKED", tmp_path)
    with pytest.raises(CostofError, match=r"no ngx_stream_module.so .*apt-get install libnginx-mod-stream"):
        find_stream_module(binary)


@pytest.mark.parametrize(
    ("route", "at_balancer", "onward"),
    [
        (Route(False, False, False, None), "", "plain"),
        (Route(False, True, False, "rsa-2048"), "TLSv1.3 X", "plain"),
        (Route(False, True, True, "rsa-2048"), "TLSv1.3 X", "TLS"),
        (Route(False, False, True, "rsa-2048"), "", "TLS"),
        (Route(True, False, False, None), "", "plain"),
    ],
)
def test_an_arm_is_contradicted_by_whatever_is_not_as_it_says(route: Route, at_balancer: str, onward: str) -> None:
    assert contradiction(route, at_balancer, onward) is None
    assert contradiction(route, "" if at_balancer else "TLSv1.3 X", onward) is not None
    for other in {"plain", "TLS", "nothing"} - {onward}:
        assert contradiction(route, at_balancer, other) is not None
