"""redis-benchmark: GETs or SETs of random strings.

redis-benchmark verifies a server's certificate against a CA file, but not the server's name. It stops after a number of
requests, so costof runs it several times in each slice (measured window).
"""

from __future__ import annotations

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
from costof.programs.redis.connection import RedisSettings

#: The number of requests on each connection. They take only about a second, even if the server flushes its log to disk
#: before each answer.
REQUESTS = 1_000


def _invocation(endpoint: Endpoint, load: ClientLoad) -> Invocation:
    settings, transport = endpoint.service, endpoint.transport
    assert isinstance(settings, RedisSettings)
    check_tls(endpoint, (None, "1.3"))
    if settings.key_prefix is not None:
        raise UnsupportedArmError("cannot choose the names of its keys, which might be your data's")
    if settings.wait_replicas is not None:
        raise UnsupportedArmError("cannot wait for a replica after each SET")
    host, port = host_and_port(settings.addresses_for(transport))
    login = []
    if settings.visible_login is not None:
        user, password = settings.visible_login
        login = ["--user", user, "-a", password]
    elif settings.password is not None:
        raise UnsupportedArmError("cannot log in without showing the password in the process list")
    options = {
        "-h": host,
        "-p": port,
        "-c": str(load.connections),
        "-n": str(load.requests(REQUESTS)),
        "-r": str(max(1, load.records)),
        "-d": str(settings.value_bytes or 100),
    }
    words = [word for pair in options.items() for word in pair]
    return Invocation([*words, *login, *(["-3"] if settings.resp == 3 else []), *_tls(transport)])


def _tls(transport: Transport) -> list[str]:
    if not transport.is_tls:
        return []
    words = ["--tls"]
    if transport.verify == "none":
        words.append("--insecure")
    elif transport.ca_file is not None:
        words += ["--cacert", str(transport.ca_file)]
    if transport.certificate_file is not None:
        words += ["--cert", str(transport.certificate_file), "--key", str(transport.certificate_file)]
    return words


CLIENT = Client(
    program="redis-benchmark",
    package="redis-tools",
    services=("redis",),
    run="{program} --csv {test} {options}",
    tests={name: ClientTest(f"-t {name}", (f"{name}_rps",), prefix=f"{name}_") for name in ("get", "set")},
    connections=50,
    invocation=_invocation,
)
