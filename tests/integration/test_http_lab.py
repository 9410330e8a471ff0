"""The HTTP lab: where TLS ends, the servers' keys, the counters of balancer and origin, and failures."""

from __future__ import annotations

import contextlib
import http.client
import resource
import socket
import ssl
from collections.abc import Iterator

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from costof.lab.certificates import Authority
from costof.lab.host import Host
from costof.lab.lab import Lab, is_root
from costof.lab.program import Counters
from costof.messages.plan import TlsFiles
from costof.programs.balancer import ORIGIN_NAME, Balancer, Entrance
from costof.programs.haproxy import Haproxy
from costof.programs.http import HostConnection
from costof.programs.nginx import Nginx
from costof.programs.origin import Listener, OriginProcess
from costof.services.http.lab import HttpLab, Route, _context
from costof.study.arms import PlannedArm
from costof.study.plan import Plan
from tests.support.programs import HANGS_SECONDS, get
from tests.support.small_plans import plan_of

pytestmark = pytest.mark.servers

BOTH = "balancer=haproxy,nginx"
EVERYWHERE = "termination=none,balancer,reencrypt,backend,direct"
IDLE_CONNECTIONS = 10_000


@pytest.fixture(scope="module")
def plan() -> Plan:
    keys, suites = "key=rsa-2048,ecdsa-p256", "suite=tls1.3,dhe-rsa-aes256-sha,rc4-sha"
    return plan_of("http-tls-termination", "quick", EVERYWHERE, BOTH, keys, suites, "balancer_cpu=0.25,1")


@pytest.fixture(scope="module")
def arms(plan: Plan) -> list[PlannedArm]:
    return plan.arms


@pytest.fixture(scope="module")
def lab(plan: Plan) -> Iterator[HttpLab]:
    with HttpLab(plan) as lab:
        yield lab


@contextlib.contextmanager
def connected(lab: HttpLab, arm: PlannedArm, session: ssl.SSLSession | None = None) -> Iterator[HostConnection]:
    """Yield a connection from the client's host with the arm's address and TLS settings."""
    address = lab._entry(arm)
    context = _context(lab.endpoint(arm).transport)
    with contextlib.closing(HostConnection(lab._chain.client, address, context)) as connection:
        connection.connect()
        yield connection


def ask(connection: http.client.HTTPConnection, last: bool = True) -> str:
    connection.request("GET", "/", headers={"Connection": "close"} if last else {})
    return connection.getresponse().read().decode()


def counted(lab: HttpLab, arm: PlannedArm) -> Counters:
    (address,) = lab.endpoint(arm).service.addresses
    return lab.counters(address)


def read_certificate(connection: HostConnection) -> x509.Certificate:
    assert isinstance(connection.sock, ssl.SSLSocket)
    shown = connection.sock.getpeercert(binary_form=True)
    assert shown is not None
    return x509.load_der_x509_certificate(shown)


def test_every_arm_has_evidence_of_which_connections_use_tls(lab: HttpLab, arms: list[PlannedArm]) -> None:
    for arm in arms:
        if arm.levels.get("suite") == "rc4-sha":
            continue
        lab.arrange(arm)
        facts = lab.collect_evidence(arm, "start")
        assert lab.failure_reason(arm) is None
        termination = arm.levels["termination"]
        assert facts["to the origin"] == ("TLS" if termination in ("reencrypt", "backend") else "plain")
        at_balancer = facts.get("TLS at the balancer")
        if termination in ("balancer", "reencrypt"):
            suite = {"dhe-rsa-aes256-sha": "TLSv1.2 DHE-RSA-AES256-SHA"}
            assert at_balancer == suite.get(arm.levels["suite"], "TLSv1.3 TLS_AES_256_GCM_SHA384")
        else:
            assert at_balancer == (None if termination == "direct" else "none")


