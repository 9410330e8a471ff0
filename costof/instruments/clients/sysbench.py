"""sysbench: its OLTP tests, on the table that costof has loaded.

sysbench reads the password from a configuration file, which is a pipe here. For TLS, sysbench 1.0 needs files with
fixed names in its working directory, including a client certificate that the server must be able to verify.
"""

from __future__ import annotations

from pydantic import SecretStr

from costof.datasets.sysbench import TABLE
from costof.instruments.clients import (
    Client,
    ClientLoad,
    ClientTest,
    Invocation,
    UnsupportedArmError,
    check_tls,
    host_and_port,
)
from costof.messages.plan import Endpoint, Transport
from costof.programs.mariadb.connection import MysqlSettings

VARIABLE = "SYSBENCH_PASSWORD"
#: A shell script that gives sysbench its password through a pipe, because all users of the machine can see a process's
#: arguments. `printf` is built into the shell and starts no process, so the password is in no process's arguments.
WITH_PASSWORD = f'printf "mysql-password=%s\\n" "${VARIABLE}" | exec "$0" --config-file=/dev/stdin "$@"'


def _invocation(endpoint: Endpoint, load: ClientLoad) -> Invocation:
    settings, transport = endpoint.service, endpoint.transport
    assert isinstance(settings, MysqlSettings)
    check_tls(endpoint, (None,))
    if transport.security_level is not None:
        raise UnsupportedArmError("cannot accept keys that its TLS library finds too short")
    if settings.table is None:
        raise UnsupportedArmError(f"cannot use other tables than {TABLE}, which this study does not load")
    host, port = host_and_port(settings.addresses)
    options = {
        "db-driver": "mysql",
        "mysql-host": host,
        "mysql-port": port,
        "mysql-user": settings.username or "",
        "mysql-db": settings.database,
        "mysql-ssl": "on" if transport.is_tls else "off",
        "db-ps-mode": "disable" if settings.statements == "text" else "auto",
        "tables": "1",
        "table-size": str(max(1, load.records)),
        "rand-type": "uniform",
        "percentile": "99",
    }
    password = settings.password or SecretStr("")
    if any(character.isspace() for character in password.get_secret_value()):
        raise UnsupportedArmError("cannot read a password with blanks from a configuration file")
    secrets = {VARIABLE: password}
    return Invocation([f"--{name}={value}" for name, value in options.items()], {}, secrets, _tls_files(transport))


def _tls_files(transport: Transport) -> dict[str, SecretStr]:
    if not transport.is_tls:
        return {}
    if transport.ca_file is None:
        raise UnsupportedArmError("cannot verify certificates by the system's CAs; name a CA file with --tls-ca")
    if transport.certificate_file is None:
        raise UnsupportedArmError("cannot use TLS without a client certificate; add --set client_certificate=on")
    own = transport.certificate_file.read_text()
    contents = {"cacert.pem": transport.ca_file.read_text(), "client-cert.pem": own, "client-key.pem": own}
    return {name: SecretStr(content) for name, content in contents.items()}


CLIENT = Client(
    program="sysbench",
    package="sysbench",
    services=("mariadb",),
    run=f"sh -c '{WITH_PASSWORD}' "
    + "{program} {options} --threads={connections} --events=0 --time={seconds} {test} run",
    tests={
        name: ClientTest(name, ("events_per_second",), statements={statement: 1})
        for name, statement in {
            "oltp_point_select": "read",
            "oltp_update_non_index": "write",
            "oltp_insert": "write",
        }.items()
    },
    connections=8,
    invocation=_invocation,
)
