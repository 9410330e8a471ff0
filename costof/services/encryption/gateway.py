"""The gateway that encrypts columns in front of a database server, and checks that it encrypts as the arms require.

The gateway has one listener for each set of rules that the arms (measured variants) need. The lab (servers that the run
starts) and the target (the user's server) both use this module.
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
# The maximum number of encrypted values that a client leaves unread in a failed or abandoned transaction. An order of
# TPC-C has up to fifteen lines with five columns each.
MAX_UNREAD_VALUES = 75


class ArmLabSettings(Model):
    """The settings of an arm (measured variant) for its server and gateway.

    With `direct`, clients connect to the server without the gateway. `columns` is the name of a file that lists the
    encrypted columns; None for no encryption. `algorithm` is, for example, 'aes-128-gcm'. `server_cores` and
    `gateway_cores` limit the CPU time of server and gateway to a number of cores.
    """

    direct: bool = False
    columns: str | None = None
    algorithm: str | None = None
    server_cores: float | None = None
    gateway_cores: float | None = None

    @classmethod
    def from_arm(cls, arm: PlannedArm) -> ArmLabSettings:
        return cls.model_validate(arm.settings.lab)


@dataclass(frozen=True)
class Rules:
    """The settings of an arm (measured variant) on which the gateway's rules depend.

    Arms with the same settings share a listener of the gateway, and therefore the listener's counters.
    """

    columns: str | None
    algorithm: str | None
    direct: bool = False

    @classmethod
    def from_arm(cls, arm: PlannedArm) -> Rules:
        settings = ArmLabSettings.from_arm(arm)
        return cls(settings.columns, settings.algorithm, settings.direct)

    @property
    def name(self) -> str:
        columns = Path(self.columns).stem if self.columns else "none"
        return f"{columns}-{self.algorithm}" if self.algorithm else columns

    @property
    def encrypts(self) -> bool:
        return self.columns is not None


@dataclass(frozen=True)
class Position:
    """The gateway's place in the network: its IP `address`, and the `server` behind it ('address:port').

    `prefix` has the words to put before the gateway's command line to run it on a host of the lab. `transport` is plain
    or TLS, for connections to the server. With TLS, the gateway shows `certificate` to its clients. `catalogue` is the
    account with which the gateway reads the table definitions.
    """

    address: str
    server: str
    database: str
    catalogue: CatalogueAccount
    prefix: list[str] = field(default_factory=list)
    transport: Transport = PLAIN
    certificate: Path | None = None


@dataclass(frozen=True)
class GatewayObservation(Observation):
    """The counters of the gateway's listener for an arm (measured variant); None if the arm has no gateway."""

    counters: GatewayListenerCounters | None


