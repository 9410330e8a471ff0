"""Every message of `costof` to a user, in one place: what is wrong, and what to do next.

A `ErrorText` ends the command; a `WarningText` is carried in the result and shown beside the figures. Each is a text with
fields by name, which mypy holds every use of it to; so none can be worded in two ways. None holds a secret: what is
shown of a URL is built from its parts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Generic, ParamSpec

EXIT_ANSWERED = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_PARTIAL = 3
EXIT_EXCEEDED = 4

Fields = ParamSpec("Fields")


@dataclass(frozen=True, eq=False)
class Message(Generic[Fields]):
    """A text of its fields. `exit_status`: of the command that it ends."""

    text: Callable[Fields, str]
    exit_status: int = EXIT_FAILED


def failed(text: Callable[Fields, str]) -> Message[Fields]:
    return Message(text, EXIT_FAILED)


def usage(text: Callable[Fields, str]) -> Message[Fields]:
    return Message(text, EXIT_USAGE)


class ErrorText:
    """What is wrong and what to do."""

    # A table: each text follows its fields.
    # fmt: off
    UNKNOWN_STUDY = usage(lambda name, nearest: f"there is no study '{name}'{nearest}; `costof list` shows them all")
    BROKEN_STUDY = usage(lambda path, detail: f"the study file {path} is not valid: {detail}")
    UNKNOWN_FACTOR = usage(lambda name, study, nearest, allowed: f"'{name}' is no factor of {study}{nearest}; it has: "
        f"{allowed}")
    UNKNOWN_LEVEL = usage(lambda level, factor, allowed: f"'{level}' is no level of {factor}; choose from: {allowed}")
    LAB_ONLY_FACTOR = usage(lambda factor: f"{factor} can be varied in a lab only; a target's servers are taken as "
        "they are")
    LEVEL_APPLIES_NOWHERE = usage(lambda factor, condition: f"{factor} applies only with {condition}, which no arm of "
        "this run has")
    NOT_AN_ASSIGNMENT = usage(lambda text: f"'{text}' is not factor=level[,level…], as in --set transport=plain,tls")
    BAD_NUMBER = usage(lambda name, low, high, text: f"{name} must be a whole number from {low} to {high}, not "
        f"'{text}'")
    BAD_DURATION = usage(lambda text: f"'{text}' is no duration; write it as 45s, 5m or 1h30m")
    BAD_PRECISION = usage(lambda text: f"'{text}' is no precision; write a percentage above 0, such as 2%")
    UNKNOWN_METRIC = usage(lambda name, study, nearest, allowed: f"'{name}' is no metric of {study}{nearest}; it has: "
        f"{allowed}")
    BAD_LIMIT = usage(lambda text, metric, example: f"'{text}' is no limit for '{metric}'; write it as {example}")
    NOT_A_COMMAND = usage(lambda text, detail: f"the command '{text}' cannot be run: {detail}")
    SHELL_SIGN = usage(lambda text, sign, remedy, otherwise: f"'{text}' runs without a shell and holds '{sign}', which "
        f"only a shell understands; {remedy}, or {otherwise}")
    UNKNOWN_WORD = usage(lambda text, word, nearest: f"'{text}' holds {{{word}}}, which a level of some arm does not "
        f"set{nearest}; write {{{{{word}}}}} for the very signs")
    TOO_FEW_COMMANDS = usage(lambda: "give two commands or more, each in quotes: costof versus 'sleep 0.1' 'sleep 0.2'")
    COMMAND_NAMES_MISMATCH = usage(lambda names, commands: f"{names} different names for {commands} commands; give each one "
        "its own -n")
    UNKNOWN_READER = usage(lambda name, nearest, allowed: f"there is no reader '{name}'{nearest}; choose from: "
        f"{allowed}")
    UNKNOWN_CLIENT = usage(lambda name, nearest, allowed: f"there is no client '{name}'{nearest}; choose from: "
        f"{allowed}")
    CLIENT_FOR_OTHER_SERVICE = usage(lambda client, of, study, service: f"{client} is a client of {of}, and {study} asks "
        f"{service}")
    CLIENT_WITHOUT_LOAD = usage(lambda client: f"{client} goes as fast as it can, which is no load of so many "
        "connections a second; leave out --load or --client")
    BAD_RATE = usage(lambda text: f"'{text}' is no load; write 300/s, 90/min or 5000/h")
    BAD_TIME = usage(lambda text: f"'{text}' is no time to think; write 20ms or 2s, up to an hour")
    LOAD_INCOMPLETE = usage(lambda option, other: f"{option} does not say how much is asked; add {other}")
    LOAD_CONTRADICTORY = usage(lambda option, other: f"{option} says of a load what {other} says otherwise; leave out one "
        "of them")
    NO_LOAD = usage(lambda study: f"clients of {study} open no new connections; say over how many standing ones their "
        "operations go: --pool 8")
    NO_RATE = usage(lambda study, option: f"{study} asks commands, and none of them can be told {option}; where one "
        f"takes a rate, write {{rate}} in its line and say --load 300/s")
    RATE_WITHOUT_LOAD = usage(lambda study: f"the commands of {study} are told a rate; say it: --load 300/s")
    NO_LIMITS = usage(lambda path: f"{path} was run without limits; say one: --limit METRIC LIMIT")
    ROUNDS_ARE_EXACT = usage(lambda options: f"--rounds says exactly when a run ends; leave out {options}, or --rounds")
    RESTARTS_ARE_EXACT = usage(lambda: "--restarts says how many starts a run has, however precise; leave out "
        "--precision")
    RESTARTS_NEED_LAB = usage(lambda: "--restarts starts the lab's servers anew, and a target's are nobody's to "
        "restart; leave out --restarts, or --target")
    UNKNOWN_PROFILE = usage(lambda study, name, allowed: f"{study} has no profile '{name}'; choose from: {allowed}")
    OUTPUT_NOT_WRITABLE = failed(lambda path, detail: f"cannot write to {path}: {detail}; choose another folder with "
        "--out")
    FILE_NOT_WRITABLE = failed(lambda path, detail: f"cannot write {path}: {detail}; name another file")
    FILE_EXISTS = failed(lambda path: f"{path} is there already; name another file")
    NOT_A_STUDY_FILE = usage(lambda path: f"a study's file ends with .toml, and {path} does not")
    NO_BROWSER = failed(lambda names: f"--pdf is printed by a browser, and none of {names} is on PATH; install one "
        "(apt-get install chromium), or print report.html from the one that you have")
    NOT_PRINTED = failed(lambda browser, path, detail: f"{browser} has not printed {path}: {detail}; print report.html "
        "from a browser")
    NEEDS_EXPORT = failed(lambda form, library: f"--to {form} needs {library}: pip install 'costof[export]'")
    OUTPUT_EXISTS = failed(lambda path: f"{path} already holds something; choose another folder with --out")
    NOT_A_RUN = usage(lambda path, detail: f"{path} is not the folder of a run: {detail}")
    NO_RUNS = usage(lambda path, detail: f"{path} holds no runs{detail}; name the folder that their folders are in, "
        "such as runs")
    OTHER_STUDY = usage(lambda first, asked, second, other: f"{first} asked {asked} and {second} asked {other}; costs "
        "are compared between two runs of one study")
    SEVERAL_STUDIES = usage(lambda path, studies: f"{path} holds runs of {studies}; say which with --study")
    OTHER_LEDGER = failed(lambda path, found, known: f"{path} was written by another version of costof (ledger "
        f"{found}, this one reads {known}); read its report.html, or make the run again")
    NOTHING_MEASURED = failed(lambda detail: f"nothing was measured: {detail}")
    ENGINE_MISSING = failed(lambda detail: f"no costof-engine to measure with ({detail}); run `make setup`, reinstall "
        "the wheel, or set COSTOF_ENGINE to its path")
    TLS_LIBRARY_MISSING = failed(lambda library: f"no costof-engine is built with the TLS library {library}; `make "
        "tls-libraries` builds it, in the sources of costof")
    OTHER_TLS_LIBRARY = failed(lambda library, found: f"the costof-engine that is to run the TLS library {library} "
        f"says that it runs {found}; build it anew: `make tls-libraries`")
    INSTRUMENT_FAILED = failed(lambda instrument, detail: f"{instrument} stopped: {detail}")
    MONGOD_MISSING = failed(lambda detail: f"no mongod to run the lab with ({detail}); install one, or set "
        "COSTOF_MONGOD to its path")
    PROGRAM_MISSING = failed(lambda program, detail, package, variable: f"no {program} to run the lab with ({detail}); "
        f"install it (Debian: apt-get install {package}), or set {variable} to its path")
    NOT_FETCHED = failed(lambda program, detail: f"cannot fetch {program}: {detail}")
    NEEDS_ROOT = failed(lambda what, detail: f"{what} needs root: {detail}; run costof as root, or leave it out")
    LAB_FAILED = failed(lambda detail: f"the lab did not start: {detail}")
    NOTHING_TO_COMPARE = usage(lambda control: f"the levels asked for leave only the control ({control}): add one to "
        "compare it with")
    ARMS_CANNOT_RUN = failed(lambda detail: f"no arm can run: {detail}")
    BAD_TARGET = usage(lambda study, detail: f"that URL is no target for {study}: {detail}")
    PASSWORD_MISSING = usage(lambda target: f"{target} names a user and no password is given; say --password-file or "
        "--ask-password, or set COSTOF_PASSWORD")
    PASSWORD_TWICE = usage(lambda ways: f"the password is given twice, by {ways}; give it once")
    PASSWORD_FILE = usage(lambda path, detail: f"cannot take the password from {path}: {detail}; it holds one line, "
        "the password")
    PASSWORD_VARIABLE = usage(lambda name: f"what {name} holds is no UTF-8")
    TARGET_OPTION_UNUSED = usage(lambda option: f"{option} goes with --target mongodb://… or mysql://…; give that too, "
        "or leave it out")
    BAD_SERVER_CPU = usage(lambda text, detail: f"--server-cpu '{text}' is no command: {detail}")
    SERVER_CPU_UNREAD = failed(lambda program, detail: f"--server-cpu {program}: {detail}; it must print the seconds "
        "of CPU time that the servers have used so far")
    PLAIN_NOT_ALLOWED = usage(lambda target, arms, factor, protected: f"TLS is asked of {target}, and {arms} would log "
        f"in without: say --allow-plain to have that measured too, or --set {factor}={protected} to have figures of "
        "TLS alone")
    BAD_DATABASE = usage(lambda name, most: f"'{name}' is no name for a database of costof's; take up to {most} "
        "letters, digits and _, a letter first, and none of the server's own")
    PRIVILEGES_MISSING = failed(lambda account, actions, database, target, grant: f"{account} may not {actions} in "
        f"{database} on {target}; nothing was written. Somebody who may grant it says: {grant}")
    NO_SERVICE = usage(lambda what, name: f"the study asks for the {what} '{name}', which costof does not know")
    UNKNOWN_SERVICE_SETTING = usage(lambda protocol, detail: f"the study asks of its service what {protocol} cannot be asked: "
        f"{detail}")
    NO_TARGET = usage(lambda study: f"{study} says itself what its commands are run against: leave --target out")
    LAB_ONLY_PROGRAM = usage(lambda program: f"{program} can be asked in a lab only: leave --target out")
    NO_ENTRANCE_TO_TARGET = usage(lambda levels, factor, rest: f"{levels} can be had in a lab only: costof puts "
        f"neither a tunnel nor a pool before your servers; say --set {factor}={rest}, and --pooler URL where a pool of "
        "your own stands")
    TARGET_ONLY_LEVEL = usage(lambda factor, levels: f"{factor}={levels} asks a pool of your own: say where it is, "
        "--target URL --pooler URL, or choose others")
    POOLER_UNUSED = usage(lambda study: f"{study} asks through no pool; leave out --pooler, or ask postgres-pooling")
    NO_POOLER = failed(lambda pooler, target, detail: f"{pooler} is no pool before {target}: {detail}")
    TARGET_LACKS_TERMINATION = usage(lambda levels, rest: f"termination {levels} can be had in a lab only: of your "
        f"servers costof knows the balancer alone; say --set termination={rest}")
    PLAIN_TARGET_MISSING = usage(lambda study: f"the control of {study} is plain HTTP: say with --plain-target "
        "http://… where your balancer takes it")
    PLAIN_TARGET_UNUSED = usage(lambda: "--plain-target goes with the --target of a study of HTTP; give that too, or "
        "leave it out")
    TARGET_UNREACHABLE = failed(lambda target, detail: f"cannot reach {target}: {detail}")
    TARGET_REFUSES_LOGIN = failed(lambda target, detail: f"{target} refuses the user or the password: {detail}")
    TARGET_FAILED = failed(lambda target, detail: f"{target}: {detail}")
    TARGET_OCCUPIED = failed(lambda database, target, what: f"the database '{database}' on {target} {what}; nothing "
        "was touched. Take another with --database; `costof clean --target …` lists and removes what a killed run has "
        "left")
    NO_REPLICA_SET = failed(lambda target: f"{target} is no replica set, so nothing is replicated; name one")
    TLS_CA_INVALID = failed(lambda path, detail: f"{path} is no CA file: {detail}; --tls-ca wants certificates in PEM")
    AB_URL = usage(lambda detail: f"that is no URL to ask ({detail}); write it as http://shop.example/path")
    AB_CONCURRENCY = usage(lambda: "cannot use concurrency level greater than total number of requests; raise -n or "
        "lower -c")
    AB_HEADER = usage(lambda text: f"{text} is no header; write it as -H 'Name: value', on one line")
    AB_POST = usage(lambda: "costof ab sends GET requests and no body (-p); have ab itself send them: costof versus "
        "--read ab 'ab -p FILE -T TYPE -n 1000 URL' 'ab -p FILE -T TYPE -n 1000 OTHER_URL'")
    AB_UNANSWERED = failed(lambda url, detail: f"cannot ask {url}: {detail}")
    YCSB_FILE_UNREADABLE = usage(lambda path, detail: f"cannot read {path}: {detail}; -P wants a property file, or one "
        "of workloada to workloadf, which are built in")
    YCSB_NOT_A_PROPERTY = usage(lambda: "-p wants name=value, as in -p recordcount=1000")
    YCSB_BAD_PROPERTY = usage(lambda name, allowed: f"{name} must be {allowed}")
    YCSB_NEEDS = usage(lambda what, option: f"{what} is missing; give it with -p {option}")
    YCSB_GO_NAMES = usage(lambda names, instead: f"go-ycsb's names are not known here: instead of {names} write "
        f"{instead}")
    YCSB_TABLE_OCCUPIED = failed(lambda table, target: f"{table} on {target} holds records already, and nothing was "
        "written; load into an empty one, or say where to go on with -p insertstart=N")
    YCSB_TABLE_EMPTY = failed(lambda table, target: f"{table} on {target} holds no records; load some first with "
        "costof ycsb load")
    YCSB_TABLE_MISSING = failed(lambda table, target, statement: f"there is no {table} on {target}; as YCSB wants it, "
        f"make it with: {statement}")
    GATEWAY_ADDRESS = usage(lambda text: f"'{text}' is no address to listen on; write it as 127.0.0.1:3307")
    GATEWAY_LEARN = usage(lambda: "--learn and --learn-account work only together; add the other one")
    GATEWAY_REFUSED = usage(lambda detail: f"the gateway does not start: {detail}")
    TPCC_UNSOUND = failed(lambda where, detail: f"the data loaded into {where} is not TPC-C's ({detail}); start again, "
        "and if it stays so, look for what else writes there")
    HOSTS_OPTION_UNUSED = usage(lambda option: f"{option} goes with --hosts auto or ray://host:10001; give that too, "
        "or leave it out")
    HOSTS_ADDRESS = usage(lambda text: f"'{text}' is no Ray cluster; say auto on one of its machines, or "
        "ray://host:10001 from elsewhere")
    HOSTS_LABEL = usage(lambda text: f"'{text}' is no label of a host; write it as pool=load, as ray start --labels "
        "has it")
    HOSTS_NEED_TARGET = usage(lambda: "--hosts loads servers of your own, and a lab is of this machine alone; say "
        "--target URL, or leave out --hosts")
    HOSTS_CANNOT = usage(lambda what, detail: f"{what} cannot be had on other hosts: {detail}; leave out --hosts, or "
        "ask without")
    NEEDS_RAY = failed(lambda: "--hosts needs Ray: pip install 'costof[ray]'")
    HOSTS_UNREACHABLE = failed(lambda address, detail: f"no Ray cluster answers at {address}: {detail}; start one (ray "
        "start --head), or name another")
    HOSTS_TOKEN = failed(lambda address, detail: f"the Ray cluster at {address} is closed to this command: {detail}; "
        "copy ~/.ray/auth_token from one of its hosts")
    HOSTS_VERSION = failed(lambda address, detail: f"the Ray cluster at {address} runs other versions: {detail}; "
        "install the same on both")
    HOSTS_OPEN = failed(lambda address: f"whoever reaches the Ray cluster at {address} may run code on it; start it "
        "with RAY_AUTH_MODE=token on every host, or say --hosts-unauthenticated")
    HOSTS_NONE = failed(lambda address, detail, nodes: f"the Ray cluster at {address} has no host{detail} among its "
        f"{nodes}; see ray status")
    HOSTS_FEW = failed(lambda address, found, least: f"the Ray cluster at {address} has {found} that can measure, and "
        f"--hosts-least says {least}; start more")
    HOST_REFUSED = failed(lambda host, detail: f"{host} cannot measure: {detail}")
    HOSTS_FAILED = failed(lambda detail: f"{detail}")
    HOST_LOST = failed(lambda host, detail: f"{host} was lost: {detail}")
    OTHER_HOSTS = usage(lambda path, before, now: f"{path} was measured from {before}, and now it would be from {now}; "
        "--resume goes on as it was begun: say --hosts where it had them, and start what is missing")
    RESUME_DIFFERS = usage(lambda options: f"--resume goes on with a run as it was planned; leave out {options}")
    RESUMED_WITHOUT_TARGET = usage(lambda path, options: f"{path} was begun without --target; leave out {options} to "
        "resume it")
    RESUMED_TARGET_DIFFERS = usage(lambda path, before, now, option: f"{path} was begun {before} and would go on "
        f"{now}; leave out {option} to resume it as it was begun, or begin a new run")
    RESUME_NEEDS = usage(lambda path, what, how: f"{path} was begun with {what}, which it does not keep; to resume it, "
        f"give {how} again")
    RUN_COMPLETE = usage(lambda path, extent, further: f"{path} is complete ({extent}); `costof show {path}` prints "
        f"its answer{further}")
    OTHER_SERVER = usage(lambda target, fact, before, now: f"{target} is not the server that the run was begun on: its "
        f"{fact} was {before} and is now {now}; nothing was measured. Begin a new run")
    # fmt: on


class WarningText:
    """What a reader must know beside the figures."""

    # fmt: off
    REPLICATE_DIFFERS = Message(lambda metrics: f"the identical copy of the control differs from it in {metrics} by more "
        "than chance: this run's noise is not random, so trust no effect of that size")
    COMMAND_NOTE = Message(lambda arm, note: f"{arm}: {note}")
    LEFT_RUNNING = Message(lambda arm, children, slices: f"{arm} left {children} running in the background (in "
        f"{slices}): costof ended it, and its work is in no figure; let the command wait for it")
    LEFT_BEHIND = Message(lambda arm, children, slices: f"{arm} left {children} running as a daemon (in {slices}), "
        "which went on beside the slices that followed, and its work is in no figure; start it with `before` and end "
        "it with `after`")
    EXPOSED_IN_COMMAND = Message(lambda places: f"what follows {places} looks like a password, and the report, the "
        'plan and the process list show it; pass it in the environment ("$NAME" under --shell), by [secrets] of a '
        "study's file, or in a file that the program reads")
    LIBRARY_NOT_IN_DRIVERS = Message(lambda libraries: f"{libraries} on the wire alone: an application's driver links a "
        "TLS library of its own")
    EVIDENCE_MISSING = Message(lambda slices, arm, detail: f"{slices} of {arm} discarded: {detail}")
    LAB_ONLY_LEVELS = Message(lambda levels: f"left out, since only a lab has them: {levels}")
    BUDGET_HOLDS_FEW = Message(lambda rounds, needed, budget: f"measuring; this budget holds about {rounds} of the "
        f"{needed} rounds that an answer takes: for one, end this run and give --budget {budget} or more")
    APP_CANNOT = Message(lambda arm, detail: f"{arm} has no application view: {detail}")
    CLIENT_CANNOT = Message(lambda arm, client, detail: f"{arm} has no figures of {client}, which {detail}")
    ARM_REFUSED = Message(lambda arm, detail: f"{arm} cannot run: {detail}")
    ROUNDS_DISTURBED = Message(lambda discarded, rounds: f"{discarded} of {rounds} rounds are in no figure: other "
        "programs or the hypervisor took far more of this machine's CPU in them than usual, or its clock jumped")
    NEIGHBOURS = Message(lambda share: f"other programs and the hypervisor had {share:.0%} of this machine's CPU time "
        "in the median round")
    STEAL = Message(lambda share: f"the hypervisor took {share:.1%} of this machine's CPU time during the run; "
        "intervals are wider for it")
    ARM_LOST = Message(lambda arm, detail: f"{arm} was lost in the middle of the run: {detail}")
    BUSY = Message(lambda load, cores: f"the machine was busy before the run began (load {load:.1f} on {cores} cores)")
    SERVER_COUNTERS_HIDDEN = Message(lambda detail: "the server's own counters cannot be read, so its side of the "
        f"evidence is missing: {detail}")
    SERVER_REFUSES = Message(lambda what, detail: f"the server refuses {what} ({detail}): the run does without it, and "
        "no figure needs it")
    SERVER_COUNTS_NONE = Message(lambda opened, what: f"the server counted none of the first {opened} {what}: either "
        "its counter does not count them, or they end at something before the server. The evidence of them is the "
        "client's alone")
    NO_NODE_SHARES = Message(lambda: "without root the members have no hosts and no CPU shares of their own: they "
        "compete for this machine, which hides how much the primary is relieved")
    PRIMARY_DEPOSED = Message(lambda nodes, times: f"the primary of the set of {nodes} was deposed {times} times and "
        "made primary again; slices in which it was not primary were discarded")
    TREE_HIDDEN = Message(lambda detail: f"this user may not see who follows whom nor how far members lag ({detail}); "
        "grant it the role clusterMonitor to have them shown")
    VERIFICATION_OFF = Message(lambda arm, level: f"{arm} does not verify the server's certificate fully (verify = "
        f"{level})")
    NO_CPU_SHARE = Message(lambda hosts, factors: f"without root {hosts} had no CPU share of their own and used what "
        f"was free on this machine: {factors} had no effect")
    NOT_VERIFIED = Message(lambda arms, how: f"no certificate was verified with {arms} ({how}): anybody can stand in "
        "the middle of such a connection")
    FEW_ROUNDS = Message(lambda units, needed: f"only {units}: intervals are wide and verdicts are withheld below "
        f"{needed}")
    YCSB_WITHOUT_EFFECT = Message(lambda names: "ignored, since it changes nothing of what is done or measured here: "
        f"{names}")
    YCSB_UNKNOWN = Message(lambda names: f"ignored, since costof does not know it: {names}")
    YCSB_FAILED = Message(lambda count, name, detail: f"{count} operations failed with '{name}', the first one: "
        f"{detail}")
    TPCC_UNSOUND = Message(lambda detail: "after the run TPC-C's data was not sound, so its transactions were not kept "
        f"apart as their isolation promises: {detail}")
    HOST_CANNOT = Message(lambda hosts, detail: f"from {hosts}: {detail}")
    HOST_LATE = Message(lambda host, milliseconds: f"{host} began {milliseconds} ms after the others")
    HOSTS_NOT_SIMULTANEOUS = Message(lambda share: f"the hosts measured together for {share} of the slice")
    HOSTS_DIFFER = Message(lambda what, found: f"hosts saw different things: {what} was {found}")
    HOST_GONE = Message(lambda host, detail, rest: f"{host} was lost in the middle of the run ({detail}), which went "
        f"on with the {rest} others")
    HOSTS_IN_THE_CLEAR = Message(lambda: "what the cluster's machines say to each other can be read on the way, but "
        "for passwords: set RAY_USE_TLS")
    HOSTS_OPEN = Message(lambda: "whoever reaches the Ray cluster may run code on its hosts")
    HOSTS_ONE_MACHINE = Message(lambda hosts: f"{hosts} are one machine (the same boot id): they take CPU from each "
        "other")
    HOSTS_WITHOUT_APPLICATIONS = Message(lambda views: f"left out, since hosts have the engine alone: {views}")
    HOST_BUSY = Message(lambda host, share: f"{host} had {share} of its CPU time in use during slices: what it "
        "measured may be its own limit")
    HOST_SLOW = Message(lambda host, effect, metric: f"{host} answers {effect} slower than the other hosts: '{metric}'")
    HOST_DECIDES = Message(lambda host, what, verdict: f"without {host} the verdict on {what} would be another: it is "
        f"{verdict} with all hosts")
    HOST_PORTS = Message(lambda host, connections, ports: f"{host} opened up to {connections} connections a minute and "
        f"has {ports} ports for them, each of which rests for a minute after its use: more hosts, or a wider "
        "net.ipv4.ip_local_port_range, keep them from running out")
    NO_CONTROL = Message(lambda: "the control cannot run, so there are figures but no effects")
    # fmt: on


class Undecipherable:
    """Why the application's driver (`costof.encrypted`) cannot read a column. Texts never take a value or a key."""

    # fmt: off
    MASTER_KEY = Message(lambda: "a master key is 16 bytes, or 32 hexadecimal digits")
    KEY_MISSING = Message(lambda name: f"it needs the master key {name}, which is not among master_keys")
    KEY_WRONG = Message(lambda name: f"master key {name}: the master key is another one, or the data key was changed")
    KEY_PAST = Message(lambda: "its data key is not the session's present one")
    KEYS_GONE = Message(lambda: "the connection was closed, and its keys were erased with it: connect anew")
    ENVELOPE = Message(lambda: "what follows the column's definition is no intact envelope of a gateway")
    ENVELOPE_OLDER = Message(lambda: "the gateway speaks an older envelope: update the gateway")
    VALUE = Message(lambda: "a value was changed, or encrypted for another column or session")
    ORDER = Message(lambda: "a value came twice, out of order, or where another is missing")
    DEMAND = Message(lambda name: f'must_be_encrypted: {name} is not a list of "database.table.column", without '
        "patterns or quotes")
    DEMANDED = Message(lambda: "it must be encrypted for this client, and is not")
    # fmt: on


#: How OpenSSL says that it knows no authority that has signed a certificate.
_UNTRUSTED = re.compile(r"self[- ]signed certificate|unable to get (?:local )?issuer certificate")
UNTRUSTED_HINT = "; no known authority has signed it: give the file of the authority that has: --tls-ca FILE"


class CostofError(Exception):
    """A problem a user can do something about: one line, an exit status, no traceback."""

    def __init__(self, problem: Message[Fields], *args: Fields.args, **fields: Fields.kwargs) -> None:
        self.problem = problem
        self.exit_status = problem.exit_status
        text = problem.text(*args, **fields)
        super().__init__(text + UNTRUSTED_HINT if _UNTRUSTED.search(text) and "--tls-ca" not in text else text)


def nearest(name: str, known: list[str]) -> str:
    """' (did you mean X?)' for a name close to a known one, else nothing."""
    found = get_close_matches(name, known, n=1, cutoff=0.5)
    return f" (did you mean '{found[0]}'?)" if found else ""