def test_program_that_terminates_tls_has_a_certificate_with_the_key_type_of_the_arm(
    lab: HttpLab, arms: list[PlannedArm]
) -> None:
    combinations = set()
    for arm in arms:
        if "key" in arm.levels and arm.levels["suite"] == "tls1.3":
            with connected(lab, arm) as connection:
                shown = read_certificate(connection)
            (owner,) = shown.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
            ends_at = "origin" if arm.levels["termination"] == "backend" else "balancer"
            assert owner.value == f"{ends_at}-of-{Route.from_arm(arm).name}"
            assert isinstance(shown.public_key(), rsa.RSAPublicKey) == arm.levels["key"].startswith("rsa")
            combinations.add((arm.levels["balancer"], arm.levels["termination"], arm.levels["key"]))
    assert len(combinations) == 2 * 3 * 2


def test_arms_fail_only_if_openssl_lacks_their_cipher_suite(lab: HttpLab, arms: list[PlannedArm]) -> None:
    old = [arm for arm in arms if arm.levels.get("suite") == "rc4-sha"]
    assert old
    for arm in old:
        assert lab.collect_evidence(arm, "start") == {}
        assert "could not be verified" in (lab.failure_reason(arm) or "")
    assert lab.failure_reason() is None


def test_balancer_connections_are_counted_exactly_and_separately_for_each_route(
    lab: HttpLab, arms: list[PlannedArm]
) -> None:
    routes = {
        Route.from_arm(arm): arm
        for arm in reversed(arms)
        if arm.levels["balancer"] == "haproxy" and "rc4" not in arm.name
    }
    for route, arm in routes.items():
        before = {other: counted(lab, each) for other, each in routes.items()}
        for _ in range(7):
            with connected(lab, arm) as connection:
                assert ask(connection) == "OK"
        increases = {other: counted(lab, each).since(before[other]) for other, each in routes.items()}
        assert {other: each.connections for other, each in increases.items()} == {
            other: 7 * (other == route) for other in routes
        }
        assert sum((increases[route].tls_connections or {}).values()) == (0 if route.key is None else 7)


def test_nginx_counters_exclude_connections_for_monitoring(lab: HttpLab, arms: list[PlannedArm]) -> None:
    arm = next(arm for arm in arms if arm.levels["balancer"] == "nginx" and arm.levels["termination"] == "balancer")
    before = counted(lab, arm)
    counted(lab, arm)
    with connected(lab, arm) as connection:
        assert ask(connection) == "OK"
    assert counted(lab, arm).since(before) == Counters(1, None)


@pytest.mark.parametrize(("balancer", "termination"), [("haproxy", "reencrypt"), ("nginx", "none")])
def test_balancer_keeps_its_connections_to_the_origin_open(
    lab: HttpLab, arms: list[PlannedArm], balancer: str, termination: str
) -> None:
    arm = next(
        arm
        for arm in arms
        if (arm.levels["balancer"], arm.levels["termination"]) == (balancer, termination) and "rc4" not in arm.name
    )
    with connected(lab, arm) as first:
        assert ask(first) == "OK"
    before = lab._origin_counters(Route.from_arm(arm))
    for _ in range(20):
        with connected(lab, arm) as connection:
            # The last request closes the client's connection to the balancer, but not the balancer's to the origin.
            assert [ask(connection, last=number == 9) for number in range(10)] == ["OK"] * 10
    after = lab._origin_counters(Route.from_arm(arm))
    assert before is not None
    assert after is not None
    assert after.requests - before.requests == 200
    assert after.connections - before.connections <= 1


