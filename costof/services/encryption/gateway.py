"""The gateway before one server: a set of rules for each kind of arm, a listener for each, and what proves them.

A lab's server and a user's own have the same gateway before them, so both services are made with this.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import SecretStr
from pymysql.err import MySQLError

from costof import __version__
from costof.datasets.tpcc import TABLES
from costof.lab.certificates import write_private
from costof.lab.lab import Resource
from costof.lab.program import Counters
from costof.messages.answers import SliceAnswer
from costof.messages.plan import PLAIN, TlsFiles, Transport
from costof.model import Model
from costof.programs.gateway import (
    NO_LIMITS,
    ROLE,
    GatewayListener,
    GatewayListenerCounters,
    GatewayProcess,
)
from costof.programs.mariadb.connection import Decryption, MysqlSettings
from costof.services import Judgement, Observation
from costof.services.encryption.rules import (
    COLUMNS,
    Account,
    CatalogueAccount,
    encrypted_columns,
    rules_text,
)
from costof.services.encryption.sample import Login, Rows, compare, read_recorded
from costof.study.arms import PlannedArm
from costof.study.plan import Plan

FIRST_PORT = 3307
MASTER_KEY = "costof"
MASTER_KEY_BYTES = 16
# Of the answer that a terminal had not read when its transaction failed or was abandoned: at most fifteen lines of an
# order with five columns each.
MOST_VALUES_UNREAD = 75


class Setting(Model):
    """What an arm asks of the lab. `direct`: past the gateway. `columns`: the file that names what is encrypted."""

    direct: bool = False
    columns: str | None = None
    algorithm: str | None = None
    server_cores: float | None = None
    gateway_cores: float | None = None

    @classmethod
    def of(cls, arm: PlannedArm) -> Setting:
        return cls.model_validate(arm.settings.lab)


@dataclass(frozen=True)
class Rules:
    """What an arm asks of the gateway. Each has a listener of its own, so that its counters tell them apart."""

    columns: str | None
    algorithm: str | None
    direct: bool = False

    @classmethod
    def of(cls, arm: PlannedArm) -> Rules:
        setting = Setting.of(arm)
        return cls(setting.columns, setting.algorithm, setting.direct)

    @property
    def name(self) -> str:
        """Such as '20-aes-128-gcm', or 'none'."""
        columns = Path(self.columns).stem if self.columns else "none"
        return f"{columns}-{self.algorithm}" if self.algorithm else columns

    @property
    def encrypts(self) -> bool:
        return self.columns is not None


@dataclass(frozen=True)
class Position:
    """Where the gateway stands, and before what: `server` is 'address:port'.

    `transport` goes to the server; `certificate` is what the gateway shows its clients where that is
    TLS. `catalogue` sees the database's tables at the server.
    """

    address: str
    server: str
    database: str
    catalogue: CatalogueAccount
    prefix: list[str] = field(default_factory=list)
    transport: Transport = PLAIN
    certificate: Path | None = None


@dataclass(frozen=True)
class Seen(Observation):
    """A reading of the gateway's counters for an arm; none where the arm goes without one."""

    counters: GatewayListenerCounters | None


