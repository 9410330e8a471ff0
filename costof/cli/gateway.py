"""`costof gateway`: run the gateway, a proxy that filters statements and encrypts columns, in front of a MySQL server.

The gateway is a part of the separate program `costof-engine`, which runs as a child process of this command.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import click

from costof.errors import CostofError, ErrorText
from costof.messages.plan import PLAIN, TlsFiles, Transport
from costof.programs.gateway import GatewayLearning, GatewayListener, GatewayProcess

#: The beginnings of those error messages of the gateway whose cause the user can fix.
USER_FIXABLE = ("plan: ", "tls_configuration: ")
#: Seconds between checks whether the gateway's process still runs.
CHECK_SECONDS = 1.0
END_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True)
class GatewayOptions:
    """The options of the command line.

    `server_ca`: the CA file with which the gateway verifies the server's certificate and host name. `limits`: limits of
    the gateway by name, such as a number of sessions. The gateway checks their values.
    """

    rules: Path
    server: str
    listen: str = "127.0.0.1:3307"
    tls_cert: Path | None = None
    tls_key: Path | None = None
    server_ca: Path | None = None
    limits: Mapping[str, int] = field(default_factory=dict)
    learn: Path | None = None
    learn_accounts: Sequence[str] = ()

    def listener(self, listen: str) -> GatewayListener:
        """Return the gateway's settings for a listener at the address `listen` ('host:port').

        Raises `GATEWAY_ADDRESS` for a malformed address, and `GATEWAY_LEARN` if only one of `learn` and
        `learn_accounts` is set.
        """
        if (self.learn is None) == bool(self.learn_accounts):
            raise CostofError(ErrorText.GATEWAY_LEARN)
        host, colon, port = listen.rpartition(":")
        if not colon or not host or not port.isdigit():
            raise CostofError(ErrorText.GATEWAY_ADDRESS, text=listen)
        tls = None
        if self.tls_cert is not None:
            tls = TlsFiles.of(self.tls_cert.absolute(), self.tls_key and self.tls_key.absolute())
        return GatewayListener(
            address=listen,
            rules_file=self.rules.absolute(),
            server=self.server,
            tls=tls,
            server_transport=Transport(kind="tls", ca_file=self.server_ca.absolute()) if self.server_ca else PLAIN,
            limits=dict(self.limits),
            learn=GatewayLearning(file=self.learn.absolute(), accounts=list(self.learn_accounts))
            if self.learn
            else None,
        )


def serve(options: GatewayOptions, print_line: Callable[[str], None], warn: Callable[[str], None]) -> None:
    """Run the gateway until SIGINT or SIGTERM. On SIGHUP, reload its rules, such as the approved statements.

    Raises `GATEWAY_ADDRESS` and `GATEWAY_REFUSED`, and `INSTRUMENT_FAILED` if the gateway's process dies.
    """
    with GatewayProcess() as process:
        # Install handlers instead of calling sigwait(): sigwait() works only if all threads block these signals, and
        # the threads of libraries do not block them.
        signals: SimpleQueue[int] = SimpleQueue()
        for number in (signal.SIGHUP, *END_SIGNALS):
            signal.signal(number, lambda number, frame: signals.put(number))
        addresses, warnings = _begin(process, options.listener(options.listen))
        for warning in warnings:
            warn(warning)
        print_line(f"gateway ready on {addresses[0]} in front of {options.server}")
        while True:
            try:
                if signals.get(timeout=CHECK_SECONDS) != signal.SIGHUP:
                    return
                for address, reason in process.reload().items():
                    result = "new rules loaded" if reason is None else f"the previous rules stay in force: {reason}"
                    warn(f"{address}: {result}")
            except Empty:
                if process.ended() is not None:
                    process.counters()


def _begin(process: GatewayProcess, listener: GatewayListener) -> tuple[list[str], list[str]]:
    try:
        ready = process.begin([listener])
    except CostofError as error:
        _, _, detail = str(error).partition(" stopped: ")
        mistake = next((start for start in USER_FIXABLE if detail.startswith(start)), None)
        if mistake is None:
            raise
        raise CostofError(ErrorText.GATEWAY_REFUSED, detail=detail.removeprefix(mistake)) from None
    return ready.listeners, ready.warnings


@click.command()
@click.option(
    "--rules",
    required=True,
    type=click.Path(path_type=Path),
    help="TOML file with the accounts, columns and statements to protect.",
)
@click.option("--server", required=True, metavar="HOST:PORT", help="MySQL or MariaDB server behind the gateway.")
@click.option(
    "--listen", default="127.0.0.1:3307", show_default=True, metavar="ADDRESS:PORT", help="Address for clients."
)
@click.option(
    "--tls-cert", type=click.Path(path_type=Path), help="Certificate (PEM) for TLS with clients. Default: no TLS."
)
@click.option("--tls-key", type=click.Path(path_type=Path), help="Key (PEM) of --tls-cert, if it is in another file.")
@click.option(
    "--server-ca", type=click.Path(path_type=Path), help="Use TLS to the server, verified with this CA file (PEM)."
)
@click.option(
    "--limit", "limits", type=(str, click.IntRange(min=1)), multiple=True, metavar="NAME NUMBER",
    help="Change a limit from its default. NAME: connections, connections_an_address (for each client address), logins "
    "(at the same time), login_seconds, command_seconds (from a command's first byte to its last), write_seconds "
    "(waiting for a peer that receives nothing), idle_seconds, statement_bytes, long_data_bytes (parameters that are "
    "sent separately), prepared_statements, catalogue_seconds (between two queries of the server's columns).",
)  # fmt: skip
@click.option(
    "--learn", type=click.Path(path_type=Path), metavar="FILE",
    help="Write each new statement of the accounts of --learn-account to this file, for a person to review. Statements "
    "in this file are not yet approved.",
)  # fmt: skip
@click.option(
    "--learn-account", "learn_accounts", multiple=True, metavar="NAME",
    help="Account whose statements are written to the file of --learn. They need no approval, and nothing in their "
    "answers is encrypted. May be repeated.",
)  # fmt: skip
@click.option("--check", "only_check", is_flag=True, help="Check the rules on the server, and exit.")
def gateway(only_check: bool, limits: tuple[tuple[str, int], ...], **options: Any) -> None:
    """Pass only approved statements to a MySQL server, and encrypt protected columns in its answers.

    The rules name the approved statements and the protected columns of each account. SIGHUP reloads the rules; Ctrl-C
    ends the gateway.
    """

    def warn(text: str) -> None:
        click.echo(f"costof: {text}", err=True)

    gateway_options = GatewayOptions(limits=dict(limits), **options)
    if not only_check:
        serve(gateway_options, click.echo, warn)
        return
    # To check the rules, start a gateway on a free port. It reads the rules. If the rules have a [check] account, the
    # gateway also checks them on the server.
    with GatewayProcess() as process:
        for warning in _begin(process, gateway_options.listener("127.0.0.1:0"))[1]:
            warn(warning)
    click.echo(f"{gateway_options.rules} is valid: each column rule matches a column of {gateway_options.server}")