@pytest.mark.parametrize("balancer", ["haproxy", "nginx"])
def test_resumed_tls_sessions_are_counted_separately_from_full_handshakes(
    lab: HttpLab, arms: list[PlannedArm], balancer: str
) -> None:
    arm = next(
        arm for arm in arms if arm.levels["balancer"] == balancer and arm.levels.get("suite") == "dhe-rsa-aes256-sha"
    )
    context = _context(lab.endpoint(arm).transport)
    assert context is not None
    before = counted(lab, arm)
    address, _, port = lab._entry(arm).rpartition(":")
    session = None
    for resumed in (False, True):
        plain = lab._chain.client.socket()
        plain.settimeout(HANGS_SECONDS)
        plain.connect((address, int(port)))
        with context.wrap_socket(plain, server_hostname=address, session=session) as secure:
            assert secure.session_reused == resumed
            session = secure.session
            # The response to a request shows that the server has finished and counted the handshake.
            secure.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert secure.recv(4096).startswith(b"HTTP/1.1 200 ")
    increase = counted(lab, arm).since(before)
    assert increase.connections == 2
    assert increase.tls_connections in ({"TLS": 2}, None)


@pytest.mark.parametrize("kind", [Haproxy, Nginx])
def test_balancer_sends_nothing_to_an_unverified_origin(kind: type[Balancer]) -> None:
    with Lab() as lab, OriginProcess() as origin:
        ours, theirs = (Authority(lab.folder / name) for name in ("ours", "theirs"))
        certificates = [
            ours.issue("good", "ecdsa-p256", [lab.address(2), ORIGIN_NAME]),
            ours.issue("misnamed", "ecdsa-p256", [lab.address(2), "another"]),
            theirs.issue("untrusted", "ecdsa-p256", [lab.address(2), ORIGIN_NAME]),
        ]
        listeners = [
            Listener(address=f"{lab.address(2)}:{9000 + number}", tls=TlsFiles.of(certificate))
            for number, certificate in enumerate(certificates)
        ]
        origin.begin(listeners)
        entrances = [Entrance(f"e{n}", 8000 + n, each.address, reencrypts=True) for n, each in enumerate(listeners)]
        balancer = kind(lab, Host(kind.name, None, lab.address(1)), lab.address(1), entrances, ours.ca_file)
        balancer.start()
        assert get(f"http://{lab.address(1)}:8000/") == "OK"
        for entrance in entrances[1:]:
            with pytest.raises(OSError, match=r"50[23]"):
                get(f"http://{lab.address(1)}:{entrance.port}/")
        assert [each.requests for each in origin.counters().listeners.values()] == [1, 0, 0]


@pytest.mark.skipif(not is_root(), reason="a CPU share is a cgroup")
def test_balancer_is_limited_to_the_number_of_cores_that_the_arm_sets(lab: HttpLab, arms: list[PlannedArm]) -> None:
    for arm in arms:
        share = lab._chain.middle[arm.levels["balancer"]].cpu_share
        assert share is not None
        lab.arrange(arm)
        assert share.cores == float(arm.levels["balancer_cpu"])
    assert lab.throttled_seconds().keys() == {"balancer"}


@pytest.mark.slow
@pytest.mark.parametrize("balancer", ["haproxy", "nginx"])
def test_balancer_holds_ten_thousand_connections(lab: HttpLab, arms: list[PlannedArm], balancer: str) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < IDLE_CONNECTIONS + 500:
        pytest.skip("this process may not have so many files open")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    arm = next(arm for arm in arms if arm.levels["balancer"] == balancer and arm.control)
    lab.arrange(next(arm for arm in arms if arm.levels["balancer"] == balancer and arm.levels["balancer_cpu"] == "1"))
    address, _, port = lab._entry(arm).rpartition(":")
    try:
        with contextlib.ExitStack() as stack:
            open_connections: list[socket.socket] = []
            for each in sockets_of(lab._chain.client, IDLE_CONNECTIONS):
                stack.enter_context(each)
                each.settimeout(HANGS_SECONDS)
                each.connect((address, int(port)))
                each.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                open_connections.append(each)
            for each in open_connections:
                assert each.recv(4096).startswith(b"HTTP/1.1 200 ")
            for each in (open_connections[0], open_connections[-1]):
                each.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                assert each.recv(4096).startswith(b"HTTP/1.1 200 ")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def sockets_of(host: Host, count: int) -> Iterator[socket.socket]:
    for _ in range(count):
        yield host.socket()