class GatewayFront(Resource):
    """A context manager within a lab's, in whose folder the rules lie. An arm that its sample contradicts is lost."""

    def __init__(self, plan: Plan, folder: Path, position: Position, accounts: Iterable[Account]) -> None:
        self._plan = plan
        self._folder = folder
        self._position = position
        self._master_keys = {MASTER_KEY: SecretStr(secrets.token_hex(MASTER_KEY_BYTES))}
        self._accounts = list(accounts)
        self._rules = [rules for rules in dict.fromkeys(map(Rules.of, plan.arms)) if not rules.direct]
        self._sampled: dict[Rules, dict[str, str]] = {}
        self._contradicted: dict[Rules, str] = {}

    def _open(self, stack: ExitStack) -> None:
        self._process = stack.enter_context(GatewayProcess(self._position.prefix))
        listeners = [self._listener(number, rules) for number, rules in enumerate(self._rules)]
        self._process.begin(listeners)
        self._listeners = dict(zip(self._rules, listeners, strict=True))

    def client_settings(self, arm: PlannedArm, direct: MysqlSettings) -> MysqlSettings:
        """The server's own, or the gateway's, whose client decrypts.

        What the arm's rules encrypt the client takes in no other form, so that no operation of the run could have gone
        without.
        """
        rules = Rules.of(arm)
        if rules.direct:
            return direct
        columns = encrypted_columns(rules.columns)
        decryption = Decryption(
            master_keys=self._master_keys,
            must_be_encrypted=[f"{self._position.database}.{table}.{column}" for table, column in columns],
        )
        address = self._listeners[rules].address
        return direct.model_copy(update={"addresses": [address], "decryption": decryption})

    def port(self, arm: PlannedArm) -> int:
        return _port(self._listeners[Rules.of(arm)])

    def counters(self, server: str) -> Counters | None:
        """Return the connections at a listener, or None where there is no such listener."""
        if all(server != listener.address for listener in self._listeners.values()):
            return None
        if self.ended() is not None:
            return Counters()
        counted = self._process.counters().listeners[server]
        return Counters(counted.connections, counted.tls)

    def cpu_seconds(self) -> dict[str, float]:
        return {ROLE: self._process.cpu_seconds()}

    def ended(self) -> int | None:
        return self._process.ended()

    @property
    def pid(self) -> int:
        return self._process.pid

    def versions(self) -> dict[str, str]:
        return {ROLE: f"costof-engine {__version__}"}

    def sample(self, arm: PlannedArm, kept: Callable[[], Rows], login: Login) -> dict[str, str]:
        """What a client without keys receives on the arm, in words; once for all arms of the same rules.

        `kept` reads the same rows past the gateway, `login` is where the arm's client goes.
        """
        rules = Rules.of(arm)
        if rules not in self._sampled:
            self._sampled[rules] = self._sample(rules, kept, login)
        return self._sampled[rules]

    def lost(self, arm: PlannedArm) -> str | None:
        return self._contradicted.get(Rules.of(arm))

    def observe(self, arm: PlannedArm) -> Seen:
        rules = Rules.of(arm)
        if rules.direct or self.ended() is not None:
            return Seen(None)
        counted = self._process.counters().listeners[self._listeners[rules].address]
        return Seen(counted)

    def judge(self, arm: PlannedArm, before: Seen, after: Seen, answer: SliceAnswer) -> Judgement:
        """Check that what the gateway encrypted is what the driver decrypted, and count it."""
        if before.counters is None or after.counters is None:
            return Judgement()
        moved = _moved(before.counters, after.counters)
        decrypted = answer.count("decrypted.values") or 0
        # Values may have been sent and not read where a transaction failed or was abandoned, and nowhere else.
        unread = sum(error.count for error in answer.errors) * MOST_VALUES_UNREAD
        return Judgement(
            mismatch=values_mismatch(Rules.of(arm), moved["values_encrypted"], decrypted, answer.operations, unread),
            counts={
                "connections counted by the gateway": moved["connections"],
                "values encrypted by the gateway": moved["values_encrypted"],
                "values decrypted by the driver": decrypted,
                "bytes of plaintext": moved["plaintext_bytes"],
                "bytes of ciphertext": moved["ciphertext_bytes"],
            },
        )

    def _listener(self, number: int, rules: Rules) -> GatewayListener:
        path = self._folder / f"rules-{rules.name}.toml"
        at = self._position
        text = rules_text(rules.columns, at.database, rules.algorithm, self._accounts, self._master_keys, at.catalogue)
        write_private(path, text.encode())
        return GatewayListener(
            address=f"{at.address}:{FIRST_PORT + number}",
            rules_file=path,
            server=at.server,
            tls=TlsFiles.of(at.certificate) if at.certificate else None,
            server_transport=at.transport,
            limits=NO_LIMITS,
        )

    def _sample(self, rules: Rules, kept: Callable[[], Rows], login: Login) -> dict[str, str]:
        encrypted = encrypted_columns(rules.columns)
        share = len(encrypted) / len(COLUMNS)
        facts = {"columns encrypted": f"{len(encrypted)} of {len(COLUMNS)} ({share:.1%})"}
        if not rules.direct:
            login = replace(login, address=self._position.address, port=_port(self._listeners[rules]))
        try:
            rows, received = read_recorded(login, self._position.database)
        except (MySQLError, OSError) as error:
            self._contradicted[rules] = f"it could not be proved: {error}"
            return facts
        found = compare(kept(), rows, received, encrypted)
        if found.wrong is not None:
            self._contradicted[rules] = found.wrong
            return facts
        return facts | {f"row sample of {len(TABLES)} tables": found.told}


def loading_arm(plan: Plan, able: PlannedArm) -> PlannedArm:
    """Return the arm to load the data through: one past the gateway, or one that is not guarded, or one that can run.

    The statements that load the data are not approved for guarded accounts.
    """
    direct = (arm for arm in plan.arms if Rules.of(arm).direct)
    unguarded = (arm for arm in plan.arms if not Rules.of(arm).encrypts)
    return next(direct, next(unguarded, able))


def values_mismatch(rules: Rules, encrypted: int, decrypted: int, operations: int, unread: int) -> str | None:
    """Why the counts of a slice do not prove its rules, in words; None where they do.

    A driver reads all that it is sent, so both ends count the same, but for what is left `unread` at most.
    """
    if not rules.encrypts:
        told = f"the gateway encrypted {encrypted:,} values and the driver decrypted {decrypted:,} without a rule"
        return told if encrypted or decrypted else None
    if not encrypted and operations:
        return "the gateway encrypted nothing"
    if not decrypted <= encrypted <= decrypted + unread:
        return f"the gateway encrypted {encrypted:,} values, the driver decrypted {decrypted:,}"
    return None


def _port(listener: GatewayListener) -> int:
    return int(listener.address.rpartition(":")[2])


def _moved(before: GatewayListenerCounters, after: GatewayListenerCounters) -> dict[str, int]:
    names = ("connections", "values_encrypted", "plaintext_bytes", "ciphertext_bytes")
    return {name: getattr(after, name) - getattr(before, name) for name in names}
