"""Builds of costof's engine with other TLS libraries: their names and capabilities."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from costof.errors import CostofError
from costof.lab.certificates import Authority
from costof.messages.plan import Arm, TlsFiles, Transport, Workload
from costof.messages.process import engine, engine_path
from costof.programs.http import HttpSettings
from costof.programs.origin import Listener, OriginProcess
from costof.study.library import load_study
from tests.support.engines import patient_plan
from tests.support.programs import HANGS_SECONDS

pytestmark = pytest.mark.servers
ADDRESS = "127.0.0.1"
CONNECTIONS = 20
SUITE = "ECDHE-RSA-AES128-GCM-SHA256"
LIBRARIES = [level.tls_library for level in load_study("postgres-tls").factors["tls_library"].levels.values()]
#: Transport settings of an arm, and the evidence that a slice with them must have.
TLS_SETTINGS = {
    "1.3": ({"version": "1.3"}, {"protocol": "TLSv1.3"}),
    "1.2": ({"version": "1.2"}, {"protocol": "TLSv1.2"}),
    "suite": ({"cipher": SUITE}, {"cipher": SUITE, "protocol": "TLSv1.2"}),
    "prime256v1": ({"group": "prime256v1"}, {"group": "prime256v1"}),
    "x25519, 1.2": ({"group": "x25519", "version": "1.2"}, {"group": "x25519", "protocol": "TLSv1.2"}),
    "resumption": ({"resumption": True, "version": "1.3"}, {"resumed": CONNECTIONS}),
    "resumption, 1.2": ({"resumption": True, "version": "1.2"}, {"resumed": CONNECTIONS}),
}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def listeners(authority: Authority) -> Iterator[list[str]]:
    """Start an origin server with the usual engine, and yield the addresses of its three listeners.

    The first has a certificate for its address, the second a certificate for another address, the third no TLS.
    """
    own, other = (authority.issue(name, "rsa-2048", [name]) for name in (ADDRESS, "127.9.9.9"))
    listeners = [Listener(address=f"{ADDRESS}:0", tls=TlsFiles.of(each)) for each in (own, other)]
    with OriginProcess() as process:
        yield process.begin([*listeners, Listener(address=f"{ADDRESS}:0")]).listeners


def arm(name: str, address: str, **transport: object) -> Arm:
    service = HttpSettings(addresses=[address], path="/?wait=0", requests_per_connection=1)
    return Arm(name=name, service=service, transport=Transport.model_validate({"kind": "tls", **transport}))


@pytest.mark.parametrize("library", LIBRARIES)
def test_engine_built_with_each_tls_library_connects_and_reports_the_library(
    library: str, listeners: list[str], authority: Authority, tmp_path: Path
) -> None:
    try:
        engine_path(library)
    except CostofError as error:
        pytest.skip(str(error))
    trusted, strange = authority.ca_file, Authority(tmp_path).ca_file
    arms = [arm(name, listeners[0], ca_file=trusted, **options) for name, (options, _) in TLS_SETTINGS.items()]
    refused = {
        "tls_certificate_untrusted": arm("untrusted", listeners[0], ca_file=strange),
        "tls_certificate_name": arm("name", listeners[1], ca_file=trusted),
        "tls_refused": arm("plain", listeners[2], ca_file=trusted),
        "tls_configuration": arm("suite of none", listeners[0], ca_file=trusted, cipher="NO-SUCH-SUITE"),
    }
    workload = Workload(name="request", kind="request", workers=2)
    with engine(library=library) as instrument:
        ready = instrument.plan(patient_plan([*arms, *refused.values()], [workload]))
        name = ready.tls_library.lower().replace(" ", "-")
        assert name.startswith(library or "openssl-")
        errors = {arm.name: arm.error and arm.error.error_class for arm in ready.arms}
        assert errors == {**dict.fromkeys(TLS_SETTINGS), **{each.name: error for error, each in refused.items()}}
        for name, (_, expected) in TLS_SETTINGS.items():
            answer = instrument.slice(1, name, "request", CONNECTIONS, HANGS_SECONDS)
            assert answer.errors == [], name
            facts = {"resumed": 0, **expected, "verified": True, "key": "rsa-2048", "handshakes": CONNECTIONS}
            assert {key: answer.evidence[key] for key in facts} == facts, name


@pytest.mark.parametrize("library", LIBRARIES)
def test_post_quantum_group_is_negotiated_if_both_ends_support_it(
    library: str, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        monkeypatch.setenv("COSTOF_ENGINE", str(engine_path(library)))
    except CostofError as error:
        pytest.skip(str(error))
    served = Listener(address=f"{ADDRESS}:0", tls=TlsFiles.of(authority.issue("hybrid", "rsa-2048", [ADDRESS])))
    with OriginProcess() as process, engine() as instrument:
        hybrid = arm("hybrid", process.begin([served]).listeners[0], ca_file=authority.ca_file, group="X25519MLKEM768")
        ready = instrument.plan(patient_plan([hybrid], [Workload(name="request", kind="request", workers=1)]))
        if ready.tls_library.startswith(("OpenSSL 1.", *(f"OpenSSL 3.{minor}." for minor in range(5)))):
            assert ready.arms[0].error is not None
            assert ready.arms[0].error.detail == f"{ready.tls_library} has no group X25519MLKEM768"
        else:
            answer = instrument.slice(1, hybrid.name, "request", CONNECTIONS, HANGS_SECONDS)
            assert answer.evidence["group"] == "X25519MLKEM768"