class GatewayFront(Resource):
    """The gateway process of a run, and checks that it encrypts as the arms (measured variants) require.

    It is a context manager. It writes the rule files into `folder`, which the lab deletes at its end. An arm fails if
    sample rows that its client receives are not encrypted as the arm's rules require.
    """

    def __init__(self, plan: Plan, folder: Path, position: Position, accounts: Iterable[Account]) -> None:
        self._plan = plan
        self._folder = folder
        self._position = position
        self._master_keys = {MASTER_KEY: SecretStr(secrets.token_hex(MASTER_KEY_BYTES))}
        self._accounts = list(accounts)
        self._rules = [rules for rules in dict.fromkeys(map(Rules.from_arm, plan.arms)) if not rules.direct]
        self._samples: dict[Rules, dict[str, str]] = {}
        self._mismatches: dict[Rules, str] = {}

    def _open(self, stack: ExitStack) -> None:
        self._process = stack.enter_context(GatewayProcess(self._position.prefix))
        listeners = [self._listener(number, rules) for number, rules in enumerate(self._rules)]
        self._process.begin(listeners)
        self._listeners = dict(zip(self._rules, listeners, strict=True))

    def client_settings(self, arm: PlannedArm, direct: MysqlSettings) -> MysqlSettings:
        """Return the client settings of an arm. `direct` are the settings for a direct connection to the server.

        A client of the gateway decrypts columns, and reports an error if a column that must be encrypted is plaintext.
        """
        rules = Rules.from_arm(arm)
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
        return _port(self._listeners[Rules.from_arm(arm)])

    def counters(self, server: str) -> Counters | None:
        """Return the counters of the gateway's listener at `server` ('address:port'); None if there is no listener.

        The counters are empty if the gateway has ended.
        """
        if all(server != listener.address for listener in self._listeners.values()):
            return None
        if self.ended() is not None:
            return Counters()
        listener = self._process.counters().listeners[server]
        return Counters(listener.connections, listener.tls)

    def cpu_seconds(self) -> dict[str, float]:
        return {ROLE: self._process.cpu_seconds()}

    def ended(self) -> int | None:
        return self._process.ended()

    @property
    def pid(self) -> int:
        return self._process.pid

    def versions(self) -> dict[str, str]:
        return {ROLE: f"costof-engine {__version__}"}

    def sample(self, arm: PlannedArm, read_stored: Callable[[], Rows], login: Login) -> dict[str, str]:
        """Check sample rows on an arm, as a client without keys receives them. Return facts about them for the report.

        If the rows are not encrypted as the arm's rules require, `failure_reason` returns an error from now on. Arms
        with the same rules are checked only once. `read_stored` reads the same rows directly from the server. `login`
        has the address and the account of the arm's client.
        """
        rules = Rules.from_arm(arm)
        if rules not in self._samples:
            self._samples[rules] = self._sample(rules, read_stored, login)
        return self._samples[rules]

    def failure_reason(self, arm: PlannedArm) -> str | None:
        return self._mismatches.get(Rules.from_arm(arm))

    def observe(self, arm: PlannedArm) -> GatewayObservation:
        rules = Rules.from_arm(arm)
        if rules.direct or self.ended() is not None:
            return GatewayObservation(None)
        return GatewayObservation(self._process.counters().listeners[self._listeners[rules].address])

    def judge(
        self, arm: PlannedArm, before: GatewayObservation, after: GatewayObservation, answer: SliceAnswer
    ) -> Judgement:
        """Return the counts of a slice (measured window).

        The slice has a mismatch if the client's driver decrypted fewer values than the gateway encrypted.
        """
        if before.counters is None or after.counters is None:
            return Judgement()
        change = _change(before.counters, after.counters)
        decrypted = answer.count("decrypted.values") or 0
        # The client's driver reads all values of a result, unless its transaction fails or is abandoned.
        unread = sum(error.count for error in answer.errors) * MAX_UNREAD_VALUES
        encrypted = change["values_encrypted"]
        return Judgement(
            mismatch=values_mismatch(Rules.from_arm(arm), encrypted, decrypted, answer.operations, unread),
            counts={
                "connections counted by the gateway": change["connections"],
                "values encrypted by the gateway": encrypted,
                "values decrypted by the driver": decrypted,
                "bytes of plaintext": change["plaintext_bytes"],
                "bytes of ciphertext": change["ciphertext_bytes"],
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

    def _sample(self, rules: Rules, read_stored: Callable[[], Rows], login: Login) -> dict[str, str]:
        encrypted = encrypted_columns(rules.columns)
        share = len(encrypted) / len(COLUMNS)
        facts = {"columns encrypted": f"{len(encrypted)} of {len(COLUMNS)} ({share:.1%})"}
        if not rules.direct:
            login = replace(login, address=self._position.address, port=_port(self._listeners[rules]))
        try:
            rows, received = read_recorded(login, self._position.database)
        except (MySQLError, OSError) as error:
            self._mismatches[rules] = f"its rules could not be verified: {error}"
            return facts
        sample = compare(read_stored(), rows, received, encrypted)
        if sample.mismatch is not None:
            self._mismatches[rules] = sample.mismatch
            return facts
        return facts | {f"row sample of {len(TABLES)} tables": sample.text}


def loading_arm(plan: Plan, fallback: PlannedArm) -> PlannedArm:
    """Return the arm over whose connections the data is loaded.

    Prefer an arm without the gateway, then an arm without encryption, then `fallback`. With encryption, the gateway
    refuses the statements that load the data, because its rules allow only certain statements.
    """
    direct = (arm for arm in plan.arms if Rules.from_arm(arm).direct)
    unguarded = (arm for arm in plan.arms if not Rules.from_arm(arm).encrypts)
    return next(direct, next(unguarded, fallback))


def values_mismatch(rules: Rules, encrypted: int, decrypted: int, operations: int, unread: int) -> str | None:
    """Return an error text if the counts of a slice (measured window) contradict `rules`; None if they do not.

    `encrypted` is the number of values that the gateway has encrypted, `decrypted` the number that the driver has
    decrypted. Without encryption both must be 0. With encryption they must be equal, except for at most `unread` values
    that the driver did not read.
    """
    if not rules.encrypts:
        text = f"the gateway encrypted {encrypted:,} values and the driver decrypted {decrypted:,} without a rule"
        return text if encrypted or decrypted else None
    if not encrypted and operations:
        return "the gateway encrypted nothing"
    if not decrypted <= encrypted <= decrypted + unread:
        return f"the gateway encrypted {encrypted:,} values, the driver decrypted {decrypted:,}"
    return None


def _port(listener: GatewayListener) -> int:
    return int(listener.address.rpartition(":")[2])


def _change(before: GatewayListenerCounters, after: GatewayListenerCounters) -> dict[str, int]:
    names = ("connections", "values_encrypted", "plaintext_bytes", "ciphertext_bytes")
    return {name: getattr(after, name) - getattr(before, name) for name in names}
